"""The values of captured objects as they are shown: plain values, references, and what holds further values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import attrs

NOT_KNOWN = object()  # The value of a Word that stands for nothing that can be compared.
SET_STEP = " element "  # In the path of an element of a set, before its number.


@attrs.frozen
class Word:
    """A value that is shown by a name: a class, a function, a member of an enumeration.

    Attributes:
        text: shown as it is.
        hidden: its content, which is not shown, and which a comparison takes into account.
        value: what it stands for, if that can be calculated with or compared: a decimal number, a date, an array that is
            shown elsewhere, a Member; NOT_KNOWN for others. Two words with one text and one content are equal.
    """

    text: str
    hidden: bytes = b""
    value: Any = attrs.field(default=NOT_KNOWN, eq=False, repr=False)


@attrs.frozen
class Member:
    """A member of an enumeration, or several of a flag together. Its class is not looked for.

    Attributes:
        kind: the name of the class on the tape, "module:qualified name".
        name: of the member; None for members of a flag together.
        value: of members together; NOT_KNOWN for a single one: a tape has its name alone.
    """

    kind: str
    name: str | None
    value: Any = NOT_KNOWN


class Source(Protocol):
    """Where the objects of references are."""

    def composite(self, number: Any) -> Composite:
        """The object of a number. Raises ValueError or LookupError for a number that it does not have."""


@attrs.frozen
class Ref:
    """A reference to an object that may be shown elsewhere.

    Attributes:
        source: where it is.
        number: its number, or its name, there.
    """

    source: Source
    number: Any


@attrs.frozen
class ShownPart:
    """A value inside another.

    Attributes:
        step: what follows the path of the holder in the path of the value: ".hp", "[3]" or "['wolf']".
        label: what stands before the value in the text of the holder: "hp=", "" or "'wolf': ".
        value: the value.
        key: the object that is its key in a dict; None for other keys, which are in the step.
    """

    step: str
    label: str
    value: Any
    key: Ref | None = None


@attrs.frozen
class Composite:
    """A value that holds others.

    Attributes:
        title: the name of its class; "" for a list, a tuple, a dict or a set.
        opening, closing: the brackets.
        entries: the values in it.
        is_list: True if its entries are alike, and their number tells something.
        is_dict: True for a dict.
        is_set: True for a set or a frozenset.
        has_order: False for a set whose order is not recorded.
        hidden: content that is not shown, and which a comparison takes into account.
        value: what it stands for as a whole, as of a class derived from str; NOT_KNOWN for others.
    """

    title: str
    opening: str
    closing: str
    entries: Sequence[ShownPart]
    is_list: bool = False
    is_dict: bool = False
    is_set: bool = False
    has_order: bool = True
    hidden: Any = None
    value: Any = attrs.field(default=NOT_KNOWN, eq=False, repr=False)


def items(values: Sequence[Any], opening: str = "[", closing: str = "]", title: str = "") -> Composite:
    """A sequence."""
    entries = [ShownPart(f"[{index}]", "", value) for index, value in enumerate(values)]
    return Composite(title, opening, closing, entries, is_list=True)


def attributes(title: str, names: Sequence[str], values: Sequence[Any]) -> Composite:
    """An object. Raises ValueError for another number of values."""
    entries = [ShownPart(f".{name}", f"{name}=", value) for name, value in zip(names, values, strict=True)]
    return Composite(title, "(", ")", entries)


def pairs(
    keys: Sequence[str], values: Sequence[Any], title: str = "", objects: Sequence[Ref | None] | None = None
) -> Composite:
    """A dict. keys: as texts. objects: the keys that are objects, None for the others."""
    entries = [
        ShownPart(f"[{key}]", f"{key}: ", value, one)
        for key, value, one in zip(keys, values, objects or [None] * len(keys), strict=True)
    ]
    opening, closing = ("({", "})") if title else ("{", "}")
    return Composite(title, opening, closing, entries, is_list=True, is_dict=True)


def last_name(name: str) -> str:
    """The name of a class without its module, from the name under which a tape has it."""
    return name.rpartition(":")[2].rpartition(".")[2]
