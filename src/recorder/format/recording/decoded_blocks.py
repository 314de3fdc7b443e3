"""The inputs and the hashes of many ticks, decoded block by block: faster than frame by frame.

Only blocks without any irregularity are decoded here. Where something needs a closer look (damage, a gap, a journal, an
unknown kind of hash), the blocks end, and the caller continues with frames, which say what it is.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple

import attrs
import numpy as np
import numpy.typing as npt

from recorder.errors import CorruptError, TornError
from recorder.format.limits import INPUT_BYTES_MAX
from recorder.format.recording.frame_columns import NumberInputs, unpack_block, unpack_numbers
from recorder.format.recording.recording import Recording
from recorder.format.segments.segment_reader import Segment

TOGETHER_BYTES = 1 << 17  # Of frames that are decoded at once: some thousand ticks of numbers.


@attrs.frozen(eq=False)
class DecodedBlock:
    """Consecutive ticks.

    Attributes:
        first_tick: the first of them.
        hashes: of the states, one for each tick, as integers or as uint64.
        columns: the inputs: a list of plain data, one for each tick, or numbers; the caller owns them.
    """

    first_tick: int
    hashes: list[int] | npt.NDArray[np.uint64]
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
    for frames in _together(_payloads(recording, first_tick, last_tick)):
        for found in _decoded(frames):
            if found is None or found.first_tick > tick:
                return
            start, end = tick - found.first_tick, min(len(found), last_tick + 1 - found.first_tick)
            yield found.cut(start, end)
            tick = found.first_tick + end


class TicksInOrder:
    """The ticks of a recording, range by range. While each range follows the one before, blocks are decoded ahead, many at once."""

    def __init__(self, recording: Recording, last_tick: int) -> None:
        """last_tick: of the recording."""
        self._recording, self._last_tick = recording, last_tick
        self._next_tick = -1  # After the last range, if all of it was read.
        self._ahead: Iterator[DecodedBlock] | None = None
        self._rest: DecodedBlock | None = None  # Decoded ahead, from the next tick on.

    def blocks(self, first_tick: int, last_tick: int) -> Iterator[DecodedBlock]:
        """As decoded_blocks."""
        follows, self._next_tick = first_tick == self._next_tick, -1
        if not follows:
            self._ahead, self._rest = None, None
            yield from decoded_blocks(self._recording, first_tick, last_tick)
        else:
            if self._ahead is None:
                self._ahead = decoded_blocks(self._recording, first_tick, self._last_tick)
            tick = first_tick
            while tick <= last_tick:
                block = self._rest if self._rest is not None else next(self._ahead, None)
                if block is None:
                    return
                count = min(len(block), last_tick + 1 - tick)
                self._rest = block.cut(count, len(block)) if count < len(block) else None
                yield block.cut(0, count)
                tick += count
        self._next_tick = last_tick + 1


class _Frames(NamedTuple):
    """The frames of a block: their bytes, the first tick, and the number of ticks."""

    payload: bytes
    first_tick: int
    tick_count: int


def _payloads(recording: Recording, first_tick: int, last_tick: int) -> Iterator[_Frames]:
    """The blocks of a range, up to the first one that is too large or cannot be read."""
    try:
        for segment, row_first, part, row in _blocks(recording, first_tick, last_tick):
            entry = part.entry(row)
            payload = segment.joined(entry, part.end_of(row))
            if len(payload) > INPUT_BYTES_MAX:
                return
            yield _Frames(payload, row_first, entry.tick_count)
    except (CorruptError, TornError):
        return


def _together(blocks: Iterator[_Frames]) -> Iterator[list[_Frames]]:
    """The blocks, small ones in groups: an array of many numbers is decoded in the time of one of few."""
    group: list[_Frames] = []
    size = 0
    for block in blocks:
        if group and size + len(block.payload) > TOGETHER_BYTES:
            yield group
            group, size = [], 0
        group.append(block)
        size += len(block.payload)
    if group:
        yield group


def _decoded(group: list[_Frames]) -> Iterator[DecodedBlock | None]:
    """The ticks of some blocks, together if they are numbers, else block by block; None for one that needs a closer look."""
    first_tick = group[0].first_tick
    if len(group) > 1:
        ends = [*itertools.accumulate(one.tick_count for one in group)]
        offsets = itertools.accumulate(len(one.payload) for one in group[:-1])
        payload = b"".join(one.payload for one in group)
        numbers = unpack_numbers(payload, first_tick, ends[-1], dict(zip(offsets, ends, strict=False)))
        if numbers is not None:
            yield DecodedBlock(first_tick, *numbers)
            return
    for one in group:
        found = unpack_numbers(*one) or unpack_block(*one)
        yield None if found is None else DecodedBlock(one.first_tick, *found)


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
