"""The recorded identity of each state: its hash, or a link, which is a chained hash of what changed."""

from __future__ import annotations

from recorder.errors import CorruptError, MissingTickError, TornError
from recorder.format.blocks.file_header import LINKED
from recorder.format.blocks.hash_chain import identity_of
from recorder.format.recording.frame_reader import FrameReader

_UNREADABLE = (MissingTickError, CorruptError, TornError)


class RecordedHashes:
    """The recorded hashes of one tape."""

    def __init__(self, reader: FrameReader) -> None:
        self._reader = reader

    @property
    def has_hash_chain(self) -> bool:
        """Whether frames may have links in place of state hashes."""
        headers = [segment.contents.header for segment in self._reader.segments]
        return any(header is not None and header.incompatible & LINKED for header in headers)

    def recorded_hash(self, tick: int) -> int | None:
        """The recorded hash of the state at tick; None if only a link is recorded. Raises as frame and snapshot do."""
        try:
            found = self._reader.frame(tick).state_hash
        except _UNREADABLE:
            found = self._hash_of_keyframe(tick)
            if found is None:
                raise
        return found if found is not None else self._hash_of_keyframe(tick)

    def _hash_of_keyframe(self, tick: int) -> int | None:
        """A keyframe proves itself, without the frame of its tick."""
        place = self._reader.keyframe_at(tick)
        return self._reader.snapshot(place).hash() if place is not None else None

    def is_chained(self, tick: int) -> bool:
        """Whether its frame has a link in place of the state's hash."""
        try:
            return bool(self._reader.frame(tick).link)
        except _UNREADABLE:
            return False

    def identity(self, tick: int) -> bytes:
        """What the link of the next tick comes upon. Raises as Recording.frame and snapshot do."""
        try:
            return self._reader.frame(tick).identity
        except _UNREADABLE:
            found = self._hash_of_keyframe(tick)
            if found is None:
                raise
            return identity_of(found)
