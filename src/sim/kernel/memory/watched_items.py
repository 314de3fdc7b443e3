"""See by a few comparisons of memory that an object still has the attributes that it had, however many: the very same ones.

To look them up takes 25 ns for each. Here a dict of 25 items takes less than 100, and one that was not written to 20.

Facts about CPython 3.11 and 3.12 that this module relies on, and tests:
    1. The third word of a dict is the number of its items; the fourth its version, which each change makes a new one. The
       fifth is the address of its table; the sixth is 0 if the table is its own.
    2. The second word of a table begins with the logarithms of its size and of that of its index in bytes, and with its
       kind, 1 if all keys are texts. The fourth is the number of items that were put into it. The index follows, and then,
       for each of these items in order, the addresses of the key and of the value; 0 if it was removed.
    3. The second word of an object is the address of its type; the third one before it that of its dict, or else a word
       that the type's __dictoffset__ leads to.
    4. Python lets no other code run between two comparisons, or a comparison and a call of C, that follow each other.
In all other Pythons nothing is known here, and a caller looks the items up.
"""

from __future__ import annotations

import functools
import sys
from array import array
from collections.abc import Callable, Collection, Mapping
from itertools import groupby
from typing import Any

import attrs

from sim.kernel.memory.object_memory import all_memory, pointers_are_known

_PYTHONS = ((3, 11), (3, 12))
_COUNT, _TABLE, _DICT_END = 2, 4, 6  # Words of a dict.
_SIZES, _PUT, _INDEX = 1, 3, 4  # Words of a table.
_TYPE, _DICT_BEFORE = 1, -3  # Words of an object.
_OF_TEXTS = 1
_WORD_BITS = 3  # The index of a word in all memory is its address divided by 8, minus 1.

# A view of memory as it is now, and what it was: equal as long as nothing has changed.
Pair = tuple[memoryview, memoryview]


@attrs.frozen(eq=False)
class _Table:
    """The table of a dict, which may be read as long as the dict has it.

    Attributes:
        place: the words of the dict with its address.
        start: the index in memory of the word with the sizes.
        sizes: that word.
        items: the index in memory of the first item.
    """

    place: Pair
    start: int
    sizes: int
    items: int


def watch_holder(holder: Any) -> Pair | None:
    """A pair that is equal as long as an object has its class and its dict; None if that is not known. All must stay alive."""
    return _watch_holder(holder) if _are_known() else None


def _watch_holder(holder: Any) -> Pair | None:
    own, offset = _index_of(holder), type(holder).__dictoffset__
    place = offset >> _WORD_BITS if offset > 0 else _DICT_BEFORE
    first, last = sorted((place, _TYPE))
    now = _words()[own + first : own + last + 1 : max(1, last - first)]
    found = id(vars(holder)), id(type(holder))
    was = memoryview(array(now.format, found if place < _TYPE else found[::-1]))
    return (now, was) if now == was else None


def count_pairs(attributes: dict[str, Any], names: Collection[str]) -> int:
    """The number of pairs that watch_items gives for these names; 0 if the dict cannot be watched."""
    if not _are_known() or _find_table(attributes) is None:
        return 0
    return 1 if len(names) == len(attributes) else 1 + len(_runs(attributes, names))


def watch_items(attributes: dict[str, Any], values: Mapping[str, Any], others: Collection[str] = ()) -> list[Pair]:
    """Watch items of a dict, given as values by their names; empty if it has others now, or cannot be watched.

    As long as both parts of each pair are equal, compared in this order and with nothing in between, the dict has these
    items, and as many as now. The dict, its keys and the values must stay alive. others: the names of items that end the
    watch, too, when they become others; nothing more is said of these.
    """
    return _watch(attributes, values, others) if _are_known() else []


def _watch(attributes: dict[str, Any], values: Mapping[str, Any], others: Collection[str] = ()) -> list[Pair]:
    table = _find_table(attributes)
    if table is None:
        return []
    names = {*values, *others}
    if len(names) == len(attributes):
        head = _pair(_index_of(attributes) + _COUNT, _index_of(attributes) + _DICT_END)
        return [head] if _has(attributes, values) else []  # In this order: a change in between is seen.
    present = list(attributes.items())
    whole = _words()[table.start : table.items + 2 * len(present)]
    place, was = table.place
    memory = whole.tolist() if place == was else [0] * len(whole)
    first = table.items - table.start
    is_as_read = memory[0] == table.sizes and memory[_PUT - _SIZES] == len(present)
    if (
        not is_as_read
        or memory[first:] != [id(part) for item in present for part in item]
        or not _has(attributes, values)
    ):
        return []
    pairs, begin = [table.place], 0
    for start, end in _runs(dict(present), names):
        begin = first + 2 * start if start else 0  # The sizes are compared first.
        part = slice(begin, first + 2 * end)
        pairs.append((whole[part], memoryview(array(_words().format, memory[part]))))
    return pairs


def _runs(attributes: Mapping[str, Any], names: Collection[str]) -> list[tuple[int, int]]:
    """The ranges of items with these names; the first one begins with the first item, and may be empty."""
    runs, start = [], 0
    for is_named, group in groupby(name in names for name in attributes):
        end = start + len(list(group))
        if is_named or not start:
            runs.append((start, end if is_named else start))
        start = end
    return runs


def _has(attributes: Mapping[str, Any], values: Mapping[str, Any]) -> bool:
    return all(attributes.get(name, values) is value for name, value in values.items())


def _find_table(attributes: dict[str, Any]) -> _Table | None:
    """The dict's table; None if it has items of another form, or an object's own memory for its values."""
    if type(attributes) is not dict or not attributes:
        return None
    words, own = _words(), _index_of(attributes)
    place, was = _pair(own + _TABLE, own + _DICT_END)
    address, is_shared = was
    start = (address >> _WORD_BITS) - 1 + _SIZES
    sizes = words[start] if place == was else 0
    if is_shared or sizes >> 16 & 0xFF != _OF_TEXTS:
        return None
    index_words = (1 << (sizes >> 8 & 0xFF)) >> _WORD_BITS
    return _Table((place, was), start, sizes, start - _SIZES + _INDEX + index_words)


def _pair(start: int, end: int) -> Pair:
    now = _words()[start:end]
    return now, memoryview(array(now.format, now.tolist()))


def _index_of(one: Any) -> int:
    return (id(one) >> _WORD_BITS) - 1


@functools.cache
def _words() -> Any:
    return all_memory().data


# --- what is known


def is_as_it_was(pairs: list[Pair]) -> bool:
    """Return True if the items are as they were. Quick callers compare the pairs themselves."""
    return all(now == was for now, was in pairs)


@functools.cache
def _are_known() -> bool:
    if sys.version_info[:2] not in _PYTHONS or not pointers_are_known():
        return False

    class Probe:
        """It gets attributes."""

        def put(self, value: object) -> None:
            """A store that Python makes quicker after some calls."""
            self.second = value

    first, second, other = object(), object(), object()
    changes: list[Callable[[Probe], object]] = [
        lambda one: one.put(other),
        lambda one: vars(one).update(second=other),
        lambda one: setattr(one, "fourth", None),
        lambda one: vars(one).pop("third"),
        lambda one: vars(one).pop("second"),
        lambda one: vars(one).clear(),
        lambda one: vars(one).update(dict.fromkeys(map(str, range(40)))),
        lambda one: setattr(one, "__dict__", dict(vars(one))),
        lambda one: setattr(one, "__class__", type("Other", (), {})),
    ]
    for names in (("first", "second", "third"), ("first", "second"), ("second",)):
        for change in (None, *changes):
            probe = Probe()
            for _ in range(20):
                probe.put(second)
            attributes = vars(probe)
            attributes.clear()  # It gets a table of its own next.
            attributes.update(first=first, second=second, third=None)
            values = {name: attributes[name] for name in names}
            pairs, holder = _watch(attributes, values), _watch_holder(probe)
            if not pairs or holder is None or _watch(attributes, {**values, "first": other}):
                return False
            if not is_as_it_was([holder, *pairs]):
                return False
            if change is not None:
                change(probe)
                if is_as_it_was([holder, *pairs]):
                    return False
    return True
