"""Which object of one state is which object of another.

They count as one where both states number them alike, unless their values or the paths to them contradict that.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Literal

import numpy as np

from sim.adapters.object_view.documents import DocumentTree
from sim.adapters.object_view.object_tree import ObjectTree
from sim.adapters.object_view.shown_values import SET_STEP, Composite, Ref, Word

Side = Literal[0, 1]  # One of the two states.
_SIDES: tuple[Side, Side] = (0, 1)
_LEAVES = 8  # Attributes that are compared to tell objects of one class apart.


class ObjectPairs:
    """The objects of two states that count as one."""

    def __init__(self, first: ObjectTree | DocumentTree, second: ObjectTree | DocumentTree) -> None:
        self._trees = (first, second)
        self._partner: tuple[dict[Ref, Ref], dict[Ref, Ref]] = ({}, {})

    def add(self, one: Ref, two: Ref) -> None:
        """Note that two objects count as one."""
        self._partner[0][one], self._partner[1][two] = two, one

    def has(self, one: Ref, two: Ref) -> bool:
        """Return True for objects that were noted."""
        return self._partner[0].get(one) == two

    def is_free(self, side: Side, ref: Ref) -> bool:
        """Return True for an object of a state without a partner."""
        return ref not in self._partner[side]

    def identity(self, side: Side, ref: Ref) -> tuple[str, Any]:
        """An object by its number; one of the second state that is paired by that of the first."""
        one = self._partner[1].get(ref, ref) if side else ref
        return self._trees[0 if one is not ref else side].origin_of(one), one.number

    def places_of(self, one: list[Ref], two: list[Ref]) -> list[int] | None:
        """The place in the second list of each object of the first one; None unless the same objects are in both.

        Objects are the same by all their plain values if no two have equal ones, else by their numbers, else by their
        places.
        """
        by_values = [_unique({place: _values_key(ref) for place, ref in enumerate(refs)}) for refs in (one, two)]
        found = {place: by_values[1][key] for key, place in by_values[0].items() if key in by_values[1]}
        left = [sorted(set(range(len(one))) - set(used)) for used in (found, found.values())]
        by_number = [
            _unique({place: self.identity(side, refs[place]) for place in places})
            for side, refs, places in zip(_SIDES, (one, two), left, strict=True)
        ]
        found |= {place: by_number[1][key] for key, place in by_number[0].items() if key in by_number[1]}
        taken = set(found.values())
        found |= {place: place for place in range(len(one)) if place not in found and place not in taken}
        return (
            [found[place] for place in range(len(one))] if len(found) == len(set(found.values())) == len(one) else None
        )

    def look_alike(self, one: Any, two: Ref) -> bool:
        """Return True for objects without partners that have equal values."""
        if not isinstance(one, Ref) or one in self._partner[0]:
            return False
        mine, theirs = opened(one), opened(two)
        if not (isinstance(mine, Composite) and isinstance(theirs, Composite)) or mine.title != theirs.title:
            return False
        return plain_values(mine) == plain_values(theirs)

    def are_one(self, one: Ref, two: Ref) -> bool:
        """Return True if an object of each state count as one."""
        if one in self._partner[0] or two in self._partner[1]:
            return self._partner[0].get(one) == two
        if self._is_elsewhere(0, one, two) or self._is_elsewhere(1, two, one):
            return False
        if self._numbered_alike(one, two):
            return True
        own = self._counterpart(1, one), self._counterpart(0, two)
        if own == (None, None):
            return True  # Both are new: one stands in the place of the other.
        by_number = max(likeness(one, own[0]) if own[0] else -1, likeness(own[1], two) if own[1] else -1)
        by_place = likeness(one, two)
        return by_place > by_number or (
            by_place == by_number and self._trees[0].path_of(one) == self._trees[1].path_of(two)
        )

    def _numbered_alike(self, one: Ref, two: Ref) -> bool:
        origins = self._trees[0].origin_of(one), self._trees[1].origin_of(two)
        return one.number == two.number and origins[0] == origins[1]

    def _is_elsewhere(self, side: Side, one: Ref, other: Ref) -> bool:
        """Return True if, by a second path to an object, the other state has one that is more like it than a given one."""
        path = self._trees[side].other_path_of(one)
        found = None if path is None else self._trees[1 - side].object_at(path)
        return found is not None and found != other and likeness(one, found) > likeness(one, other)

    def _counterpart(self, side: Side, ref: Ref) -> Ref | None:
        """The object of a state that the other one numbers in this way, if it has no partner and can be reached."""
        found = self._trees[side].graph_object(ref)
        if found is None or found in self._partner[side] or self._trees[side].path_of(found) is None:
            return None
        return found

    def shared_path(self, side: Side, values: tuple[Any, Any], paths: tuple[str, str]) -> str | None:
        """Another path to one state's object, if the other state has two objects at these paths, one of them a new one.

        Without a new one, it is a reference that changed.
        """
        one, other = values[side], values[1 - side]
        mine, theirs = self._trees[side], self._trees[1 - side]
        if (
            paths[0] != paths[1]
            or theirs.elsewhere_than(other, paths[1 - side]) is not None
            or not self._is_new(side, one, other)
        ):
            return None
        path = mine.elsewhere_than(one, paths[side]) or mine.other_path_of(one)
        alike = theirs.graph_object(one)
        if path is None and alike is not None:
            path = theirs.path_of(alike)
        if path is None or path == paths[side] or SET_STEP in f"{path}{paths[side]}":
            return None
        return path if mine.object_at(path) == one and theirs.object_at(path) not in (None, other) else None

    def _is_new(self, side: Side, one: Ref, other: Ref) -> bool:
        """Return True if a state does not have the other state's object under its number, but perhaps one like it."""
        if self._is_elsewhere(1 - side, other, one):  # type: ignore[arg-type]
            return False
        found = self._trees[side].graph_object(other)
        if found is None or self._trees[side].path_of(found) is None:
            return True
        return found != one and likeness(found, other) < likeness(one, other)


def opened(value: Any) -> Any:
    """What a reference leads to; of an array that is an object of its own the array."""
    if isinstance(value, Ref):
        value = value.source.composite(value.number)
    if isinstance(value, Composite) and len(value.entries) == 1 and not value.entries[0].step:
        return value.entries[0].value
    return value


def _values_key(ref: Ref) -> Any:
    whole = opened(ref)
    if not isinstance(whole, Composite) or whole.is_list:
        return None
    return (whole.title, *sorted(plain_values(whole).items()))


def _unique(keys: dict[int, Any]) -> dict[Any, int]:
    """The places by their keys, without keys that occur twice, and without None."""
    counts = Counter(keys.values())
    return {key: place for place, key in keys.items() if key is not None and counts[key] == 1}


def are_equal(one: Any, two: Any) -> bool:
    """Return True for equal values without parts, of one type."""
    if isinstance(one, np.generic | np.ndarray) and isinstance(two, np.generic | np.ndarray):
        return one.dtype == two.dtype and one.shape == two.shape and one.tobytes() == two.tobytes()
    if isinstance(one, Word) and isinstance(two, Word):
        return one == two
    return type(one) is type(two) and repr(one) == repr(two)


def likeness(one: Ref, two: Ref) -> int:
    """The number of equal values of two objects; -1 for objects of different kinds."""
    mine, theirs = opened(one), opened(two)
    if not (isinstance(mine, Composite) and isinstance(theirs, Composite)):
        return int(are_equal(mine, theirs)) if isinstance(mine, np.ndarray) and isinstance(theirs, np.ndarray) else -1
    if mine.title != theirs.title or mine.opening != theirs.opening:
        return -1
    values = {entry.step: entry.value for entry in theirs.entries[:_LEAVES]}
    pairs = [(entry.value, values[entry.step]) for entry in mine.entries[:_LEAVES] if entry.step in values]
    return sum(not isinstance(a, Ref) and are_equal(a, b) for a, b in pairs)


def plain_values(value: Composite) -> dict[str, str]:
    """The values of an object that have no parts, as texts."""
    return {
        entry.step: f"{type(entry.value).__name__} {entry.value!r}"
        for entry in value.entries
        if not isinstance(entry.value, Ref | Composite | np.ndarray)
    }
