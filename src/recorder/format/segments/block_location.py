"""Locations of frames and keyframes: a part of the index together with its segment.

Ticks are unsigned 64-bit integers. NumPy is always queried with numbers of that type. With a Python int it would convert
the column to floats at every query, which takes time and is wrong above 2^53.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Self

import attrs
import numpy as np
import numpy.typing as npt

from recorder.errors import CorruptError, RecordingError
from recorder.format.blocks.block import OPTIONAL_KIND, BlockKind
from recorder.format.blocks.frame import Frame
from recorder.format.limits import KEYFRAME_RAW_BYTES_MAX
from recorder.format.segments.index import Entry, IndexPart
from recorder.format.segments.segment_contents import LazyIndexPart
from recorder.format.segments.segment_reader import Segment
from sim.kernel.state import Snapshot

TICK_MAX = (1 << 64) - 1  # The largest number of 64 bits.


@attrs.frozen
class KeyframeLocation:
    """A keyframe on the tape.

    Attributes:
        tick: of the state.
        is_full: True for a full keyframe, False for a delta.
        entry: of its first block.
        segment: number of its segment.
        end_offset: an upper bound for the end of its last block.
    """

    tick: int
    is_full: bool
    entry: Entry
    segment: int
    end_offset: int

    @classmethod
    def of(cls, part: IndexPart, row: int, segment: int) -> Self:
        """The keyframe in a row of a part of the index."""
        entry = part.entry(row)
        return cls(entry.first_tick, entry.kind == BlockKind.FULL, entry, segment, part.end_of(row))

    def ensure_its_own(self, tick: int, snapshot: Snapshot) -> Snapshot:
        """Return the state that was read here. Raises CorruptError if its tick is a different one."""
        if tick != self.tick:
            raise CorruptError(self.entry.offset, f"a keyframe of tick {tick} in a block of tick {self.tick}")
        return snapshot


@attrs.frozen
class FrameRun:
    """Consecutive ticks whose frames can all be read, or of which none can.

    Attributes:
        first_tick, last_tick: the range of ticks.
        frames: one for each tick; empty if they cannot be read.
        error: why they cannot be read; None if they can.
    """

    first_tick: int
    last_tick: int
    frames: Sequence[Frame]
    error: RecordingError | None


@attrs.frozen
class OptionalBlock:
    """A block of a kind that this program need not know.

    Attributes:
        segment: that contains it.
        entry: of its first piece.
        end_offset: an upper bound for the end of its last piece.
    """

    segment: Segment
    entry: Entry
    end_offset: int

    @property
    def position(self) -> tuple[int, int]:
        """Position among all blocks of the tape: segment and offset."""
        return self.segment.number, self.entry.offset

    def payload(self, bytes_max: int = KEYFRAME_RAW_BYTES_MAX) -> bytes:
        """Read the payload, joined from its pieces; at most bytes_max. Raises CorruptError or TornError."""
        return self.segment.joined(self.entry, self.end_offset, bytes_max)


def optional_blocks(segments: Sequence[Segment]) -> list[OptionalBlock]:
    """All blocks of kinds that may be skipped, except INDEX, in file order. Raises as reading an index does."""
    blocks: list[OptionalBlock] = []
    for segment in segments:
        for part in (lazy.load() for lazy in segment.parts):
            kinds = part.columns["kind"]
            rows = np.flatnonzero((kinds & OPTIONAL_KIND != 0) & (kinds != BlockKind.INDEX)).tolist()
            blocks += [OptionalBlock(segment, part.entry(row), part.end_of(row)) for row in rows]
    return blocks


class BlockLocation:
    """A part of the index with its segment."""

    def __init__(self, segment: Segment, lazy: LazyIndexPart) -> None:
        self.segment = segment
        self.summary = lazy.summary
        self.load = lazy.load

    def keyframe(self, part: IndexPart, row: int) -> KeyframeLocation:
        """The keyframe of a row."""
        return KeyframeLocation.of(part, row, self.segment.number)

    def keyframes(self) -> Iterator[KeyframeLocation]:
        """All keyframes in this part. All methods raise CorruptError or TornError if the index cannot be read."""
        part = self.load()
        return (self.keyframe(part, int(row)) for row in part.keyframe_rows)

    def keyframes_down_from(self, tick: int) -> Iterator[KeyframeLocation]:
        """The keyframes at or before tick, the nearest first."""
        part = self.load()
        for number in range(_count_up_to(part.keyframe_ticks, tick) - 1, -1, -1):
            yield self.keyframe(part, int(part.keyframe_rows[number]))

    def keyframes_up_from(self, tick: int) -> Iterator[KeyframeLocation]:
        """The keyframes at or after tick, the nearest first."""
        part = self.load()
        start = int(np.searchsorted(part.keyframe_ticks, np.uint64(tick)))
        for number in range(start, len(part.keyframe_rows)):
            yield self.keyframe(part, int(part.keyframe_rows[number]))

    def frames_block(self, tick: int) -> tuple[Entry, int] | None:
        """The block that should hold the frame of tick, with an upper bound for its end; None if there is none."""
        part = self.load()
        number = _count_up_to(part.frame_ticks, tick) - 1
        if number >= 0:
            row = int(part.frame_rows[number])
            if tick - int(part.frame_ticks[number]) < int(part.columns["tick_count"][row]):
                return part.entry(row), part.end_of(row)
        return None

    def next_block_tick(self, tick: int) -> int:
        """The first tick of the next block of frames after tick in this part; TICK_MAX if there is none."""
        part = self.load()
        number = _count_up_to(part.frame_ticks, tick)
        return int(part.frame_ticks[number]) if number < len(part.frame_ticks) else TICK_MAX


def _count_up_to(ticks: npt.NDArray[Any], tick: int) -> int:
    return int(np.searchsorted(ticks, np.uint64(min(tick, TICK_MAX)), side="right"))
