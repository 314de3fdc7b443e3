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
from typing import Protocol

import numpy as np

from sim.kernel.marks import Bytes, Rows, comparable
from sim.kernel.schema import Layout
from sim.kernel.state import Snapshot, State


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
