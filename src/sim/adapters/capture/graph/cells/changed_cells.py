"""Which values are other objects than before: by identity, since equal is not the same (-0.0, True, 1.0)."""

from __future__ import annotations

import ctypes
import functools
from itertools import chain, compress, count
from operator import is_not
from typing import Any

import numpy as np

from sim.adapters.capture.graph.storage import Integers, Tags, ranges

Values = tuple[Any, ...]
_SMALL = 192  # Up to here a loop at C speed is faster than the handful of NumPy calls.


def changed_places(before: Values, now: Values) -> list[int]:
    """The indexes at which two tuples of equal length hold different objects."""
    if len(now) > _SMALL and _pointers_are_known():
        found: list[int] = np.flatnonzero(pointers(before) != pointers(now)).tolist()
        return found
    return list(compress(count(), map(is_not, before, now)))


def pointers(values: Values) -> Integers:
    """The addresses of a tuple's items, as a view of the tuple's own memory; the tuple must outlive it."""
    if not values:
        return np.zeros(0, np.int64)
    memory: Any = (ctypes.c_int64 * len(values)).from_address(id(values) + tuple.__basicsize__)
    found: Integers = np.frombuffer(memory, np.int64)
    return found


def identities(values: Values) -> Integers:
    """The identities of a tuple's items."""
    return pointers(values) if _pointers_are_known() else np.fromiter(map(id, values), np.int64, len(values))


@functools.cache
def _pointers_are_known() -> bool:
    """Return True if this Python keeps the items of a tuple where pointers looks."""
    if ctypes.sizeof(ctypes.c_void_p) != 8:
        return False
    probe: Values = ([], {}, 5, "a")
    return bool(pointers(probe).tolist() == list(map(id, probe)))


class Spread:
    """The cells of rows whose lengths have changed: what is kept, what is new, what is gone.

    Attributes:
        tags, values: the new cells; new ones are 0.
        places: the indexes of new cells, and of kept ones that hold another object.
        gone: the indexes of old cells that no longer exist.
    """

    def __init__(
        self,
        cells: tuple[Tags, Integers],
        lengths_before: Integers,
        lengths_now: Integers,
        before: Values,
        now: Values,
    ) -> None:
        starts_before = np.cumsum(lengths_before) - lengths_before
        starts_now = np.cumsum(lengths_now) - lengths_now
        kept = np.minimum(lengths_before, lengths_now)
        source, target = ranges(starts_before, kept), ranges(starts_now, kept)
        self.tags, self.values = np.zeros(len(now), np.uint8), np.zeros(len(now), np.int64)
        self.tags[target], self.values[target] = cells[0][source], cells[1][source]
        is_changed = np.ones(len(now), bool)
        is_changed[target] = identities(now)[target] != identities(before)[source]
        self.places: list[int] = np.flatnonzero(is_changed).tolist()
        is_gone = np.ones(len(before), bool)
        is_gone[source] = False
        self.gone: Integers = np.flatnonzero(is_gone)


def spliced(values: Values, at: list[int], pieces: list[Values]) -> Values:
    """Values with each piece inserted before its index; indexes ascend."""
    parts: list[Values] = []
    last = 0
    for index, piece in zip(at, pieces, strict=True):
        if index > last:
            parts.append(values[last:index])
            last = index
        parts.append(piece)
    parts.append(values[last:])
    return tuple(chain.from_iterable(parts))


def without(values: Values, starts: list[int], ends: list[int]) -> Values:
    """Values without some ranges; ranges ascend and do not overlap."""
    parts: list[Values] = []
    last = 0
    for start, end in zip(starts, ends, strict=True):
        parts.append(values[last:start])
        last = end
    parts.append(values[last:])
    return tuple(chain.from_iterable(parts))
