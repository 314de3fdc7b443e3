"""Follow a tape at a URL while it is uploaded: each file of it comes whole, once the recording has begun the next one.

Invariants:
    1. Each tick comes once, in order.
    2. What was yielded is still on the tape: a run that was resumed at an earlier tick, and uploaded again, is an error.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from recorder.errors import CorruptError, MissingTickError, RecordingError, TornError
from recorder.format.blocks.frame import Frame
from recorder.location.tape_url import TapeUrl
from recorder.storage.remote.store_errors import ChangedError
from replayer.follow.tail import Ended, KeyframeSeen, Missed, Seen
from replayer.tape.tape import Tape
from sim.closed_on_exit import ClosedOnExit

URL_POLL_S = 2.0  # Each poll is a listing, which stores charge for, and a file takes longer to be recorded.


class UrlTail(ClosedOnExit):
    """A reader that keeps its position in a tape that is uploaded; a context manager. See Tail for what it yields."""

    def __init__(self, url: TapeUrl) -> None:
        """Open the tape. Raises as Tape does."""
        self._tape = Tape(url)
        self._name = url.shown
        self._is_read = False
        self._next_tick: int | None = None
        self._last: Frame | None = None
        self._last_keyframe = -1
        self._damages: set[tuple[int, int]] = set()
        self._ended = False

    def follow(self, *, poll_s: float = URL_POLL_S, wait: Callable[[float], None] = time.sleep) -> Iterator[Seen]:
        """Yield all that is on the tape and was not yielded before, and all that is added, until the recording is closed.

        wait: called with poll_s when there is nothing new. Raises as news does.
        """
        while True:
            is_new = False
            for seen in self.news():
                is_new = True
                yield seen
            if self._ended:
                return
            if not is_new:
                wait(poll_s)

    def news(self) -> Iterator[Seen]:
        """Yield all that is new since the last call.

        Raises as Tape.refresh does, RecordingError if the recording was continued at a tick before the last one yielded.
        """
        if self._ended:
            return
        try:
            if self._is_read:
                self._tape.refresh()
            self._is_read = True
            yield from self._new_items()
        except ChangedError:
            return  # The next call sees the new version.

    def _new_items(self) -> Iterator[Seen]:
        tape = self._tape
        for damage in tape.damages:
            place = damage.segment, damage.offset
            if not damage.torn and place not in self._damages:
                self._damages.add(place)
                yield damage
        if tape.keyframes:
            self._ensure_continues()
            yield from self._new_ticks()
        if tape.sealed:
            self._ended = True
            yield Ended(tape.outcome)

    def _ensure_continues(self) -> None:
        """Raise RecordingError if the last frame that was yielded is not on the tape any more."""
        if self._last is None or self._last.tick <= self._tape.first_tick:
            return  # A ring has dropped it.
        try:
            if self._tape.frame(self._last.tick).proof() == self._last.proof():
                return
        except (MissingTickError, CorruptError, TornError):
            pass
        raise RecordingError(
            f"{self._name}: tick {self._last.tick:,} is not what it was: the run was continued before it"
        )

    def _new_ticks(self) -> Iterator[Seen]:
        tape = self._tape
        begin = tape.first_tick + 1
        if self._next_tick is None:
            self._next_tick = begin
        elif self._next_tick < begin:
            yield Missed(self._next_tick, begin - 1, "a ring has dropped it")
            self._next_tick = begin
        keyframes = {one.tick: one.is_full for one in tape.keyframes if one.tick > self._last_keyframe}
        for tick in sorted(one for one in keyframes if one < self._next_tick):
            yield self._keyframe(tick, is_full=keyframes[tick])
        for run in tape.recording.runs(self._next_tick, tape.last_tick):
            if run.error is not None:
                self._next_tick = run.last_tick + 1
                yield Missed(run.first_tick, run.last_tick, _why(run.error))
            for frame in run.frames:
                self._next_tick, self._last = frame.tick + 1, frame
                yield frame
                if frame.tick in keyframes:
                    yield self._keyframe(frame.tick, is_full=keyframes[frame.tick])

    def _keyframe(self, tick: int, *, is_full: bool) -> KeyframeSeen:
        self._last_keyframe = tick
        return KeyframeSeen(tick, is_full)

    def close(self) -> None:
        """Close the tape; a second call does nothing."""
        self._tape.close()


def _why(error: RecordingError) -> str:
    match error:
        case CorruptError():
            return error.what
        case MissingTickError():
            return error.why
    return "the file ends inside their block"
