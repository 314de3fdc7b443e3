"""What a tape says of its states: the hash of each, or links that identify them by what changed."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from recorder.errors import CorruptError, MissingTickError, TornError
from recorder.format.blocks.file_header import LINKED
from recorder.format.blocks.hash_chain import identity_of
from recorder.format.recording.change_replay import ChangeLog

if TYPE_CHECKING:
    from recorder.format.recording.recording import Recording

_UNREADABLE = (MissingTickError, CorruptError, TornError)


class Proofs:
    """Of one recording."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording

    @property
    def has_links(self) -> bool:
        """Whether frames may have links in place of state hashes."""
        headers = [segment.contents.header for segment in self._recording.segments]
        return any(header is not None and header.incompatible & LINKED for header in headers)

    def state_hash(self, tick: int) -> int:
        """The hash of the state at tick: the recorded one, or, of a tick with a link, that to which its changes lead.

        Raises as Recording.frame and snapshot do, and MissingTickError where they do not lead there.
        """
        recorded = self.recorded_hash(tick)
        if recorded is None:
            recorded = self._log.state_hash(tick)
        if recorded is None:
            raise MissingTickError(tick, "its frame has no state hash, and what the ticks changed does not lead to it")
        return recorded

    def recorded_hash(self, tick: int) -> int | None:
        """The recorded hash of the state at tick; None if only a link is recorded. Raises as frame and snapshot do."""
        try:
            found = self._recording.frame(tick).state_hash
        except _UNREADABLE:
            found = self._hash_of_keyframe(tick)
            if found is None:
                raise
        return found if found is not None else self._hash_of_keyframe(tick)

    def _hash_of_keyframe(self, tick: int) -> int | None:
        """A keyframe proves itself, without the frame of its tick."""
        place = self._recording.keyframe_at(tick)
        return self._recording.snapshot(place).hash() if place is not None else None

    def has_link(self, tick: int) -> bool:
        """Whether its frame has a link in place of the state's hash."""
        try:
            return bool(self._recording.frame(tick).link)
        except _UNREADABLE:
            return False

    def identity(self, tick: int) -> bytes:
        """What the link of the next tick comes upon. Raises as Recording.frame and snapshot do."""
        try:
            return self._recording.frame(tick).identity
        except _UNREADABLE:
            found = self._hash_of_keyframe(tick)
            if found is None:
                raise
            return identity_of(found)

    @functools.cached_property
    def _log(self) -> ChangeLog:
        return ChangeLog(self._recording)
