"""Rows that come and go: new ones are collected until all of them are known, and are then put into the columns at once.

To add rows costs a copy of all cells of the group. A linked list shows one object after another, and would cost as many
copies as it has objects.
"""

from __future__ import annotations

from itertools import chain
from typing import Any

import numpy as np

from sim.adapters.capture.graph.cells.changed_cells import spliced, without
from sim.adapters.capture.graph.groups import Group
from sim.adapters.capture.graph.row_cells import LooseCells, RowCells
from sim.adapters.capture.graph.storage import Integers, ranges, slices, with_pieces, without_ranges


class NewRows(RowCells):
    """New rows of one group, in ascending order of their nodes. Their cells are written before the rows are added.

    Attributes:
        group: that they will belong to.
        nodes: their numbers.
        objects: the objects.
        columns: their cells.
    """

    def __init__(self, group: Group, pending: list[tuple[int, Any]]) -> None:
        """pending: the numbers and the objects, in any order."""
        super().__init__(group.key)
        self.group = group
        pending.sort(key=_number)
        self.nodes = [number for number, _ in pending]
        self.objects = [value for _, value in pending]
        held = list(map(group.rows.read_of, self.objects))
        self.set_flat(list(map(len, held)), held[0] if len(held) == 1 else tuple(chain.from_iterable(held)))
        self.columns = LooseCells(len(self.flat))

    def node_of(self, place: int) -> int:
        """The node whose cell this is."""
        return self.nodes[self.row_of(place) if len(self.nodes) > 1 else 0]


def _number(pending: tuple[int, Any]) -> int:
    return pending[0]


def insert_rows(new: list[NewRows]) -> None:
    """Put new rows into the columns of their groups."""
    by_group: dict[int, list[NewRows]] = {}
    for rows in new:
        by_group.setdefault(id(rows.group), []).append(rows)
    for mine in by_group.values():
        _insert(mine[0].group, mine)


def _insert(group: Group, new: list[NewRows]) -> None:
    columns = group.columns
    numbers = list(chain.from_iterable([rows.nodes for rows in new]))
    lengths = list(chain.from_iterable([rows.lengths for rows in new]))
    objects = list(chain.from_iterable([rows.objects for rows in new]))
    flat = new[0].flat if len(new) == 1 else tuple(chain.from_iterable([rows.flat for rows in new]))
    tags = np.frombuffer(b"".join([rows.columns.tag_memory for rows in new]), np.uint8)
    values = np.frombuffer(b"".join([rows.columns.int_memory for rows in new]), np.int64)
    if len(new) > 1 and numbers != sorted(numbers):  # An object from another group has its number from before.
        order = np.argsort(np.array(numbers))
        sizes = np.array(lengths)
        moved = ranges((np.cumsum(sizes) - sizes)[order], sizes[order])
        tags, values, flat = tags[moved], values[moved], tuple([flat[place] for place in moved.tolist()])
        numbers, lengths, objects = ([held[row] for row in order.tolist()] for held in (numbers, lengths, objects))
    at = columns.nodes.searchsorted(numbers).tolist()
    first_rows, first_cells = [], []  # Of the new rows that stand together.
    cell = 0
    for row, (index, length) in enumerate(zip(at, lengths, strict=True)):
        if not row or index != at[row - 1]:
            first_rows.append(row)
            first_cells.append(cell)
        cell += length
    at_rows = [at[row] for row in first_rows]
    starts = columns.starts()
    at_cells = [int(starts[index]) if index < len(starts) else len(columns.tags) for index in at_rows]
    rows, cells = slices(first_rows, len(numbers)), slices(first_cells, len(flat))
    flat_now = spliced(group.flat, at_cells, [flat[one] for one in cells])
    nodes_now = with_pieces(columns.nodes, at_rows, np.array(numbers), rows)
    lengths_now = with_pieces(columns.lengths, at_rows, np.array(lengths), rows)
    tags_now = with_pieces(columns.tags, at_cells, tags, cells)
    columns.replace(nodes_now, lengths_now, tags_now, with_pieces(columns.values, at_cells, values, cells))
    group.rows.insert(at, objects)
    group.set_flat(lengths_now.tolist(), flat_now)


def remove_rows(group: Group, rows: Integers) -> None:
    """Remove rows, in ascending order."""
    columns = group.columns
    starts, lengths = columns.starts()[rows], columns.lengths[rows]
    first, last = starts.tolist(), (starts + lengths).tolist()
    numbers = rows.tolist()
    after = [number + 1 for number in numbers]
    flat = without(group.flat, first, last)
    tags, values = without_ranges(columns.tags, first, last), without_ranges(columns.values, first, last)
    lengths_now = without_ranges(columns.lengths, numbers, after)
    columns.replace(without_ranges(columns.nodes, numbers, after), lengths_now, tags, values)
    group.rows.remove(numbers)
    group.set_flat(lengths_now.tolist(), flat)
