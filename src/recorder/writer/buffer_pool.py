"""A pool of reused buffers: the page faults of fresh memory cost many times the time to write it."""

from __future__ import annotations

from collections import deque

from sim.kernel.state import Bytes, unset_arena

KEPT_MAX = 128  # Free buffers: one for each field of a state, for a keyframe, and one for a state.
# Larger buffers are made again. That takes a tenth of a second or so at each keyframe, which is little where a buffer is that
# large: a tick takes as long. Kept, they would be half a state or more.
KEPT_BUFFER_BYTES_MAX = 300_000_000
KEPT_STATES_MAX = 1  # Free bytes, in the largest buffer: those of a state that has grown are of no further use.


class BufferPool:
    """Buffers of a few sizes; one thread takes them, a second one gives them back. Either may clear them."""

    def __init__(self) -> None:
        self._free: deque[Bytes] = deque(maxlen=KEPT_MAX)  # Beyond that, the oldest are released.
        self._prepared: set[int] = set()
        self._largest = 0

    def take(self, size_bytes: int) -> Bytes:
        """Take a buffer of this size with undefined content. The user gives it back when it is no longer needed."""
        self._largest = max(self._largest, size_bytes)
        free = self._free  # Nothing else removes any from this one: clear begins another.
        found = _find(free, size_bytes)
        excess = sum(map(len, tuple(free))) - KEPT_STATES_MAX * self._largest
        while excess > 0:
            excess -= len(free.popleft())  # What was not wanted for longest.
        return unset_arena(size_bytes) if found is None else found

    def make_ready(self, size_bytes: int) -> None:
        """Prepare one buffer of this size, once, before it is requested: take would wait for its pages."""
        if size_bytes not in self._prepared and size_bytes <= KEPT_BUFFER_BYTES_MAX:
            self._prepared.add(size_bytes)
            fresh = unset_arena(size_bytes)
            fresh.fill(0)
            self._free.append(fresh)

    def clear(self) -> None:
        """Release all free buffers."""
        self._free = deque(maxlen=KEPT_MAX)

    def give(self, buffer: Bytes) -> None:
        """Give back a buffer that is not used any more."""
        if len(buffer) > KEPT_BUFFER_BYTES_MAX:
            return
        buffer.flags.writeable = True  # The buffer of a snapshot is read-only.
        self._free.append(buffer)


def _find(free: deque[Bytes], size_bytes: int) -> Bytes | None:
    """Take a buffer of this size out of the free ones; None if there is none."""
    for _ in range(len(free)):
        buffer = free.pop()  # The one that came back last is the likeliest to be in a cache.
        if len(buffer) == size_bytes:
            return buffer
        free.appendleft(buffer)
    return None
