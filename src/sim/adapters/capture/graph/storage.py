"""The memory of a graph in the arena of a state: tables that grow and shrink, and views that follow the arena."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from sim.kernel.schema import Blob, Field, Table
from sim.kernel.state import Snapshot, State, view_field

NODE, LENGTH, CELLS, TAG, VALUE = "node", "length", "cells", "tag", "value"
_ROWS_MIN = 16
_CELL_BYTES = 9  # A tag and a payload.

Integers = npt.NDArray[np.int64]
Tags = npt.NDArray[np.uint8]


class GroupColumns:
    """The rows of one group: for each the number of its node, its length, and its cells, one after another.

    Attributes:
        nodes: (rows,) int64, ascending.
        lengths: (rows,) int64: the number of cells of each row.
        tags: (cells,) uint8: the kinds of the cells.
        values: (cells,) int64: their payloads.
        tag_memory, int_memory, float_memory: the same cells, for single writes.
    """

    nodes: Integers
    lengths: Integers
    tags: Tags
    values: Integers

    def __init__(self, storage: Storage, name: str) -> None:
        self.name, self._cells, self._storage = name, f"{name}.{CELLS}", storage
        self._arena: Any = None  # That the views are of.
        self.bind()

    @staticmethod
    def entries(name: str) -> tuple[Table, ...]:
        """The tables of a group."""
        return (
            Table(name, Field(NODE, "i8"), Field(LENGTH, "i8"), capacity=_ROWS_MIN),
            Table(f"{name}.{CELLS}", Field(TAG, "u1"), Field(VALUE, "i8"), capacity=_ROWS_MIN),
        )

    def bind(self) -> None:
        """Take the views again: of a new arena, or of other row counts."""
        state = self._storage.state
        if state.arena is not self._arena:
            self._arena = state.arena
            names = (f"{self.name}.{NODE}", f"{self.name}.{LENGTH}", f"{self._cells}.{TAG}", f"{self._cells}.{VALUE}")
            slots = [state.layout.slots[name] for name in names]
            self._all: list[Any] = [view_field(state.arena, slot) for slot in slots]
            self.tag_memory = self._all[2].data
            words = self._all[3].view(np.uint8).data
            self.int_memory, self.float_memory = words.cast("q"), words.cast("d")
        rows, cells = state.count(self.name), state.count(self._cells)
        nodes, lengths, tags, values = self._all
        self.nodes, self.lengths, self.tags, self.values = nodes[:rows], lengths[:rows], tags[:cells], values[:cells]

    def replace(self, nodes: Integers, lengths: Integers, tags: Tags, values: Integers) -> None:
        """Replace all rows. The arguments may not be views of these columns."""
        self._storage.resize(self.name, len(nodes))
        self._storage.resize(self._cells, len(tags))
        self.bind()
        self.nodes[...], self.lengths[...], self.tags[...], self.values[...] = nodes, lengths, tags, values

    def ensure_room(self, row_count: int, cell_count: int) -> None:
        """Have the tables grow as they would if they had so many rows and cells for a moment."""
        if row_count > len(self._all[0]):
            self._storage.resize(self.name, row_count)
        if cell_count > len(self._all[2]):
            self._storage.resize(self._cells, cell_count)
        self.bind()

    def starts(self) -> Integers:
        """The index of each row's first cell."""
        starts: Integers = self.lengths.cumsum() - self.lengths
        return starts


class Storage:
    """The state that holds a graph.

    Attributes:
        state: replaced only by adopt.
    """

    def __init__(self, state: State) -> None:
        self.state = state
        self._arena = state.arena
        self._columns: list[GroupColumns] = []

    def columns(self, name: str) -> GroupColumns:
        """The columns of a group that is in the schema."""
        made = GroupColumns(self, name)
        self._columns.append(made)
        return made

    def extend(self, entries: Sequence[Field | Blob | Table]) -> None:
        """Add fields after the present ones."""
        self.state.extend(*entries)  # type: ignore[arg-type]  # It takes tables, too.
        self.follow()

    def resize(self, table: str, count: int) -> None:
        """Give a table this number of rows."""
        state = self.state
        now = state.count(table)
        if count > now:
            state.add_rows(table, count - now)
        elif count < now:
            state.truncate_rows(table, count)
        self.follow()

    def follow(self) -> None:
        """Take all views again if the arena has been replaced."""
        if self.state.arena is not self._arena:
            self._arena = self.state.arena
            for columns in self._columns:
                columns.bind()


def ranges(starts: Integers, lengths: Integers) -> Integers:
    """The numbers start, start + 1, … of each range, one range after another."""
    total = int(lengths.sum())
    before = np.cumsum(lengths) - lengths
    made: Integers = np.arange(total) - np.repeat(before - starts, lengths)
    return made


def rows_in(state: Snapshot, name: str) -> dict[int, bytes]:
    """The cells of each row of a group, as bytes, by the number of its node; empty without such a group."""
    if f"{name}.{NODE}" not in state.layout.slots:
        return {}
    tags, values = state[f"{name}.{CELLS}.{TAG}"], state[f"{name}.{CELLS}.{VALUE}"]
    ends = np.cumsum(state[f"{name}.{LENGTH}"]).tolist()
    starts = [0, *ends][:-1]
    nodes = state[f"{name}.{NODE}"].tolist()
    return {
        node: tags[start:end].tobytes() + values[start:end].tobytes()
        for node, start, end in zip(nodes, starts, ends, strict=True)
    }


def changed_roots(before: Snapshot, state: Snapshot, name: str) -> list[str]:
    """The paths of the cells that differ in the first row of a group, which is the root's."""
    then, now = rows_in(before, name).get(0, b""), rows_in(state, name).get(0, b"")
    if len(then) != len(now):
        return []
    count = len(now) // _CELL_BYTES
    tags, words = now[:count], now[count:]
    old_tags, old_words = then[:count], then[count:]
    return [
        f"[{index}]"
        for index in range(count)
        if tags[index] != old_tags[index] or words[8 * index : 8 * index + 8] != old_words[8 * index : 8 * index + 8]
    ]


# Few pieces are joined far more quickly than NumPy inserts or removes items.


def slices(starts: list[int], end: int) -> list[slice]:
    """The ranges from each start to the next one, and from the last one to the end."""
    return list(map(slice, starts, [*starts[1:], end]))


def with_pieces(column: Any, at: list[int], new: Any, pieces: list[slice]) -> Any:
    """A column with each piece of new items inserted before its index; indexes ascend."""
    old, added = column.data, new.data
    parts: list[memoryview] = []
    last = 0
    for index, piece in zip(at, pieces, strict=True):
        parts += (old[last:index], added[piece])
        last = index
    parts.append(old[last:])
    return np.frombuffer(b"".join(parts), column.dtype)


def without_ranges(column: Any, starts: list[int], ends: list[int]) -> Any:
    """A column without some ranges, which ascend and do not overlap."""
    old = column.data
    parts: list[memoryview] = []
    last = 0
    for start, end in zip(starts, ends, strict=True):
        parts.append(old[last:start])
        last = end
    parts.append(old[last:])
    return np.frombuffer(b"".join(parts), column.dtype)
