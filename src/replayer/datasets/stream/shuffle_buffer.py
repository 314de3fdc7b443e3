"""Shuffle rows through a buffer of bounded size, and group rows into batches, always as columns.

Invariant: the output depends only on the input and the random words. These are raw words of PCG64: NumPy promises not to
change them, unlike the numbers that its generators make of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import attrs
import numpy as np
import numpy.typing as npt

from replayer.datasets.request import ExtractionError
from replayer.datasets.rows.columns import Block, Column, Labels, Lists, Nested, Texts

Array = npt.NDArray[Any]
Chunk = Mapping[
    str, "Array | list[Array]"
]  # Columns with the same number of rows; a list if its arrays differ in length.

DRAINED_SHARE = 16  # The buffer is emptied in about 16 pieces, so that it is never in memory twice.


OF_SPACES = ("obs", "action", "next")  # Columns that differ where the spaces of environments do.


def to_chunk(block: Block, environments: str | None = None) -> dict[str, Array | list[Array]]:
    """Convert a block: labels to arrays of text, lists to separate arrays, texts to arrays of objects.

    environments: a sentence that names them, if the tapes are of several. Raises ExtractionError for a missing value.
    """
    chunk: dict[str, Array | list[Array]] = {}
    for name, column in block.items():
        if isinstance(column, Labels):
            chunk[name] = np.array(column.texts)[column.codes]
        elif isinstance(column, Lists):
            ends = np.cumsum(column.lengths)
            pairs = zip((ends - column.lengths).tolist(), ends.tolist(), strict=True)
            chunk[name] = [column.values[start:end].copy() for start, end in pairs]
        elif isinstance(column, Texts):
            # Objects: an array of text would have the length of the longest one so far.
            chunk[name] = np.array([*column.values, None], object)[:-1]
        else:
            chunk[name] = column.values if isinstance(column, Nested) else column
        if _misses_some(column):
            environments = environments if name.startswith(OF_SPACES) else None
            raise ExtractionError(
                f"the column {name} misses some values, which an array cannot: "
                f"{f'{environments}; ' if environments else ''}choose others (columns=...), "
                f"{'read each environment by itself, ' if environments else ''}or extract into a folder"
            )
    return chunk


def _misses_some(column: Column) -> bool:
    if isinstance(column, Texts):
        return None in column.values
    return isinstance(column, Nested | Lists) and column.present is not None


def row_count(chunk: Chunk) -> int:
    """Return the number of rows of a chunk."""
    return len(next(iter(chunk.values()), ()))


def cut(chunk: Chunk, start: int, end: int) -> dict[str, Array | list[Array]]:
    """Return some rows of a chunk, on the same memory."""
    return {name: column[start:end] for name, column in chunk.items()}


@attrs.frozen
class Held:
    """The contents of a buffer without their data: enough to fill an equal one from the parts again.

    Attributes:
        draws: the number of random words used. room: the number of rows that fit while a chunk is added.
        parts, rows: of each row in the buffer, its part and its row in the part.
    """

    draws: int
    room: int
    parts: list[int]
    rows: list[int]


class ShuffleBuffer:
    """Holds rows up to a limit of rows and bytes; beyond it, returns random ones."""

    def __init__(self, rows_max: int, bytes_max: int, seed: int) -> None:
        self._rows_max, self._bytes_max = rows_max, bytes_max
        self._random = np.random.PCG64(seed)
        self._draws = 0
        self._origins = np.zeros((0, 2), np.int64)  # Of each row: its part, and its row in the part.
        self._columns: dict[str, Array | list[Array | None]] = {}
        self._row_bytes = 0  # Of columns of fixed size.
        self._list_bytes = 0  # Of all lists in the buffer.
        self._live: list[int] = []  # Indices of the occupied rows of _columns, in any order.
        self._free: list[int] = []  # Indices of the other rows.

    def __len__(self) -> int:
        return len(self._live)

    def held(self) -> Held:
        """Return the contents, as positions."""
        parts, rows = self._origins[self._live].T.tolist()
        return Held(self._draws, len(self._origins), parts, rows)

    def restore(self, held: Held, chunks: Iterable[tuple[int, int, Chunk]]) -> None:
        """Make this new buffer equal to the one that held was taken of.

        chunks: each with its part and its first row in the part, with all rows of held among them. Raises
        ExtractionError if a row is not among them.
        """
        positions = list(zip(held.parts, held.rows, strict=True))
        places = {position: index for index, position in enumerate(positions)}
        for part, first, chunk in chunks:
            if not self._columns:
                self._allocate(chunk, held.room)
            inside = [row for row in range(row_count(chunk)) if (part, first + row) in places]
            if inside:
                picked = {
                    name: [column[row] for row in inside] if isinstance(column, list) else column[inside]
                    for name, column in chunk.items()
                }
                self._fill([places.pop((part, first + row)) for row in inside], picked)
        if places:
            raise ExtractionError(
                f"{len(places):,} rows that were read before could not be read again: the state cannot be resumed"
            )
        self._live, self._free = list(range(len(positions))), list(range(len(positions), held.room))
        self._origins[: len(positions)] = positions
        self._random.advance(held.draws)
        self._draws = held.draws

    def add(self, chunk: Chunk, part: int = 0, first: int = 0) -> Iterator[Chunk]:
        """Put rows in; yield the rows that have to leave. part, first: the part of the rows, and their first one's row in it."""
        if not self._columns:
            self._allocate(chunk)
        start, rows = 0, row_count(chunk)
        while start < rows:
            end = min(rows, start + len(self._free))
            indices, self._free = self._free[: end - start], self._free[end - start :]
            self._fill(indices, cut(chunk, start, end))
            self._origins[indices, 0] = part
            self._origins[indices, 1] = range(first + start, first + end)
            self._live += indices
            start = end
            leaving = []
            while len(self._live) > self._rows_max or (self._bytes > self._bytes_max and len(self._live) > 1):
                leaving.append(self._draw())
            if leaving:
                yield self._take(leaving)

    def drain(self) -> Iterator[Chunk]:
        """Yield all remaining rows."""
        rows = max(1, len(self._live) // DRAINED_SHARE)
        while self._live:
            yield self._take([self._draw() for _ in range(min(rows, len(self._live)))])

    @property
    def _bytes(self) -> int:
        return len(self._live) * self._row_bytes + self._list_bytes

    def _allocate(self, chunk: Chunk, room: int | None = None) -> None:
        fixed = [column for column in chunk.values() if not isinstance(column, list)]
        self._row_bytes = sum(column.nbytes for column in fixed) // row_count(chunk)
        self._rows_max = max(1, min(self._rows_max, self._bytes_max // max(1, self._row_bytes)))
        room = self._rows_max + row_count(chunk) if room is None else room
        for name, column in chunk.items():
            is_list = isinstance(column, list)
            self._columns[name] = [None] * room if is_list else np.empty((room, *column.shape[1:]), column.dtype)  # type: ignore[union-attr]
        self._origins = np.zeros((room, 2), np.int64)
        self._free = list(range(room))

    def _fill(self, indices: list[int], chunk: Chunk) -> None:
        for name, column in chunk.items():
            kept = self._columns[name]
            if isinstance(kept, list):
                for index, value in zip(indices, column, strict=True):
                    kept[index] = value
                    self._list_bytes += value.nbytes
            else:
                kept[indices] = column

    def _draw(self) -> int:
        """Remove a random row from the live ones, and return its index."""
        word: int = self._random.random_raw()
        self._draws += 1
        position = word * len(self._live) >> 64
        index, last = self._live[position], self._live.pop()
        if position < len(self._live):
            self._live[position] = last
        for column in self._columns.values():
            if isinstance(column, list):
                self._list_bytes -= column[index].nbytes  # type: ignore[union-attr]
        return index

    def _take(self, indices: list[int]) -> Chunk:
        rows: dict[str, Array | list[Array]] = {}
        for name, column in self._columns.items():
            if isinstance(column, list):
                rows[name] = [column[index] for index in indices]  # type: ignore[misc]
                for index in indices:
                    column[index] = None
            else:
                rows[name] = column[indices]
        self._free += indices
        return rows


def in_batches(chunks: Iterable[Chunk], rows: int) -> Iterator[Chunk]:
    """Yield the same rows in batches of this many, the last one with the rest. Each batch is a copy."""
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
    joined: dict[str, Array | list[Array]] = {}
    for name, first in chunks[0].items():
        if isinstance(first, list):
            joined[name] = [value for chunk in chunks for value in chunk[name]]
        else:
            joined[name] = np.concatenate([chunk[name] for chunk in chunks])
    return joined
