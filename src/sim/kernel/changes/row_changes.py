"""Know which rows of a state changed since a consumer's baseline: by marks, by a scan, or by both.

Three sources behind one interface, ``ChangeSource``. Marks cost a little at each write and nothing to ask; a scan
needs no discipline in the simulation and runs at memory speed; the audit does both and reports writes that no mark
told of. Each consumer has a source of its own, so that clearing one blinds no other.

Invariants:
    1. changed_rows holds every row whose bytes differ from the baseline; marks may name more rows, a scan never does.
    2. changed_rows is strictly increasing.
    3. A change of layout counts as a change of everything: no source compares across layouts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from sim.kernel.schema import Layout, Slot

if TYPE_CHECKING:
    from sim.kernel.state import Snapshot, State

Rows = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]

# What else could be copied, in passing, while one flag of a mask is looked at, and while one row is read out of the midst
# of a field: measured on fields of 0.4 to 33 MB, 1.5 ns a flag, 15 to 20 ns a row, 7 to 13 bytes a ns.
FLAG_COSTS_BYTES, ROW_COSTS_BYTES = 12, 150


class UnmarkedWriteError(RuntimeError):
    """A row changed and nobody marked it.

    Attributes:
        field: the field's full name.
        rows: flat numbers of the rows concerned.
    """

    def __init__(self, field: str, rows: Rows) -> None:
        super().__init__(field, rows)
        self.field = field
        self.rows = rows

    def __str__(self) -> str:
        shown = ", ".join(map(str, self.rows[:5].tolist())) + (", …" if len(self.rows) > 5 else "")
        return f"field {self.field}: {len(self.rows)} rows were written without a mark (rows {shown})"


class ChangeSource(Protocol):
    """Where a consumer asks what changed since its baseline."""

    def changed_rows(self) -> Mapping[str, Rows]:
        """Flat numbers of the changed rows of each field that has any; by full name, in the arena's order."""

    def changed_fields(self) -> Mapping[str, Rows | None]:
        """The same; None for a field of which so many rows changed that the whole of it is as soon copied."""

    @property
    def needs_baseline(self) -> bool:
        """Whether reset has to be given a snapshot."""

    def reset(self, baseline: Snapshot | None) -> None:
        """Take the state as it is now, of which baseline is the snapshot, as the new baseline."""

    def close(self) -> None:
        """Stop tracking."""


class MarkTaker(Protocol):
    """Whom a state tells of each mark."""

    def mark(self, name: str, rows: Any) -> None:
        """Rows of a field were written: flat numbers; None is all."""

    def mark_everything(self) -> None:
        """All rows of all fields were."""

    def start_over(self, layout: Layout) -> None:
        """The state has another layout."""


class ChangeMarks:
    """The change masks of one consumer: one flag a row and field."""

    def __init__(self, layout: Layout) -> None:
        self._slots: Mapping[str, Slot] = {}
        self._masks: dict[str, npt.NDArray[np.bool_]] = {}
        self.start_over(layout)

    def start_over(self, layout: Layout) -> None:
        """Fit the masks to a new layout, with every row marked (invariant 3)."""
        self._slots = layout.slots
        self._masks = {name: np.ones(slot.row_count, np.bool_) for name, slot in layout.slots.items()}
        self._touched = set(self._masks)  # The fields that have been marked at all.

    def mark(self, name: str, rows: Any) -> None:
        """Mark rows of a field: flat numbers, a slice or a mask; None marks all."""
        self._touched.add(name)
        if rows is None:
            self._masks[name].fill(True)
        elif isinstance(rows, np.ndarray) and rows.dtype == np.bool_:
            mask = self._masks[name]
            mask[: rows.size] |= rows.reshape(-1)
        else:
            self._masks[name][rows] = True

    def mark_everything(self) -> None:
        """Mark every row of every field."""
        self._touched.update(self._masks)
        for mask in self._masks.values():
            mask.fill(True)

    def clear(self) -> None:
        """Forget all marks."""
        for name in self._touched:
            self._masks[name].fill(False)
        self._touched.clear()

    def fields(self) -> dict[str, Rows | None]:
        """The marked rows of each field that has any; None where that is more work than copying the field."""
        found: dict[str, Rows | None] = {}
        for name, slot in self._slots.items():
            if name not in self._touched or not slot.size_bytes:
                continue
            search_bytes = slot.row_count * FLAG_COSTS_BYTES
            if slot.size_bytes <= search_bytes:
                found[name] = None
                continue
            count = int(np.count_nonzero(self._masks[name]))
            if slot.size_bytes <= search_bytes + count * ROW_COSTS_BYTES:
                found[name] = None
            elif count:
                found[name] = np.flatnonzero(self._masks[name]).astype(np.int64, copy=False)
        return found

    def rows(self) -> dict[str, Rows]:
        """The marked rows of each field that has any."""
        touched = (name for name in self._masks if name in self._touched)
        marked = {name: np.flatnonzero(self._masks[name]).astype(np.int64, copy=False) for name in touched}
        return {name: rows for name, rows in marked.items() if len(rows)}


class MarkedChanges:
    """What the simulation marked since the baseline."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._marks = state.attach_marks()

    def changed_rows(self) -> Mapping[str, Rows]:
        """See ChangeSource; may name rows that were written with an equal value."""
        return self._marks.rows()

    def changed_fields(self) -> Mapping[str, Rows | None]:
        """See ChangeSource."""
        return self._marks.fields()

    needs_baseline = False

    def reset(self, baseline: Snapshot | None) -> None:  # noqa: ARG002 - marks need no baseline
        """See ChangeSource."""
        self._marks.clear()

    def close(self) -> None:
        """See ChangeSource."""
        self._state.detach(self._marks)


class ScannedChanges:
    """What a comparison with the baseline finds."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._baseline: Snapshot | None = None

    def changed_rows(self) -> Mapping[str, Rows]:
        """See ChangeSource."""
        state, baseline = self._state, self._baseline
        if baseline is None or baseline.layout.hash_seed != state.layout.hash_seed:
            slots = state.layout.slots.items()
            return {name: np.arange(slot.row_count) for name, slot in slots if slot.row_count}
        return differing_rows(state.layout, state.arena, baseline.arena)

    def changed_fields(self) -> Mapping[str, Rows | None]:
        """See ChangeSource: every field, since a copy of the state takes less than comparing it; the writer compares."""
        return dict.fromkeys(name for name, slot in self._state.layout.slots.items() if slot.size_bytes)

    needs_baseline = True

    def reset(self, baseline: Snapshot | None) -> None:
        """See ChangeSource; keeps baseline, which never changes, without a copy."""
        self._baseline = baseline

    def close(self) -> None:
        """See ChangeSource."""
        self._baseline = None


class AuditedChanges:
    """Marks, checked against a scan at every question."""

    def __init__(self, state: State) -> None:
        self._marked = MarkedChanges(state)
        self._scanned = ScannedChanges(state)

    def changed_rows(self) -> Mapping[str, Rows]:
        """See ChangeSource. Raises UnmarkedWriteError if the scan finds a row that was not marked."""
        marked, scanned = self._marked.changed_rows(), self._scanned.changed_rows()
        for name, rows in scanned.items():
            missed = np.setdiff1d(rows, marked.get(name, np.empty(0, np.int64)))
            if len(missed):
                raise UnmarkedWriteError(name, missed)
        return marked

    def changed_fields(self) -> Mapping[str, Rows | None]:
        """See changed_rows."""
        return self.changed_rows()

    needs_baseline = True

    def reset(self, baseline: Snapshot | None) -> None:
        """See ChangeSource."""
        self._marked.reset(baseline)
        self._scanned.reset(baseline)

    def close(self) -> None:
        """See ChangeSource."""
        self._marked.close()
        self._scanned.close()


def differing_rows(layout: Layout, ours: Bytes, theirs: Bytes) -> dict[str, Rows]:
    """Flat numbers of the rows whose bytes differ between two arenas of one layout, by field."""
    found: dict[str, Rows] = {}
    for name, slot in layout.slots.items():
        if slot.size_bytes == 0:
            continue
        here, there = (comparable(arena, slot) for arena in (ours, theirs))
        differs = here != there
        rows = np.flatnonzero(differs if differs.ndim == 1 else differs.any(axis=1))
        if len(rows):
            found[name] = rows.astype(np.int64, copy=False)
    return found


def word_bytes_of(slot: Slot) -> int:
    """The size of the words as which a field is compared."""
    return next(size for size in (8, 4, 2, 1) if slot.row_bytes % size == 0 and size <= slot.dtype.itemsize)


def comparable(arena: Bytes, slot: Slot) -> npt.NDArray[np.unsignedinteger[Any]]:
    """A field as unsigned integers, one a row where a row is that small, so that bytes are compared and not values.

    Shape (row_count,) or (row_count, words of a row).
    """
    word = word_bytes_of(slot)
    words = arena[slot.offset : slot.offset + slot.size_bytes].view(f"<u{word}")
    return words if slot.row_bytes == word else words.reshape(slot.row_count, slot.row_bytes // word)
