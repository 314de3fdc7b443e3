"""The queue from the simulation's thread to the writer's: no lock, and no wake-up as long as little waits.

Waking a thread costs the simulation more than the rest of a tick's recording, and while the writer holds the
interpreter lock the simulation stands still. So the writer polls, and takes everything that waits.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

from recorder.writer.jobs import KeyframeJob, TickOutput

POLL_S = 0.05  # Each poll slows down a few ticks: at this interval at most one of a hundred.
WAKE_BYTES = 1 << 20  # The writer is woken after at most this many bytes, and when a journal area is full.
KEYFRAME_BYTES_MAX = 64 << 20  # Of keyframes until they are encoded; one more is always allowed, of any size.
WAITING_BYTES_MAX = 64 << 20  # Of waiting frames; some minutes of an ordinary run.

Item = bytes | TickOutput | KeyframeJob


class HandoffQueue:
    """A queue with one thread that puts and one that takes.

    Attributes:
        items: what waits. put_bytes: of all frames and outputs that were put. wake_at_bytes: of these, make_room is due.
            The step of a recorder does what put does, without its call.
    """

    def __init__(self, wait_until: Callable[[Callable[[], bool]], None], split_bytes: int | None = None) -> None:
        """wait_until: called if too much waits, with the condition to wait for while the writer's thread works.

        split_bytes: size at which a file ends. Only written bytes count towards it, so little may wait if it is small.
        """
        self._wait_until = wait_until
        self._wake_bytes = WAKE_BYTES if split_bytes is None else min(WAKE_BYTES, split_bytes // 4 + 1)
        self.items: deque[Item] = deque()
        self.put_bytes = self._taken_bytes = self._keyframe_bytes_put = self._keyframe_bytes_done = 0
        self._keyframes_put = self._keyframes_done = 0
        self.wake_at_bytes = self._wake_bytes
        self._is_busy = False
        self._wake = threading.Event()

    def put(self, item: bytes | TickOutput) -> None:
        """Put a frame or the output of a tick; waits while there is no room. Raises as wait_until does."""
        self.items.append(item)
        self.put_bytes += len(item)
        if self.put_bytes > self.wake_at_bytes:
            self.make_room(len(item))

    def make_room(self, size_bytes: int) -> None:
        """Wake the writer, and wait while there is no room. size_bytes: of the item that was put last, which may be large."""
        self.wake()
        if self.waiting_bytes - size_bytes > WAITING_BYTES_MAX:  # See KeyframePolicy for large ones.
            self._wait_until(lambda: self.waiting_bytes <= WAITING_BYTES_MAX // 2)

    def put_keyframe(self, job: KeyframeJob) -> None:
        """Put a keyframe, for which there is room. Wakes the writer if a new file begins with it, or if much waits."""
        self._keyframe_bytes_put += job.size_bytes
        self._keyframes_put += 1
        self.items.append(job)
        if job.rotate or self._keyframe_bytes > KEYFRAME_BYTES_MAX // 4:
            self.wake()

    @property
    def _keyframe_bytes(self) -> int:
        return self._keyframe_bytes_put - self._keyframe_bytes_done

    def has_room_for_keyframe(self) -> bool:
        """Return True if a keyframe may be put now."""
        return self._keyframe_bytes <= KEYFRAME_BYTES_MAX

    def is_nearly_empty(self) -> bool:
        """Return True if little waits besides keyframes."""
        return self.waiting_bytes <= WAITING_BYTES_MAX // 2

    def has_little(self) -> bool:
        """Return True if little waits, and all keyframes are encoded."""
        # By number: one without changes has no bytes of its own, but its full keyframe is read, or built and encoded.
        return self.is_nearly_empty() and self._keyframes_put == self._keyframes_done

    def wake(self) -> None:
        """Wake the writer's thread."""
        self.wake_at_bytes = self.put_bytes + self._wake_bytes
        self._wake.set()

    @property
    def waiting_bytes(self) -> int:
        """Size of the frames and outputs that were put and are not in blocks yet."""
        return self.put_bytes - self._taken_bytes

    @property
    def is_done(self) -> bool:
        """True if everything that was put has been processed."""
        return not self.items and not self._is_busy

    # --- called by the thread that takes

    def take(self) -> list[Item]:
        """Take everything that waits now. Does not repeat until the queue is empty: the writer must check its clocks."""
        self._is_busy = True
        return [self.items.popleft() for _ in range(len(self.items))]

    def count_taken(self, size_bytes: int) -> None:
        """Note that this many taken bytes are in blocks, or dropped."""
        self._taken_bytes += size_bytes

    def count_keyframe(self, job: KeyframeJob) -> None:
        """Note that a taken keyframe was encoded."""
        self._keyframe_bytes_done += job.size_bytes
        self._keyframes_done += 1

    def rest(self) -> None:
        """Wait until the next poll or a wake-up."""
        self._is_busy = False
        self._wake.wait(POLL_S)
        self._wake.clear()
