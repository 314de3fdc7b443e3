"""The recorded identity of each state: its hash, or a chained hash of the changes (a link)."""

from __future__ import annotations

import functools

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
        """True if frames may have links in place of state hashes: headers say so, or the frames if no header is left."""
        headers = [segment.contents.header for segment in self._reader.segments]
        known = [header for header in headers if header is not None]
        return any(header.incompatible & LINKED for header in known) if known else self._is_any_frame_linked

    @functools.cached_property
    def _is_any_frame_linked(self) -> bool:
        summaries = [part.summary for segment in self._reader.segments for part in segment.parts]
        return any(self.is_chained(tick) for one in summaries for tick in range(one.first_tick, one.last_tick + 1))

    def recorded_hash(self, tick: int) -> int | None:
        """The recorded hash of the state at tick; None if only a link is recorded. Raises as frame and snapshot do."""
        try:
            state_hash = self._reader.frame(tick).state_hash
        except _UNREADABLE:
            state_hash = self._hash_of_keyframe(tick)
            if state_hash is None:
                raise
        return state_hash if state_hash is not None else self._hash_of_keyframe(tick)

    def _hash_of_keyframe(self, tick: int) -> int | None:
        """The hash in a keyframe of tick, which needs no frame; None if there is none.

        A resumed tape may have several of one tick. Raises CorruptError or TornError if none of them can be read.
        """
        problem: CorruptError | TornError | None = None
        for place in self._reader.keyframes_at_or_before(tick):
            if place.tick != tick:
                break
            try:
                return self._reader.snapshot(place).hash()
            except (CorruptError, TornError) as error:
                problem = problem or error
        if problem is not None:
            raise problem
        return None

    def is_chained(self, tick: int) -> bool:
        """Return True if the frame of tick has a link in place of a state hash."""
        try:
            return bool(self._reader.frame(tick).link)
        except _UNREADABLE:
            return False

    def identity(self, tick: int) -> bytes:
        """The 8 bytes that the link of the next tick is based on. Raises as Recording.frame and snapshot do."""
        try:
            return self._reader.frame(tick).identity
        except _UNREADABLE:
            state_hash = self._hash_of_keyframe(tick)
            if state_hash is None:
                raise
            return identity_of(state_hash)
