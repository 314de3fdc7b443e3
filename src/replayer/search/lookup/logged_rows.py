"""The rows that the change log of a tape in mode "changes" has for some steps, and whether the log is right there."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from recorder.format.blocks.changes_block import ChangeBlock
from recorder.format.recording.change_replay import ChangeLog
from replayer.search.lookup.interval_facts import ChangedRows, packed
from replayer.tape.tape import Tape
from sim.kernel.marks import word_bytes_of
from sim.kernel.schema import Layout


class LoggedRows:
    """The rows of a tape's change log.

    Attributes:
        is_proof: True if each tick has a hash of its state, which shows whether the log is right. With chained hashes, a
            write that the simulation did not mark, and that goes again before the next keyframe, is in none of them.
    """

    def __init__(self, tape: Tape) -> None:
        self._log = ChangeLog(tape.recording)
        self.is_proof = not tape.recording.recorded_hashes.has_hash_chain

    def __bool__(self) -> bool:
        """True if the tape has a change log."""
        return bool(self._log)

    def changed_rows(self, first_step: int, last_step: int, layouts: Mapping[int, Layout]) -> list[ChangedRows]:
        """The rows that the log has for the steps to these ticks; empty if it does not have all of them.

        layouts: by their seeds. Of a block with another layout nothing is known.
        """
        blocks = self._log.blocks_between(first_step - 1, last_step) if self._log else None
        if not blocks or any(block.layout not in layouts for block in blocks):
            return []
        return [_rows_of(block, layouts[block.layout]) for block in blocks]

    def is_right(self, start_tick: int, last_tick: int) -> bool:
        """Return True if the log leads from the keyframe at start_tick to the recorded state of each tick up to last_tick."""
        return self._log.leads_to(start_tick, last_tick)


def _rows_of(block: ChangeBlock, layout: Layout) -> ChangedRows:
    bits = {}
    for field in block.fields:
        slot = layout.slots.get(field.field)
        if slot is None:
            return ChangedRows(block.first_tick, block.last_tick, None, {})  # No log of this layout has that.
        rows = np.unique(field.numbers * word_bytes_of(slot) // slot.row_bytes)  # No word has parts of two rows.
        bits[field.field] = packed(rows[rows < slot.row_count], slot.row_count)
    return ChangedRows(block.first_tick, block.last_tick, block.layout, bits)
