"""Pages of one file that were read, the last used ones up to a size. A page is not fetched again as long as it is kept."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable


class PageCache:
    """Pages of equal size by their numbers; the one that was used longest ago is dropped first."""

    def __init__(self, size_bytes_max: int, page_bytes: int) -> None:
        """size_bytes_max: of all pages together; it may be less than one page. page_bytes: the last page may be shorter."""
        self.page_bytes = page_bytes
        self._count_max = size_bytes_max // page_bytes
        self._pages: OrderedDict[int, bytes] = OrderedDict()

    def get(self, offset: int, end_offset: int) -> bytes | None:
        """The bytes from offset to end_offset if all of their pages are kept, otherwise None."""
        numbers = self._numbers(offset, end_offset)
        if any(number not in self._pages for number in numbers):
            return None
        for number in numbers:
            self._pages.move_to_end(number)
        return self.cut(b"".join(self._pages[number] for number in numbers), numbers[0], offset, end_offset)

    def cut(self, data: bytes, number: int, offset: int, end_offset: int) -> bytes:
        """The bytes from offset to end_offset out of data that begins with the page of a number."""
        start = number * self.page_bytes
        return data[offset - start : end_offset - start]

    def missing(self, offset: int, end_offset: int) -> tuple[int, int]:
        """The offsets of the first missing page of a range and of the end of the last one; equal if none is missing."""
        numbers = [number for number in self._numbers(offset, end_offset) if number not in self._pages]
        return (numbers[0] * self.page_bytes, (numbers[-1] + 1) * self.page_bytes) if numbers else (offset, offset)

    def put(self, offset: int, data: bytes, size_bytes: int) -> None:
        """Keep the pages that data covers completely. offset: of data; it begins a page. size_bytes: of the file."""
        for start in range(0, len(data), self.page_bytes):
            page = data[start : start + self.page_bytes]
            if len(page) == self.page_bytes or offset + start + len(page) == size_bytes:
                self._pages[(offset + start) // self.page_bytes] = page
                self._pages.move_to_end((offset + start) // self.page_bytes)
        while len(self._pages) > self._count_max:
            self._pages.popitem(last=False)

    @property
    def kept(self) -> Iterable[int]:
        """The numbers of the pages, those used last at the end."""
        return list(self._pages)

    def _numbers(self, offset: int, end_offset: int) -> range:
        return range(offset // self.page_bytes, -(-end_offset // self.page_bytes))
