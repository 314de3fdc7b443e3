"""Objects in containers that a global variable refers to, such as a deck of cards or a table of kinds of units.

Steps take such objects again and again, so a restored one has to be the very same object. A tuple holds the same objects
for ever: they are named as the variable's own object is. A list or a dict may be a register in which each game enters
its units, and what stands at a place belongs to another game then. There only objects of frozen dataclasses are named,
and a restore takes such an object only if it has the recorded values: it never writes to it.
"""

from __future__ import annotations

import dataclasses
import enum
import re
from collections.abc import Iterator, Sequence
from typing import Any

_ITEMS_MAX = 1024  # Of a container.
_ALL_ITEMS_MAX = 1 << 14  # Of a variable, with those of the containers in it: each call with objects compares them.
_DEPTH = 3  # Containers in containers.
_HEAP_TYPE = 1 << 9  # A flag of types that Python code made.
_INDEXES = re.compile(r"(\[\d{1,4}\])+")
_VALUES = (str, bytes, int, float, complex, tuple, frozenset, enum.Enum, type)  # Equal ones need not be identical.
_COMPARED = frozenset((type(None), bool, int, float, str, bytes))


def is_container(value: Any) -> bool:
    """Return True for a container whose items may be named. A tuple may also be a member of an enumeration."""
    kind = type(value)
    return kind in (tuple, list, dict) or (issubclass(kind, tuple) and issubclass(kind, enum.Enum))


def named_items(value: Any, name: str) -> Iterator[tuple[Any, str]]:
    """The objects in a container that are known by their places in it, with their names, such as "game:DECK[3]".

    None in one that has too many items, with those of the containers in it, such as a map of numbers.
    """
    return iter(()) if _levels(value) is None else _named_items(value, name, _DEPTH, is_fixed=True)


def _named_items(value: Any, name: str, depth: int, *, is_fixed: bool) -> Iterator[tuple[Any, str]]:
    is_fixed = is_fixed and isinstance(value, tuple)
    for index, item in enumerate(_items_of(value)):
        place = f"{name}[{index}]"
        if is_container(item) and depth > 1:
            yield from _named_items(item, place, depth - 1, is_fixed=is_fixed)
        is_named = type(item) in (list, dict) if is_fixed else is_frozen(type(item))
        if is_named or (is_fixed and _is_object(type(item))):
            yield item, place


def addresses_in(value: Any) -> list[int]:
    """The identities of the items of a container, and of the containers in it; without containers of plain values alone.

    Empty for one with so many items that none is named.
    """
    levels = _levels(value) or []
    return [id(item) for level in levels for items in level if not _are_plain(items) for item in items]


def holds_only_tuples(value: Any) -> bool:
    """Return True for a tuple that holds no other containers than tuples: it holds the same objects for ever."""
    levels = _levels(value) or []
    inner = (item for level in levels for items in level if not _are_plain(items) for item in items)
    return isinstance(value, tuple) and not any(type(one) in (list, dict) for one in inner)


def _levels(value: Any) -> list[list[Sequence[Any]]] | None:
    """The items of a container, those of the containers in it, and so on, each container apart; None for too many."""
    levels = [[_items_of(value)]]
    left = _ALL_ITEMS_MAX - len(levels[0][0])
    while len(levels) < _DEPTH:
        level = list[Sequence[Any]]()
        for items in levels[-1]:
            for one in () if _are_plain(items) else filter(is_container, items):
                level.append(_items_of(one))
                left -= len(level[-1])
                if left < 0:
                    return None
        levels.append(level)
    return levels


def _are_plain(items: Sequence[Any]) -> bool:
    return _COMPARED.issuperset(map(type, items))


def split_indexes(name: str) -> tuple[str, tuple[int, ...]]:
    """A name without the places at its end, and these places."""
    text, bracket, rest = name.partition("[")
    if not bracket or not _INDEXES.fullmatch(bracket + rest):
        return name, ()
    return text, tuple(map(int, (bracket + rest)[1:-1].split("][")))


def item_at(value: Any, places: Sequence[int]) -> tuple[Any, bool]:
    """The item at these places, and whether only tuples lead to it. Raises LookupError."""
    is_fixed = True
    for place in places:
        if not is_container(value):
            raise LookupError
        is_fixed = is_fixed and isinstance(value, tuple)
        value = _items_of(value)[place]
    return value, is_fixed


def is_frozen(kind: type) -> bool:
    """Return True for a frozen dataclass."""
    return dataclasses.is_dataclass(kind) and kind.__dataclass_params__.frozen  # type: ignore[attr-defined]


def are_equal_values(one: Sequence[Any], other: Sequence[Any]) -> bool:
    """Return True if these are the same values: the same objects, or equal numbers and texts of one type."""
    return len(one) == len(other) and all(
        a is b or (type(a) is type(b) and type(a) in _COMPARED and a == b) for a, b in zip(one, other, strict=True)
    )


def _items_of(value: Any) -> Sequence[Any]:
    """The items of a container that is not too large; the values of a dict."""
    if isinstance(value, tuple):
        items: Sequence[Any] = tuple(tuple.__iter__(value))
    else:
        items = list(value.values() if type(value) is dict else value)
    return items if len(items) <= _ITEMS_MAX else []


def _is_object(kind: type) -> bool:
    return bool(kind.__flags__ & _HEAP_TYPE) and not issubclass(kind, _VALUES)
