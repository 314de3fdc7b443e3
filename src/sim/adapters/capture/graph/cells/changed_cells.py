"""Which values are other objects than before: by identity, since equal is not the same (-0.0, True, 1.0)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress, count
from operator import is_not
from typing import Any

import attrs
import numpy as np

from sim.adapters.capture.graph.storage import Integers, Tags, ranges
from sim.kernel.memory.object_memory import Mask, Values, identities, pointers_are_known

_SMALL = 192  # Up to here a loop at C speed is faster than the handful of NumPy calls.
_FEW_LEFT = 16  # Cells that are not worth sorting others for.


def changed_places(before: Values, now: Values) -> Sequence[int] | Integers:
    """The indexes at which two tuples of equal length hold different objects."""
    if len(now) > _SMALL and pointers_are_known():
        changed: Integers = (identities(before) != identities(now)).nonzero()[0]
        return changed
    return list(compress(count(), map(is_not, before, now)))


@attrs.frozen(eq=False)
class CellsBefore:
    """Cells of a group as they were, to be copied from where an object has only moved.

    Attributes:
        flat: the objects, alive.
        tags, values: their cells. They may be those that are written: they are read before.
        lengths: of the rows.
        candidates: the indexes of those that are gone, or hold another object now.
    """

    flat: Values
    tags: Tags
    values: Integers
    lengths: Integers
    candidates: Sequence[int] | Integers

    def find(self, wanted: Integers, places: Integers) -> tuple[Mask, Integers]:
        """For the identities of some objects, and the places of each: which of them were here, and in which cells."""
        before = identities(self.flat)
        if not len(before):
            return np.zeros(len(places), bool), places
        sources = np.minimum(places + 1, len(before) - 1)  # A window that moves on shifts all of its cells by one.
        is_found = before[sources] == wanted
        left = (~is_found).nonzero()[0]
        if len(left) > _FEW_LEFT and len(self.candidates):
            candidates = np.asarray(self.candidates)
            known = before[candidates]
            order = known.argsort()
            known = known[order]
            at = np.minimum(known.searchsorted(wanted[left]), len(known) - 1)
            is_known = known[at] == wanted[left]
            is_found[left[is_known]] = True
            sources[left[is_known]] = candidates[order[at[is_known]]]
        return is_found, sources


class Spread:
    """The cells of rows whose lengths have changed: what is kept, what is new, what is gone.

    Attributes:
        tags, values: the new cells; new ones are 0.
        places: the indexes of new cells, and of kept ones that hold another object.
        before: the old cells.
    """

    def __init__(
        self,
        cells: tuple[Tags, Integers],
        lengths_before: Integers,
        lengths_now: Integers,
        before: Values,
        now: Values,
    ) -> None:
        growth = lengths_now - lengths_before
        added = _ends_of_rows(lengths_now, np.maximum(growth, 0))
        gone = _ends_of_rows(lengths_before, np.maximum(-growth, 0))
        is_kept, was_kept = np.ones(len(now), bool), np.ones(len(before), bool)
        is_kept[added], was_kept[gone] = False, False
        source = was_kept.nonzero()[0]
        self.tags, self.values = np.zeros(len(now), np.uint8), np.zeros(len(now), np.int64)
        self.tags[is_kept], self.values[is_kept] = cells[0][source], cells[1][source]
        is_changed = identities(now)[is_kept] != identities(before)[source]
        is_kept[is_kept] = ~is_changed
        self.places: Integers = (~is_kept).nonzero()[0]
        candidates = np.concatenate((source[is_changed], gone))
        self.before = CellsBefore(before, cells[0].copy(), cells[1].copy(), lengths_before.copy(), candidates)


def _ends_of_rows(lengths: Integers, counts: Integers) -> Integers:
    """The indexes of the last cells of rows: this number of each."""
    rows = counts.nonzero()[0]
    counts = counts[rows]
    return ranges(lengths.cumsum()[rows] - counts, counts)


def spliced(values: Values, at: list[int], pieces: list[Values]) -> Values:
    """Values with each piece inserted before its index; indexes ascend."""
    made: list[Any] = []
    last = 0
    for index, piece in zip(at, pieces, strict=True):
        made += values[last:index]
        made += piece
        last = index
    made += values[last:]
    return tuple(made)


def without(values: Values, starts: list[int], ends: list[int]) -> Values:
    """Values without some ranges; ranges ascend and do not overlap."""
    made: list[Any] = []
    last = 0
    for start, end in zip(starts, ends, strict=True):
        made += values[last:start]
        last = end
    made += values[last:]
    return tuple(made)
