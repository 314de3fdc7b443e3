"""Rows in a random order through a buffer of bounded size, and rows in batches; columns all the way, no row by itself.

Invariant: what comes out depends on what went in and on the random words alone. These are raw words of PCG64, which
NumPy promises never to change, unlike what its generators make of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from replayer.datasets.rows.columns import Block, Labels, Lists

Array = npt.NDArray[Any]
Chunk = Mapping[str, "Array | list[Array]"]  # Columns of equally many rows; a list where arrays differ in length.

DRAINED_SHARE = 16  # The end of an epoch comes out in so many pieces, so that the buffer is never in memory twice.


def to_chunk(block: Block) -> dict[str, Array | list[Array]]:
    """A block with its texts as text, and its lists apart from each other."""
    found: dict[str, Array | list[Array]] = {}
    for name, column in block.items():
        if isinstance(column, Labels):
            found[name] = np.array(column.texts)[column.codes]
        elif isinstance(column, Lists):
            ends = np.cumsum(column.lengths)
            pairs = zip((ends - column.lengths).tolist(), ends.tolist(), strict=True)
            found[name] = [column.values[start:end].copy() for start, end in pairs]
        else:
            found[name] = column
    return found


def row_count(chunk: Chunk) -> int:
    """How many rows a chunk has."""
    return len(next(iter(chunk.values()), ()))


def cut(chunk: Chunk, start: int, end: int) -> dict[str, Array | list[Array]]:
    """Some rows of a chunk, on the same memory."""
    return {name: column[start:end] for name, column in chunk.items()}


class ShuffleBuffer:
    """Holds rows back, and gives random ones of those it holds whenever there are too many or they are too large."""

    def __init__(self, rows_max: int, bytes_max: int, seed: int) -> None:
        self._rows_max, self._bytes_max = rows_max, bytes_max
        self._random = np.random.PCG64(seed)
        self._columns: dict[str, Array | list[Array | None]] = {}
        self._row_bytes = 0  # Of what has a fixed size.
        self._list_bytes = 0  # Of all lists that are held.
        self._live: list[int] = []  # Rows of _columns that hold something, in any order.
        self._free: list[int] = []

    def add(self, chunk: Chunk) -> Iterator[Chunk]:
        """Put rows in; what comes out for them."""
        if not self._columns:
            self._make_room(chunk)
        start, rows = 0, row_count(chunk)
        while start < rows:
            end = min(rows, start + len(self._free))
            self._put(cut(chunk, start, end), end - start)
            start = end
            drawn = []
            while len(self._live) > self._rows_max or (self._bytes > self._bytes_max and len(self._live) > 1):
                drawn.append(self._draw())
            if drawn:
                yield self._take(drawn)

    def drain(self) -> Iterator[Chunk]:
        """All rows that are left."""
        rows = max(1, len(self._live) // DRAINED_SHARE)
        while self._live:
            yield self._take([self._draw() for _ in range(min(rows, len(self._live)))])

    @property
    def _bytes(self) -> int:
        return len(self._live) * self._row_bytes + self._list_bytes

    def _make_room(self, chunk: Chunk) -> None:
        fixed = [column for column in chunk.values() if not isinstance(column, list)]
        self._row_bytes = sum(column.nbytes for column in fixed) // row_count(chunk)
        self._rows_max = max(1, min(self._rows_max, self._bytes_max // max(1, self._row_bytes)))
        room = self._rows_max + row_count(chunk)
        for name, column in chunk.items():
            is_list = isinstance(column, list)
            self._columns[name] = [None] * room if is_list else np.empty((room, *column.shape[1:]), column.dtype)  # type: ignore[union-attr]
        self._free = list(range(room))

    def _put(self, chunk: Chunk, rows: int) -> None:
        places, self._free = self._free[:rows], self._free[rows:]
        for name, column in chunk.items():
            kept = self._columns[name]
            if isinstance(kept, list):
                for place, value in zip(places, column, strict=True):
                    kept[place] = value
                    self._list_bytes += value.nbytes
            else:
                kept[places] = column
        self._live += places

    def _draw(self) -> int:
        """Take one of the live rows out of their number."""
        word: int = self._random.random_raw()
        place = word * len(self._live) >> 64
        drawn, last = self._live[place], self._live.pop()
        if place < len(self._live):
            self._live[place] = last
        for column in self._columns.values():
            if isinstance(column, list):
                self._list_bytes -= column[drawn].nbytes  # type: ignore[union-attr]
        return drawn

    def _take(self, places: list[int]) -> Chunk:
        found: dict[str, Array | list[Array]] = {}
        for name, column in self._columns.items():
            if isinstance(column, list):
                found[name] = [column[place] for place in places]  # type: ignore[misc]
                for place in places:
                    column[place] = None
            else:
                found[name] = column[places]
        self._free += places
        return found


def in_batches(chunks: Iterable[Chunk], rows: int) -> Iterator[Chunk]:
    """The same rows in the same order, so many at a time, the last batch with what is left; in memory of their own."""
    waiting: list[Chunk] = []
    count = 0
    for chunk in chunks:
        start, end = 0, row_count(chunk)
        while count + end - start >= rows:
            middle = start + rows - count
            yield _joined([*waiting, cut(chunk, start, middle)])
            waiting, count, start = [], 0, middle
        if start < end:
            waiting.append(cut(chunk, start, end))
            count += end - start
    if waiting:
        yield _joined(waiting)


def _joined(chunks: list[Chunk]) -> Chunk:
    found: dict[str, Array | list[Array]] = {}
    for name, first in chunks[0].items():
        if isinstance(first, list):
            found[name] = [value for chunk in chunks for value in chunk[name]]
        else:
            found[name] = np.concatenate([chunk[name] for chunk in chunks])
    return found
