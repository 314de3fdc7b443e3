"""Read the hash table of a set exactly, and rebuild it: the set then iterates and pops as the live one, now and later.

A set that is made from the elements of another usually iterates in a different order: its order is a consequence of its
whole history. So the table itself is recorded: its size, the place of each element, the places of removed elements
("dummies") and the place from which ``pop`` searches (the "finger").

The table is read from memory through ctypes. It is rebuilt by operations of sets alone; no memory is written. Reading is
tested when it is first used. Where that test fails, a table has no layout: only the order of iteration is recorded, and
rebuilding fails if adding the elements in this order does not give it.

Facts about CPython's sets that this module relies on, and tests when it is first used:
    1. The table has mask + 1 places, a power of 2, at least 8. It is full to less than 3/5, dummies included.
    2. set.update(dict) on an empty set makes the table large enough for twice as many elements as the dict has.
    3. An element goes to the first dummy on its path if the path holds one, else to the first free place.
    4. Only adding changes the size of a table; clear() keeps the finger.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import struct
import sys
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

import attrs
import numpy as np

MASK_MIN = 7
PLACES_MAX = 1 << 26
FINGER_FREE = 1 << 22  # A finger beyond the table costs memory in proportion to it, whatever the size of the set.
TWINS_MAX = 8  # CPython's tables have at most 8 places an element, and a dict of a quarter of the places is needed.
LINEAR_PROBES, PERTURB_SHIFT = 9, 5

_HEAD = struct.Struct("6q")  # fill, used, mask, address of the table, hash, finger.
_HEAD_OFFSET = object.__basicsize__
_ENTRY_BYTES = 16


@attrs.frozen
class SetTable:
    """The layout of a set's table, without the elements. Raises ValueError for one that no set has.

    Attributes:
        mask: the number of places minus one; 0 if the layout is unknown: then the order of iteration is all.
        finger: the place from which ``pop`` searches.
        places: of the elements, in the order of iteration, which is ascending.
        dummies: the places of removed elements, ascending.
    """

    mask: int
    finger: int
    places: tuple[int, ...]
    dummies: tuple[int, ...]

    def __attrs_post_init__(self) -> None:
        if self.mask == 0:
            is_possible = not (self.finger or self.places or self.dummies)
        else:
            filled = len(self.places) + len(self.dummies)
            is_possible = (
                MASK_MIN <= self.mask < PLACES_MAX
                and self.mask & (self.mask + 1) == 0
                and 0 <= self.finger <= max(self.mask + 1, FINGER_FREE)
                and filled * 5 < self.mask * 3
                and (self.mask == MASK_MIN or self.mask < filled * TWINS_MAX * 4)
                and _is_ascending(self.places, self.mask)
                and _is_ascending(self.dummies, self.mask)
                and not set(self.places) & set(self.dummies)
            )
        if not is_possible:
            raise ValueError("expected the table of a set, got one that no set has")

    def to_plain(self) -> list[Any]:
        """The table as lists of integers."""
        return [self.mask, self.finger, list(self.places), list(self.dummies)]

    @classmethod
    def from_plain(cls, plain: Any) -> SetTable:
        """The table that to_plain described. Raises ValueError for anything else."""
        match plain:
            case [mask, finger, list(places), list(dummies)] if all(
                type(one) is int for one in itertools.chain((mask, finger), places, dummies)
            ):
                return cls(mask, finger, tuple(places), tuple(dummies))
        raise ValueError("expected the table of a set: a mask, a finger, places and dummies")


UNKNOWN = SetTable(0, 0, (), ())


def _is_ascending(places: tuple[int, ...], mask: int) -> bool:
    if not places:
        return True
    return places[0] >= 0 and places[-1] <= mask and all(a < b for a, b in itertools.pairwise(places))


# --- reading


def fingerprint(value: AbstractSet[Any]) -> bytes:
    """The memory of a set's table. As long as the elements are kept alive, equal bytes mean an unchanged table."""
    if not layout_is_known():
        return np.fromiter(map(id, value), np.uint64, len(value)).tobytes()
    head = ctypes.string_at(id(value) + _HEAD_OFFSET, _HEAD.size)
    _, _, mask, address, _, _ = _HEAD.unpack(head)
    return head + ctypes.string_at(address, (mask + 1) * _ENTRY_BYTES)


def table_of(value: AbstractSet[Any]) -> SetTable:
    """The table of a set or frozenset; UNKNOWN where it cannot be read.

    Raises ValueError for a table that cannot be rebuilt: its finger is far beyond it.
    """
    return _table_in_memory(value) if layout_is_known() else UNKNOWN


def _table_in_memory(value: AbstractSet[Any]) -> SetTable:
    _, _, mask, address, _, finger = _HEAD.unpack(ctypes.string_at(id(value) + _HEAD_OFFSET, _HEAD.size))
    memory = ctypes.string_at(address, (mask + 1) * _ENTRY_BYTES)
    entries = np.frombuffer(memory, np.int64).reshape(-1, 2)  # The address of the element and its hash.
    filled = np.flatnonzero(entries[:, 0])
    is_dummy = entries[filled, 1] == -1  # No element has this hash.
    return SetTable(mask, finger, tuple(filled[~is_dummy].tolist()), tuple(filled[is_dummy].tolist()))


# --- rebuilding


def rebuild(value: set[Any], table: SetTable, elements: Sequence[Any]) -> None:
    """Give an empty, new set this table with these elements, in the order of iteration.

    Raises ValueError if the elements do not lie at these places because they hash otherwise here; the set is then empty.
    """
    if table.mask and len(elements) != len(table.places):
        raise ValueError(f"expected {len(table.places)} elements of a set, got {len(elements)}")
    if table.mask and layout_is_known():
        _rebuild_table(value, table, elements)
        is_right = _table_in_memory(value) == table
    else:
        for element in elements:
            set.add(value, element)
        is_right = True
    if not (is_right and _are_same(value, elements)):
        set.clear(value)
        raise ValueError("expected a set that iterates as the recorded one, but its elements hash otherwise here")


def frozen(elements: Sequence[Any], table: SetTable = UNKNOWN) -> frozenset[Any]:
    """A frozenset that iterates in the order of elements; with its table, if it is given and can be made again.

    Raises ValueError if the frozenset cannot be made to iterate so.
    """
    for make in (_frozen_in_table, _frozen_from_list, _frozen_from_set):
        made = make(elements, table)
        if made is not None and _are_same(made, elements):
            return made
    raise ValueError("expected a frozenset that iterates as the recorded one, but its elements hash otherwise here")


def _are_same(value: Iterable[Any], elements: Sequence[Any]) -> bool:
    found = list(value)
    return len(found) == len(elements) and all(a is b for a, b in zip(found, elements, strict=True))


class _Stage:
    """The one switch of the fillers of one rebuilding: are fillers of the same place equal?"""

    __slots__ = ("twins_are_equal",)

    def __init__(self) -> None:
        self.twins_are_equal = False


class _Filler:
    """Holds a place of a table until its element comes: its hash is its place."""

    __slots__ = ("_place", "_stage")

    def __init__(self, place: int, stage: _Stage) -> None:
        self._place = place
        self._stage = stage

    def __hash__(self) -> int:
        return self._place

    def __eq__(self, other: object) -> bool:
        # Never NotImplemented: that would call the other's comparison.
        return self is other or (self._stage.twins_are_equal and type(other) is _Filler and other._place == self._place)


def begin_again(value: set[Any]) -> None:
    """Give an empty set the table of a new one. Its finger becomes 1 if it is not 0, which no operation restores."""
    table = _table_in_memory(value)
    if table.mask != MASK_MIN or table.dummies or table.finger > 1:
        set.clear(value)
        if table.finger > 1:
            set.add(value, 0)
            set.pop(value)
            set.clear(value)


def _rebuild_table(value: set[Any], table: SetTable, elements: Sequence[Any]) -> None:
    if table.finger:
        _set_finger(value, table.finger)
    stage = _Stage()
    fillers = {place: _Filler(place, stage) for place in sorted((*table.places, *table.dummies))}
    first: list[_Filler] = []
    if table.mask > MASK_MIN:
        # A dict of a quarter of the places makes a table of this size. Too few fillers are made up for by twins, which
        # the dict holds as different keys and the set takes for the fillers themselves.
        wanted = _dict_size(table.mask + 1)
        first = list(itertools.islice(fillers.values(), wanted))
        twins = (_Filler(place, stage) for place in itertools.cycle(fillers))
        sizing = dict.fromkeys([*first, *itertools.islice(twins, wanted - len(first))])
        stage.twins_are_equal = True
        set.update(value, sizing)
        stage.twins_are_equal = False
    for filler in itertools.islice(fillers.values(), len(first), None):
        set.add(value, filler)
    for place, element in zip(table.places, elements, strict=True):
        # All places before this one on the element's path are filled, and this is the only dummy: it goes here.
        set.discard(value, fillers[place])
        set.add(value, element)
    for place in table.dummies:
        set.discard(value, fillers[place])


def _dict_size(places: int) -> int:
    """The smallest size of a dict for which set.update makes a table of this many places, if it is more than 8."""
    return max(5, places // 4)


def _set_finger(value: set[Any], finger: int) -> None:
    """Leave the finger of an empty set here: pop an element from the place before it, then clear the set."""
    places = MASK_MIN + 1
    while places < 2 * finger:
        places *= 2
    set.update(value, dict.fromkeys(range(finger - 1, finger - 1 + _dict_size(places))))
    set.pop(value)
    set.clear(value)


class _Twin:
    """A second key for an element: different in a dict, equal in a set."""

    __slots__ = ("_hash", "_stage", "_twin")

    def __init__(self, element: Any, stage: _Stage) -> None:
        self._hash = hash(element)
        self._twin = element
        self._stage = stage

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (self._stage.twins_are_equal and self._twin is other)


def _frozen_in_table(elements: Sequence[Any], table: SetTable) -> frozenset[Any] | None:
    """A frozenset with this table: made from a dict that gives the size, in an order that gives the places.

    Dummies are fillers at first. Those are removed from a copy: a frozenset gets dummies in no other way.
    """
    if table.mask == 0 or len(elements) != len(table.places):
        return None
    stage = _Stage()
    fillers = [_Filler(place, stage) for place in table.dummies]
    at = dict(zip((*table.places, *table.dummies), (*elements, *fillers), strict=True))
    order = _insertion_order(at, table.mask)
    if order is None:
        return None
    if table.mask == MASK_MIN:
        made: frozenset[Any] = frozenset(order)
    else:
        wanted = _dict_size(table.mask + 1)
        twins = (_Twin(element, stage) for element in itertools.cycle(order))
        sizing = dict.fromkeys([*order[:wanted], *itertools.islice(twins, max(0, wanted - len(order)))])
        stage.twins_are_equal = True
        made = frozenset().union(sizing, order[wanted:])
        stage.twins_are_equal = False
    return frozenset(fillers) ^ made if fillers else made


def _insertion_order(at: dict[int, Any], mask: int) -> list[Any] | None:
    """An order in which adding elements to an empty table of this size brings them to these places; None without one.

    An element can be added when all places before its own on its path are filled.
    """
    waiting: dict[int, int] = {}
    followers: dict[int, list[int]] = {}
    for place, element in at.items():
        before = set()
        for passed in _path(hash(element), mask):
            if passed == place:
                break
            if passed not in at:
                return None  # It would have been added there.
            before.add(passed)
        waiting[place] = len(before)
        for one in before:
            followers.setdefault(one, []).append(place)
    order = [place for place, count in waiting.items() if count == 0]
    for place in order:  # It grows while it is walked.
        for follower in followers.get(place, ()):
            waiting[follower] -= 1
            if waiting[follower] == 0:
                order.append(follower)
    return [at[place] for place in order] if len(order) == len(at) else None


def _path(hash_value: int, mask: int) -> Iterable[int]:
    """The places that a set tries for an element of this hash."""
    perturb = hash_value & ((1 << 64) - 1)
    place = perturb & mask
    for _ in range(2 * mask):
        yield from range(place, place + LINEAR_PROBES + 1 if place + LINEAR_PROBES <= mask else place + 1)
        perturb >>= PERTURB_SHIFT
        place = (place * 5 + 1 + perturb) & mask


def _frozen_from_list(elements: Sequence[Any], _table: SetTable) -> frozenset[Any]:
    return frozenset(list(elements))


def _frozen_from_set(elements: Sequence[Any], table: SetTable) -> frozenset[Any] | None:
    """A copy of a set that has this table; a copy has no dummies, and so another table at times."""
    value: set[Any] = set()
    try:
        rebuild(value, table, elements)
    except ValueError:
        return None
    return frozenset(value)


# --- the test of the facts above


@functools.cache
def layout_is_known() -> bool:
    """Return True if tables can be read from memory here: tested once, by reading and rebuilding some sets."""
    if sys.implementation.name != "cpython" or ctypes.sizeof(ctypes.c_void_p) != 8 or sys.byteorder != "little":
        return False
    return all(map(_survives, _probes()))


def _probes() -> Iterable[set[Any]]:
    """Sets of several sizes, with dummies, elements that collide, and fingers."""
    yield set()
    for count in (3, 40, 700):
        probe = {number * number * 8 for number in range(count)}
        yield set(probe)
        for number in range(0, count, 3):
            probe.discard(number * number * 8)
        yield set(probe) | {-5, 1 << 70}
        if probe:
            probe.pop()
        probe.add(-7)
        yield probe
        probe.clear()
        probe.update((8, 16))
        yield probe


def _survives(probe: set[Any]) -> bool:
    """Return True if the table that is read agrees with what can be asked, and the rebuilt set behaves alike."""
    used = _HEAD.unpack(ctypes.string_at(id(probe) + _HEAD_OFFSET, _HEAD.size))[1]
    if used != len(probe):
        return False
    try:
        table = _table_in_memory(probe)
        made: set[Any] = set()
        _rebuild_table(made, table, list(probe))
        if _table_in_memory(made) != table:
            return False
    except ValueError:
        return False
    for live in (made, probe):
        for number in range(60):
            live.add(number * 24)
            if number % 3 == 0:
                live.pop()
    return list(made) == list(probe)
