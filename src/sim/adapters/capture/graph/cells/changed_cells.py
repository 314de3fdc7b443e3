"""Which values are other objects than before: by identity, since equal is not the same (-0.0, True, 1.0)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, compress, count
from operator import is_not

import attrs
import numpy as np

from sim.adapters.capture.graph.cells.object_memory import Mask, Values, identities, pointers_are_known
from sim.adapters.capture.graph.storage import Integers, Tags, ranges

_SMALL = 192  # Up to here a loop at C speed is faster than the handful of NumPy calls.
_FEW_LEFT = 16  # Cells that are not worth sorting others for.


def changed_places(before: Values, now: Values) -> Sequence[int] | Integers:
    """The indexes at which two tuples of equal length hold different objects."""
    if len(now) > _SMALL and pointers_are_known():
        return np.flatnonzero(identities(before) != identities(now))
    return list(compress(count(), map(is_not, before, now)))


@attrs.frozen(eq=False)
class CellsBefore:
    """Cells of a group as they were, to be copied from where an object has only moved.

    Attributes:
        flat: the objects, alive.
        tags, values: their cells. They may be those that are written: they are read before.
        candidates: the indexes of those that may have moved.
    """

    flat: Values
    tags: Tags
    values: Integers
    candidates: Integers

    def find(self, wanted: Integers, places: Integers) -> tuple[Mask, Integers]:
        """For the identities of some objects, and the places of each: which of them were here, and in which cells."""
        before = identities(self.flat)
        if not len(before):
            return np.zeros(len(places), bool), places
        sources = np.minimum(places + 1, len(before) - 1)  # A window that moves on shifts all of its cells by one.
        is_found = before[sources] == wanted
        left = np.flatnonzero(~is_found)
        if len(left) > _FEW_LEFT and len(self.candidates):
            known = before[self.candidates]
            order = np.argsort(known)
            known = known[order]
            at = np.minimum(np.searchsorted(known, wanted[left]), len(known) - 1)
            is_known = known[at] == wanted[left]
            is_found[left[is_known]] = True
            sources[left[is_known]] = self.candidates[order[at[is_known]]]
        return is_found, sources


class Spread:
    """The cells of rows whose lengths have changed: what is kept, what is new, what is gone.

    Attributes:
        tags, values: the new cells; new ones are 0.
        places: the indexes of new cells, and of kept ones that hold another object.
        before: the old cells.
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
        self.places: Integers = np.flatnonzero(is_changed)
        is_gone = np.ones(len(before), bool)
        is_gone[source] = False
        self.gone: Integers = np.flatnonzero(is_gone)
        moved = np.concatenate((source[is_changed[target]], self.gone))
        self.before = CellsBefore(before, cells[0].copy(), cells[1].copy(), moved)


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
