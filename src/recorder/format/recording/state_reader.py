"""Protocols of a reader of states, as ChangeLog needs it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, TypeVar

from recorder.format.copier import Copier
from recorder.format.recording.frame_reader import FrameReader
from recorder.format.recording.recorded_hashes import RecordedHashes
from recorder.format.segments.block_location import KeyframeLocation
from recorder.format.segments.segment_reader import Segment

T = TypeVar("T")


class IndexedReader(Protocol):
    """Finds blocks by the index of a tape, or by their headers if the index is wrong."""

    @property
    def segments(self) -> Sequence[Segment]:
        """All segments, ascending by number."""

    def believing_index(self, action: Callable[[], T]) -> T:
        """Run action; if it fails because of a wrong index, find the blocks by their headers and run it again."""


class StateReader(FrameReader, IndexedReader, Protocol):
    """Reads the keyframes that a change log starts from and the hashes that it is checked against; see Recording."""

    @property
    def copier(self) -> Copier:
        """Copies large states."""

    @property
    def recorded_hashes(self) -> RecordedHashes:
        """The recorded identity of each state."""

    @property
    def first_tick(self) -> int:
        """The first tick with a state."""

    @property
    def last_tick(self) -> int:
        """The last tick with a frame or a keyframe."""

    @property
    def keyframes(self) -> Sequence[KeyframeLocation]:
        """All keyframes, in the order of their ticks."""

    def keyframes_at_or_before(self, tick: int) -> Iterator[KeyframeLocation]:
        """Keyframes from which tick may be reached, the nearest first."""

    def keyframe_after(self, tick: int) -> KeyframeLocation | None:
        """The first keyframe at or after tick."""
