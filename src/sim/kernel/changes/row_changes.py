"""The rows of a state that changed since a consumer's baseline, found by marks, by a scan, or by both.

Three sources share one interface, ``ChangeSource``. Marks cost a little at each write and nothing at a query. A scan
needs no discipline in the simulation and runs at memory speed. The audit does both and reports writes without a mark.
Each consumer has its own source, so that clearing one does not affect another.

Invariants:
    1. changed_rows holds every row whose bytes differ from the baseline; marks may name more rows, a scan never does.
    2. changed_rows is strictly increasing.
    3. A change of layout counts as a change of everything: no source compares across layouts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import numpy as np

from sim.kernel.marks import Bytes, Rows, comparable
from sim.kernel.schema import Layout
from sim.kernel.state import Snapshot, State


class UnmarkedWriteError(RuntimeError):
    """A row changed without a mark.

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
    """The changes since the baseline of one consumer."""

    def changed_rows(self) -> Mapping[str, Rows]:
        """Flat numbers of the changed rows of each field that has any; by full name, in the arena's order."""

    def changed_fields(self, *, saves_memory: bool = False) -> Mapping[str, Rows | None]:
        """The changed rows of each field; None for a field with so many that copying all of it is as fast.

        saves_memory: None only where the rows with their numbers would take half of the field's memory.
        """

    @property
    def needs_baseline(self) -> bool:
        """True if reset needs a snapshot."""

    def reset(self, baseline: Snapshot | None) -> None:
        """Make the present state the new baseline. baseline: its snapshot."""

    def close(self) -> None:
        """Stop tracking."""


class MarkedChanges:
    """The changes that the simulation marked since the baseline."""

    def __init__(self, state: State, *, lists_narrow: bool = True) -> None:
        """lists_narrow: False for a consumer that asks for the changed fields alone, see ChangeMarks."""
        self._state = state
        self._marks = state.attach_marks(lists_narrow=lists_narrow)

    def changed_rows(self) -> Mapping[str, Rows]:
        """See ChangeSource; may name rows that were written with an equal value."""
        return self._marks.rows()

    def changed_fields(self, *, saves_memory: bool = False) -> Mapping[str, Rows | None]:
        """See ChangeSource."""
        return self._marks.fields(saves_memory=saves_memory)

    needs_baseline = False

    def reset(self, baseline: Snapshot | None) -> None:  # noqa: ARG002 - marks need no baseline
        """See ChangeSource."""
        self._marks.clear()

    def close(self) -> None:
        """See ChangeSource."""
        self._state.detach(self._marks)


class ScannedChanges:
    """The changes that a comparison with the baseline finds."""

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

    def changed_fields(self, *, saves_memory: bool = False) -> Mapping[str, Rows | None]:  # noqa: ARG002
        """See ChangeSource. Every field, since copying the state is faster than comparing it; the writer compares."""
        return dict.fromkeys(name for name, slot in self._state.layout.slots.items() if slot.size_bytes)

    needs_baseline = True

    def reset(self, baseline: Snapshot | None) -> None:
        """See ChangeSource; keeps baseline, which never changes, without a copy."""
        self._baseline = baseline

    def close(self) -> None:
        """See ChangeSource."""
        self._baseline = None


class ScannedWhileSmall:
    """A scan of a small state, which costs less than its marks; the marks of one that has grown.

    Invariant: it changes from one to the other only at a full keyframe, when there are no changes yet.
    """

    def __init__(self, state: State, size_max_bytes: int) -> None:
        """size_max_bytes: of the states that are scanned."""
        self._state, self._size_max_bytes = state, size_max_bytes
        self._source: ScannedChanges | MarkedChanges = self._choose()

    def _choose(self) -> ScannedChanges | MarkedChanges:
        is_small = self._state.layout.size_bytes <= self._size_max_bytes
        return ScannedChanges(self._state) if is_small else MarkedChanges(self._state, lists_narrow=False)

    def changed_rows(self) -> Mapping[str, Rows]:
        """See ChangeSource."""
        return self._source.changed_rows()

    def changed_fields(self, *, saves_memory: bool = False) -> Mapping[str, Rows | None]:
        """See ChangeSource."""
        return self._source.changed_fields(saves_memory=saves_memory)

    @property
    def needs_baseline(self) -> bool:
        """See ChangeSource."""
        return self._source.needs_baseline

    def reset(self, baseline: Snapshot | None) -> None:
        """See ChangeSource."""
        if baseline is not None:
            self._source.close()
            self._source = self._choose()
        self._source.reset(baseline)

    def close(self) -> None:
        """See ChangeSource."""
        self._source.close()


class AuditedChanges:
    """Marks, checked against a scan at every query."""

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

    def changed_fields(self, *, saves_memory: bool = False) -> Mapping[str, Rows | None]:  # noqa: ARG002
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
    differing: dict[str, Rows] = {}
    for name, slot in layout.slots.items():
        if slot.size_bytes == 0:
            continue
        our_words, their_words = (comparable(arena, slot) for arena in (ours, theirs))
        is_different = our_words != their_words
        rows = np.flatnonzero(is_different if is_different.ndim == 1 else is_different.any(axis=1))
        if len(rows):
            differing[name] = rows.astype(np.int64, copy=False)
    return differing
