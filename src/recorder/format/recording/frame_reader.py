"""Protocol of a reader of frames and keyframes, as RecordedHashes needs it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from recorder.format.blocks.frame import Frame
from recorder.format.segments.block_location import KeyframeLocation
from recorder.format.segments.segment_reader import Segment
from sim.kernel.state import Snapshot


class FrameReader(Protocol):
    """Reads frames and keyframes of one tape. Raises as Recording does."""

    @property
    def segments(self) -> Sequence[Segment]:
        """All segments, ascending by number."""

    def frame(self, tick: int) -> Frame:
        """The frame of one tick."""

    def keyframes_at_or_before(self, tick: int) -> Iterator[KeyframeLocation]:
        """Keyframes from which tick can be reached, the nearest first."""

    def snapshot(self, place: KeyframeLocation) -> Snapshot:
        """The state at a keyframe, checked against its hash."""
