"""The rows that the recorder itself noted as written, from the WRITES blocks of a tape."""

from __future__ import annotations

import bisect

from recorder.errors import CorruptError, TornError
from recorder.format.blocks.block import BlockKind
from recorder.format.blocks.written.writes_block import decode_writes
from recorder.format.segments.block_location import OptionalBlock, optional_blocks
from replayer.search.lookup.interval_facts import ChangedRows
from replayer.tape.tape import Tape


class WrittenBlocks:
    """The WRITES blocks of a tape; each is read when it is asked for.

    They rest on the marks of the simulation: who uses them has to compare the values at both ends.

    Attributes:
        is_trusted: False once a value has changed that they say was not written; nothing is told from then on.
    """

    def __init__(self, tape: Tape) -> None:
        blocks = tape.recording.believing_index(lambda: optional_blocks(tape.segments))
        self._blocks = sorted(
            (block for block in blocks if block.entry.kind == BlockKind.WRITES),
            key=lambda block: block.entry.first_tick,
        )
        self._starts = [block.entry.first_tick for block in self._blocks]
        self.is_trusted = True

    def __len__(self) -> int:
        return len(self._blocks)

    def changed_rows(self, first_step: int, last_step: int) -> list[ChangedRows]:
        """The rows written by the steps to these ticks; empty if that is not known of all of them."""
        found, step = list[ChangedRows](), first_step
        number = bisect.bisect_right(self._starts, first_step) - 1
        while self.is_trusted and 0 <= number < len(self._blocks) and step <= last_step:
            rows = _decoded(self._blocks[number])
            number += 1
            if rows is None or rows.first_step > step:
                return []
            if rows.last_step >= step:
                found.append(rows)
                step = rows.last_step + 1
        return found if step > last_step else []


def _decoded(block: OptionalBlock) -> ChangedRows | None:
    """The content of a block; None if it is damaged."""
    try:
        rows = decode_writes(block.payload(), block.entry.offset)
    except (CorruptError, TornError):
        return None
    return ChangedRows(rows.first_step, rows.last_step, rows.layout, rows.bits)
