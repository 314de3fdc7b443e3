"""What goes from the simulation's thread to the writer's: no lock, and no wake-up as long as little waits.

Waking a thread costs the simulation more than all else that a tick's recording does, and as long as the writer holds
the interpreter the simulation stands still. So the writer looks by itself now and then, and takes all that is there.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

from recorder.writer.jobs import KeyframeJob, TickOutput

POLL_S = 0.05  # Each time the writer is awake a few ticks take longer: one of a hundred, not more.
WAKE_BYTES = 1 << 20  # At most; a journal area that is full wakes it, too.
KEYFRAME_BYTES_MAX = 64 << 20  # Keyframes waiting; one more than that is always allowed, however large.
WAITING_BYTES_MAX = 64 << 20  # Of frames; some minutes of an ordinary run.

Item = bytes | TickOutput | KeyframeJob


class HandoffQueue:
    """A queue with one thread that puts and one that takes."""

    def __init__(self, wait_until: Callable[[Callable[[], bool]], None], split_bytes: int | None = None) -> None:
        """wait_until: called where too much waits, with a condition to wait for while the other thread works.

        split_bytes: where a file is to end; its length is known by what was written, of which little may wait then.
        """
        self._wait_until = wait_until
        self._wake_bytes = WAKE_BYTES if split_bytes is None else min(WAKE_BYTES, split_bytes // 4 + 1)
        self._items: deque[Item] = deque()
        self._put_bytes = self._taken_bytes = self._keyframe_bytes_put = self._keyframe_bytes_done = 0
        self._wake_at_bytes = self._wake_bytes
        self._is_busy = False
        self._wake = threading.Event()

    def put(self, item: bytes | TickOutput) -> None:
        """Hand over a frame, or what a tick has brought; waits while there is no room. Raises what wait_until does."""
        self._items.append(item)
        self._put_bytes += len(item)
        if self._put_bytes > self._wake_at_bytes:
            self.wake()
            if self.waiting_bytes > WAITING_BYTES_MAX:
                self._wait_until(lambda: self.waiting_bytes <= WAITING_BYTES_MAX // 2)

    def put_keyframe(self, job: KeyframeJob) -> None:
        """Hand over a keyframe, for which there is room. A new file begins with it, or much waits: then it is taken soon."""
        self._keyframe_bytes_put += job.size_bytes
        self._items.append(job)
        if job.rotate or self._keyframe_bytes > KEYFRAME_BYTES_MAX // 4:
            self.wake()

    @property
    def _keyframe_bytes(self) -> int:
        return self._keyframe_bytes_put - self._keyframe_bytes_done

    def has_room_for_keyframe(self) -> bool:
        """Whether one may be put now."""
        return self._keyframe_bytes <= KEYFRAME_BYTES_MAX

    def wake(self) -> None:
        """Let the other thread work soon."""
        self._wake_at_bytes = self._put_bytes + self._wake_bytes
        self._wake.set()

    @property
    def waiting_bytes(self) -> int:
        """Of frames and outputs that were put and are not in blocks yet."""
        return self._put_bytes - self._taken_bytes

    @property
    def is_done(self) -> bool:
        """Whether all that was put has been dealt with."""
        return not self._items and not self._is_busy

    # --- called by the thread that takes

    def take(self) -> list[Item]:
        """All that waits now. Not until nothing does: under load the clocks must be looked at."""
        self._is_busy = True
        return [self._items.popleft() for _ in range(len(self._items))]

    def count_taken(self, size_bytes: int) -> None:
        """So much of what was taken is in blocks, or gone."""
        self._taken_bytes += size_bytes

    def count_keyframe(self, job: KeyframeJob) -> None:
        """A keyframe that was taken is being made."""
        self._keyframe_bytes_done += job.size_bytes

    def rest(self) -> None:
        """Wait until it is time to take again."""
        self._is_busy = False
        self._wake.wait(POLL_S)
        self._wake.clear()
