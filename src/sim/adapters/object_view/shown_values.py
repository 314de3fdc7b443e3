"""The values of captured objects as they are shown: plain values, references, and what holds further values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import attrs


@attrs.frozen
class Word:
    """A value that is shown by a name: a class, a function, a member of an enumeration.

    Attributes:
        text: shown as it is.
    """

    text: str


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
    """

    step: str
    label: str
    value: Any


@attrs.frozen
class Composite:
    """A value that holds others.

    Attributes:
        title: the name of its class; "" for a list, a tuple, a dict or a set.
        opening, closing: the brackets.
        entries: the values in it.
        is_list: True if its entries are alike, and their number tells something.
        is_dict: True for a dict.
    """

    title: str
    opening: str
    closing: str
    entries: Sequence[ShownPart]
    is_list: bool = False
    is_dict: bool = False


def items(values: Sequence[Any], opening: str = "[", closing: str = "]", title: str = "") -> Composite:
    """A sequence."""
    entries = [ShownPart(f"[{index}]", "", value) for index, value in enumerate(values)]
    return Composite(title, opening, closing, entries, is_list=True)


def attributes(title: str, names: Sequence[str], values: Sequence[Any]) -> Composite:
    """An object. Raises ValueError for another number of values."""
    entries = [ShownPart(f".{name}", f"{name}=", value) for name, value in zip(names, values, strict=True)]
    return Composite(title, "(", ")", entries)


def pairs(keys: Sequence[str], values: Sequence[Any], title: str = "") -> Composite:
    """A dict. keys: as texts."""
    entries = [ShownPart(f"[{key}]", f"{key}: ", value) for key, value in zip(keys, values, strict=True)]
    opening, closing = ("({", "})") if title else ("{", "}")
    return Composite(title, opening, closing, entries, is_list=True, is_dict=True)


def last_name(name: str) -> str:
    """The name of a class without its module, from the name under which a tape has it."""
    return name.rpartition(":")[2].rpartition(".")[2]
