"""Rows that come and go: new ones are collected until all of them are known, and are then put into the columns at once.

To add rows costs a copy of all cells of the group. A linked list shows one object after another, and would cost as many
copies as it has objects.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate, chain
from typing import Any

import numpy as np

from sim.adapters.capture.graph.cells.changed_cells import spliced, without
from sim.adapters.capture.graph.groups import Group
from sim.adapters.capture.graph.row_cells import LooseCells, RowCells
from sim.adapters.capture.graph.storage import Integers, ranges, slices, with_pieces, without_ranges

_FEW_ROWS = 512  # Up to here a loop over the rows is faster than the handful of NumPy calls.


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

    def nodes_of(self, places: Integers) -> Integers:
        """The nodes of these cells."""
        nodes: Integers = np.array(self.nodes)[np.array(self.ends).searchsorted(places, "right")]
        return nodes


def _number(pending: tuple[int, Any]) -> int:
    return pending[0]


def insert_rows(new: list[NewRows]) -> None:
    """Put new rows into the columns of their groups."""
    by_group: dict[int, list[NewRows]] = {}
    for rows in new:
        by_group.setdefault(id(rows.group), []).append(rows)
    for mine in by_group.values():
        _insert(mine[0].group, mine)


def exchange_rows(new: list[NewRows], gone: Mapping[Group, list[int]]) -> None:
    """Put new rows into the columns of their groups, and remove those of some nodes, which may be new themselves.

    gone: the numbers of the nodes of each group, ascending.
    """
    by_group: dict[Group, list[NewRows]] = {}
    for rows in new:
        by_group.setdefault(rows.group, []).append(rows)
    for group, mine in by_group.items():
        if group in gone and len(group.columns.nodes) <= _FEW_ROWS:
            _exchange(group, mine, set(gone[group]))
        else:
            _insert(group, mine)
            if group in gone:
                remove_nodes(group, gone[group])
    for group, numbers in gone.items():
        if group not in by_group:
            remove_nodes(group, numbers)


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


def _exchange(group: Group, new: list[NewRows], gone: set[int]) -> None:
    """As _insert and remove_rows, in one pass over few rows."""
    columns = group.columns
    numbers, lengths = columns.nodes.tolist(), list(group.lengths)
    objects, flat = list(group.rows.objects), list(group.flat)
    for rows in new:
        numbers += rows.nodes
        lengths += rows.lengths
        objects += rows.objects
        flat += rows.flat
    tags = b"".join([columns.tags.data, *[rows.columns.tag_memory for rows in new]])
    values = b"".join([columns.values.data, *[rows.columns.int_memory for rows in new]])
    columns.ensure_room(len(numbers), len(flat))
    ends = list(accumulate(lengths))
    kept = [row for row, number in enumerate(numbers) if number not in gone]
    kept.sort(key=numbers.__getitem__)
    lengths_now = [lengths[row] for row in kept]
    cells = [(ends[row] - lengths[row], ends[row]) for row in kept]
    flat_now: list[Any] = []
    for first, last in cells:
        flat_now += flat[first:last]
    tags_now = b"".join([tags[first:last] for first, last in cells])
    values_now = b"".join([values[8 * first : 8 * last] for first, last in cells])
    columns.replace(
        np.array([numbers[row] for row in kept], np.int64),
        np.array(lengths_now, np.int64),
        np.frombuffer(tags_now, np.uint8),
        np.frombuffer(values_now, np.int64),
    )
    group.rows.set_objects([objects[row] for row in kept])
    group.set_flat(lengths_now, tuple(flat_now))


def remove_nodes(group: Group, gone: list[int]) -> None:
    """Remove the rows of these nodes, which ascend."""
    remove_rows(group, group.columns.nodes.searchsorted(gone))


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
