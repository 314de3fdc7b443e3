"""Texts in a standard form, JSON or msgpack, as the values that they hold: a state is often kept as one.

A text is read only as a whole, by a parser that runs no code. What cannot be read so is left as text or bytes.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import attrs
import msgpack
import numpy as np

from sim.adapters.object_view.shown_values import Composite, Ref, ShownPart, Word, items

SIZE_MAX = 4 << 20  # Bytes.
# To read and compare two texts takes about 20 microseconds a value, and a second is what a report may take: longer ones are
# compared as bytes.
VALUES_MAX = 50_000
_UNREADABLE = (ValueError, TypeError, RecursionError, OverflowError, msgpack.UnpackException)
_ENDS = {"{": "}", "[": "]", '"': '"'}  # Of a text in JSON, by its first character.


@attrs.frozen
class DocumentTree:
    """The values of a text, in place of those of captured objects: no two of its paths lead to one object.

    Attributes:
        entries: the text, by its name.
    """

    entries: Sequence[ShownPart]

    @property
    def outermost(self) -> dict[str, Ref]:
        """No objects."""
        return {}

    def path_of(self, _: Ref) -> str | None:
        """No path."""
        return None

    other_path_of = path_of

    def graph_object(self, _: Ref) -> Ref | None:
        """No object."""
        return None

    def elsewhere_than(self, _: Ref, _path: str) -> str | None:
        """No path."""
        return None

    def origin_of(self, _: Ref) -> str:
        """No part of a state."""
        return ""

    def object_at(self, _: str) -> Ref | None:
        """No object."""
        return None


def read_documents(one: Any, two: Any) -> tuple[Composite, Composite] | None:
    """The values of two texts that differ; None unless both are documents in one standard form, written as often.

    A text is a str, bytes, or a row of bytes of which the end may be unused, which is then zero.
    """
    contents = _content(one), _content(two)
    if contents[0] == contents[1]:
        return None
    for read in (_from_json, _from_msgpack):
        first = None if contents[0] is None else read(contents[0])
        second = None if contents[1] is None or first is None else read(contents[1])
        if first is not None and second is not None and first[1] == second[1]:
            return first[0], second[0]
    return None


def written(value: Any) -> str | bytes:
    """The text itself, for a value that read_documents has read: as characters if it is UTF-8."""
    content = _content(value)
    assert content is not None
    if isinstance(content, str):
        return content
    try:
        return content.decode()
    except UnicodeDecodeError:
        return content


def _content(value: Any) -> str | bytes | None:
    if isinstance(value, np.ndarray):
        is_row = value.dtype == np.uint8 and value.ndim == 1 and value.size <= SIZE_MAX
        return value.tobytes().rstrip(b"\0") if is_row else None
    return value if type(value) in (str, bytes) and len(value) <= SIZE_MAX else None


# --- JSON


def _from_json(content: str | bytes) -> tuple[Composite, int] | None:
    """An object or an array, or the one in a text that was written as JSON once more; and how often it was written."""
    try:
        text = content.decode() if isinstance(content, bytes) else content
        times = 0
        while True:
            text, times = text.strip(" \t\r\n"), times + 1
            if len(text) < 2 or text[-1] != _ENDS.get(text[0]) or text.count(",") > VALUES_MAX:
                return None
            read = json.loads(text, object_pairs_hook=_members, parse_int=_integer, parse_float=_number)
            if not isinstance(read, str):
                shown = _shown(read)
                return (shown, times) if isinstance(shown, Composite) else None
            text = read
    except _UNREADABLE:
        return None


def _integer(digits: str) -> Any:
    try:
        return int(digits) if digits != "-0" else Word(digits)  # Other readers keep its sign.
    except ValueError:  # More digits than Python converts.
        return Word(digits)


def _number(digits: str) -> Any:
    """A float; the digits themselves where they stand for another number, which other readers may tell apart."""
    value = float(digits)
    if repr(value) == digits:
        return value
    try:
        return value if Decimal(digits) == Decimal(repr(value)) else Word(digits)
    except ArithmeticError:  # An exponent of too many digits.
        return Word(digits)


def _members(members: Sequence[tuple[Any, Any]]) -> Composite:
    """An object, with every member of a name that it has twice."""
    entries = [ShownPart(_step(key), f"{key!r}: ", _shown(value)) for key, value in members]
    return Composite("", "{", "}", entries, is_list=True, is_dict=True)


def _step(key: Any) -> str:
    return f".{key}" if isinstance(key, str) and key.isidentifier() else f"[{key!r}]"


def _shown(value: Any) -> Any:
    if isinstance(value, list | tuple) and not isinstance(value, msgpack.ExtType):
        return items([_shown(inner) for inner in value])
    if isinstance(value, dict):
        return _members(list(value.items()))
    is_plain = value is None or isinstance(value, bool | int | float | str | bytes | Word | Composite)
    return value if is_plain else Word(repr(value))


# --- msgpack


def _from_msgpack(content: str | bytes) -> tuple[Composite, int] | None:
    """Only what names its values, and encodes to the same bytes again: most short rows of bytes are some msgpack."""
    if not isinstance(content, bytes):
        return None
    try:
        value = msgpack.unpackb(content, strict_map_key=False, max_array_len=VALUES_MAX, max_map_len=VALUES_MAX)
        if not (_has_names(value) or (isinstance(value, list) and value and all(map(_has_names, value)))):
            return None
        return (_shown(value), 1) if msgpack.packb(value) == content else None
    except _UNREADABLE:
        return None


def _has_names(value: Any) -> bool:
    return isinstance(value, dict) and bool(value) and all(isinstance(key, str) for key in value)
