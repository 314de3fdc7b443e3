"""Ranges of one file that were read, the last used ones up to a size."""

from __future__ import annotations

from collections import OrderedDict


class RangeCache:
    """Ranges of bytes by their offsets. They may overlap; the one that was used longest ago is dropped first."""

    def __init__(self, size_bytes_max: int) -> None:
        """size_bytes_max: of all ranges together; 0 keeps none."""
        self._size_bytes_max = size_bytes_max
        self._ranges: OrderedDict[int, bytes] = OrderedDict()
        self.size_bytes = 0

    def get(self, offset: int, end_offset: int) -> bytes | None:
        """The bytes from offset to end_offset if one range has all of them, otherwise None."""
        for start, data in reversed(self._ranges.items()):
            if start <= offset and end_offset <= start + len(data):
                self._ranges.move_to_end(start)
                return data[offset - start : end_offset - start]
        return None

    def put(self, offset: int, data: bytes) -> None:
        """Keep a range, unless all ranges together may not take as much."""
        if len(data) > self._size_bytes_max:
            return
        replaced = self._ranges.pop(offset, b"")
        self.size_bytes += len(data) - len(replaced)
        self._ranges[offset] = data
        while self.size_bytes > self._size_bytes_max:
            _, dropped = self._ranges.popitem(last=False)
            self.size_bytes -= len(dropped)
