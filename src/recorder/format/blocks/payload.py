"""The content of blocks in the parts that it is made of: that of a large state is never in memory as a whole.

It is put together by NumPy's copies, which let other threads run, where bytes.join would stop them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from sim.kernel.state import Bytes


class Payload:
    """Parts back to back, which may be gone through once."""

    def __init__(self, size_bytes: int, parts: Iterable[Bytes]) -> None:
        """size_bytes: of all parts."""
        self.size_bytes = size_bytes
        self._parts = parts

    @classmethod
    def of(cls, *parts: bytes | memoryview) -> Payload:
        """Of what is in memory already."""
        return cls(sum(map(len, parts)), [np.frombuffer(part, np.uint8) for part in parts if len(part)])

    def joined(self) -> memoryview:
        """All of it."""
        whole, place = np.empty(self.size_bytes, np.uint8), 0
        for part in self._parts:  # One by one: each may come in the memory of the one before.
            whole[place : place + len(part)] = part
            place += len(part)
        return whole.data

    def pieces(self, size_bytes: int) -> Iterator[memoryview]:
        """All of it in pieces of a size, the last one may be smaller; each is good until the next one is asked for."""
        gathered, count = np.empty(min(size_bytes, self.size_bytes), np.uint8), 0
        for part in self._parts:
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
