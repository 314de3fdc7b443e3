"""The inputs and the hashes of many ticks, decoded block by block: faster than frame by frame.

Only blocks without any irregularity are decoded here. Where something needs a closer look (damage, a gap, a journal, an
unknown kind of hash), the blocks end, and the caller continues with frames, which say what it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import attrs
import numpy as np

from recorder.errors import CorruptError, TornError
from recorder.format.limits import INPUT_BYTES_MAX
from recorder.format.recording.frame_columns import NumberInputs, unpack_block, unpack_numbers
from recorder.format.recording.recording import Recording
from recorder.format.segments.segment_reader import Segment


@attrs.frozen(eq=False)
class DecodedBlock:
    """Consecutive ticks.

    Attributes:
        first_tick: the first of them.
        hashes: of the states, one for each tick.
        columns: the inputs: a list of plain data, one for each tick, or numbers; the caller owns them.
    """

    first_tick: int
    hashes: list[int]
    columns: list[Any] | NumberInputs

    def __len__(self) -> int:
        return len(self.hashes)

    def inputs(self) -> list[Any]:
        """The inputs as plain data, one for each tick."""
        return self.columns.inputs() if isinstance(self.columns, NumberInputs) else self.columns

    def inputs_at(self, index: int) -> Any:
        """The inputs of one tick."""
        columns = self.columns
        return columns.inputs_at(index) if isinstance(columns, NumberInputs) else columns[index]

    def cut(self, start: int, stop: int) -> DecodedBlock:
        """Some of the ticks."""
        columns = self.columns
        some = columns.cut(start, stop) if isinstance(columns, NumberInputs) else columns[start:stop]
        return DecodedBlock(self.first_tick + start, self.hashes[start:stop], some)


def decoded_blocks(recording: Recording, first_tick: int, last_tick: int) -> Iterator[DecodedBlock]:
    """Yield the ticks of a range in order, without a gap; fewer, or none, if a block needs a closer look."""
    tick = first_tick
    try:
        for segment, row_first, part, row in _blocks(recording, first_tick, last_tick):
            if row_first > tick:
                return
            entry = part.entry(row)
            payload = segment.joined(entry, part.end_of(row))
            if len(payload) > INPUT_BYTES_MAX:
                return
            about = payload, entry.first_tick, entry.tick_count
            found = unpack_numbers(*about) or unpack_block(*about)
            if found is None:
                return
            hashes, inputs = found
            start, end = tick - row_first, min(len(hashes), last_tick + 1 - row_first)
            yield DecodedBlock(row_first, hashes, inputs).cut(start, end)
            tick = row_first + end
    except (CorruptError, TornError):
        return


def _blocks(recording: Recording, first_tick: int, last_tick: int) -> Iterator[tuple[Segment, int, Any, int]]:
    """The blocks of frames in a range as segment, first tick, index part and row; none after one that overlaps another."""
    end = 0
    for segment in recording.segments:
        for lazy in segment.parts:
            if lazy.summary.last_tick < first_tick:
                continue
            if lazy.summary.first_tick > last_tick:
                return
            part = lazy.load()
            firsts = part.columns["first_tick"][part.frame_rows]
            ends = firsts + part.columns["tick_count"][part.frame_rows]
            for number in np.flatnonzero((ends > first_tick) & (firsts <= last_tick)).tolist():
                first = int(firsts[number])
                if end and first != end:
                    return
                end = int(ends[number])
                yield segment, first, part, int(part.frame_rows[number])
