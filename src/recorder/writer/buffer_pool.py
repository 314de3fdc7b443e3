"""Memory that was used before: the system gives fresh pages one by one, which takes many times what writing them does."""

from __future__ import annotations

from collections import deque

from sim.kernel.state import Bytes, unset_arena

KEPT_MAX = 128  # Buffers that nobody uses: as many as a state has fields, for a keyframe, and a state.


class BufferPool:
    """Buffers of a few sizes; taken by one thread, given back by another one."""

    def __init__(self) -> None:
        self._free: deque[Bytes] = deque(maxlen=KEPT_MAX)  # The oldest go when there are more.
        self._made_ready: set[int] = set()

    def take(self, size_bytes: int) -> Bytes:
        """Memory of this size with anything in it, for whoever gives it back when it is no longer needed."""
        for _ in range(len(self._free)):
            one = self._free.pop()  # The one that came back last is the likeliest to be in a cache.
            if len(one) == size_bytes:
                return one
            self._free.appendleft(one)
        return unset_arena(size_bytes)

    def make_ready(self, size_bytes: int) -> None:
        """Have one of this size, once, before it is asked for: whoever asks would wait for its pages."""
        if size_bytes not in self._made_ready:
            self._made_ready.add(size_bytes)
            fresh = unset_arena(size_bytes)
            fresh.fill(0)
            self._free.append(fresh)

    def give(self, buffer: Bytes) -> None:
        """Take memory that nobody will look at any more."""
        buffer.flags.writeable = True  # That of a snapshot was not.
        self._free.append(buffer)
