"""The content of blocks as a series of parts: the payload of a large state is never completely in memory.

Parts are joined by NumPy copies, which let other threads run; bytes.join would block them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np

from sim.kernel.state import Bytes


class Payload:
    """Parts back to back."""

    def __init__(self, size_bytes: int, parts: Callable[[], Iterable[Bytes]]) -> None:
        """size_bytes: of all parts together. parts: makes them, in order; called again each time they are needed."""
        self.size_bytes = size_bytes
        self._parts = parts

    @classmethod
    def of(cls, *parts: bytes | memoryview) -> Payload:
        """Make a payload of parts that are in memory."""
        arrays = [np.frombuffer(part, np.uint8) for part in parts if len(part)]
        return cls(sum(map(len, parts)), lambda: arrays)

    def joined(self) -> memoryview:
        """Join all parts."""
        content, place = np.empty(self.size_bytes, np.uint8), 0
        for part in self._parts():  # One by one: a part may reuse the memory of the part before.
            content[place : place + len(part)] = part
            place += len(part)
        return content.data

    def pieces(self, size_bytes: int) -> Iterator[memoryview]:
        """Yield all parts in pieces of a size; the last may be smaller. Each is valid until the next is requested."""
        gathered, count = np.empty(min(size_bytes, self.size_bytes), np.uint8), 0
        for part in self._parts():
            begin = 0
            while begin < len(part):
                if not count and len(part) - begin >= size_bytes:
                    yield part[begin : begin + size_bytes].data
                    begin += size_bytes
                    continue
                taken = min(len(part) - begin, size_bytes - count)
                gathered[count : count + taken] = part[begin : begin + taken]
                begin, count = begin + taken, count + taken
                if count == size_bytes:
                    yield gathered.data
                    count = 0
        if count:
            yield gathered[:count].data
