"""The rows that changed since a baseline, gathered from the changes of each tick.

Where each tick is compared with the one before, every change since the baseline has been seen. So a keyframe needs no
second comparison, no copy of the baseline, and no copy of the whole state.

Invariant: changed_rows holds every row that a tick has changed since the baseline, and rows that share eight bytes with
one. A row that has its old value again is among them.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from sim.kernel.changes.many_changes import ManyChanges
from sim.kernel.changes.tick_changes import ARENA_WORD_BYTES, ArenaWords
from sim.kernel.marks import FLAG_COSTS_BYTES, ROW_COSTS_BYTES, Rows, listed_bytes, word_bytes_of
from sim.kernel.schema import Slot
from sim.kernel.state import Snapshot, State


class RowsOfTicks:
    """See ChangeSource. add must be called with the changes of every tick."""

    needs_baseline = False

    def __init__(self, state: State) -> None:
        self._state = state
        self._flags: npt.NDArray[np.bool_] = np.zeros(0, np.bool_)  # One for each word of the arena.
        self.reset(None)

    def add(self, changes: ArenaWords | ManyChanges) -> None:
        """Note the changes of a tick."""
        if isinstance(changes, ArenaWords):
            self._flags[changes.numbers] = True
            return
        for name, many in changes.fields.items():
            slot = self._state.layout.slots[name]
            own, share = self._of(slot), ARENA_WORD_BYTES // word_bytes_of(slot)
            for begin, flags in many.flags():
                whole: npt.NDArray[np.bool_] = flags if share == 1 else flags.reshape(-1, share).max(axis=1)
                part = own[begin // share : begin // share + len(whole)]
                part |= whole[: len(part)]

    def changed_rows(self) -> Mapping[str, Rows]:
        """See ChangeSource."""
        rows = {name: self._rows(slot) for name, slot in self._state.layout.slots.items() if slot.size_bytes}
        return {name: numbers for name, numbers in rows.items() if len(numbers)}

    def changed_fields(self, *, saves_memory: bool = False) -> Mapping[str, Rows | None]:
        """See ChangeSource."""
        fields: dict[str, Rows | None] = {}
        for name, slot in self._state.layout.slots.items():
            flags = self._of(slot)
            count = int(np.count_nonzero(flags))
            if not count:
                continue
            rows_max = count * max(1, ARENA_WORD_BYTES // slot.row_bytes)
            copy_costs_bytes = len(flags) * FLAG_COSTS_BYTES // ARENA_WORD_BYTES + rows_max * ROW_COSTS_BYTES
            if slot.size_bytes <= (listed_bytes(slot, rows_max) if saves_memory else copy_costs_bytes):
                fields[name] = None
            else:
                fields[name] = self._rows(slot)
        return fields

    def reset(self, baseline: Snapshot | None) -> None:  # noqa: ARG002 - it needs no baseline
        """See ChangeSource."""
        words = len(self._state.arena) // ARENA_WORD_BYTES
        if len(self._flags) == words:
            self._flags.fill(False)
        else:
            self._flags = np.zeros(words, np.bool_)

    def close(self) -> None:
        """See ChangeSource."""
        self._flags = np.zeros(0, np.bool_)

    def _of(self, slot: Slot) -> npt.NDArray[np.bool_]:
        """The flags of a field's words; the last one may be padding in part."""
        begin = slot.offset // ARENA_WORD_BYTES
        return self._flags[begin : begin + -(-slot.size_bytes // ARENA_WORD_BYTES)]

    def _rows(self, slot: Slot) -> Rows:
        flags, row_bytes = self._of(slot), slot.row_bytes
        if row_bytes % ARENA_WORD_BYTES == 0:
            per_row = flags.reshape(slot.row_count, row_bytes // ARENA_WORD_BYTES)
            return np.flatnonzero(per_row[:, 0] if per_row.shape[1] == 1 else per_row.any(axis=1))
        starts = np.flatnonzero(flags) * ARENA_WORD_BYTES
        first, last = starts // row_bytes, (starts + ARENA_WORD_BYTES - 1) // row_bytes
        # Each word touches the rows from its first to its last byte; rows of less than a word, several of them.
        touched = [first + step for step in range(-(-ARENA_WORD_BYTES // row_bytes) + 1)]
        rows = np.unique(np.concatenate([np.minimum(numbers, last) for numbers in touched]))
        return rows[rows < slot.row_count]
