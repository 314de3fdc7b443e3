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
from sim.adapters.capture.graph.storage import Integers, ranges, with_new, without_some


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
    numbers = np.array(list(chain.from_iterable([rows.nodes for rows in new])), np.int64)
    lengths = np.array(list(chain.from_iterable([rows.lengths for rows in new])), np.int64)
    objects = list(chain.from_iterable([rows.objects for rows in new]))
    flat = new[0].flat if len(new) == 1 else tuple(chain.from_iterable([rows.flat for rows in new]))
    tags = np.frombuffer(b"".join([rows.columns.tag_memory for rows in new]), np.uint8)
    values = np.frombuffer(b"".join([rows.columns.int_memory for rows in new]), np.int64)
    if (np.diff(numbers) < 0).any():  # An object that has come from another group has its number from before.
        order = np.argsort(numbers)
        cells = ranges((np.cumsum(lengths) - lengths)[order], lengths[order])
        numbers, lengths, tags, values = numbers[order], lengths[order], tags[cells], values[cells]
        objects = [objects[row] for row in order.tolist()]
        flat = tuple([flat[place] for place in cells.tolist()])
    at = np.searchsorted(columns.nodes, numbers)
    starts = np.append(columns.starts(), len(columns.tags))
    ends = np.cumsum(lengths)
    firsts = np.flatnonzero(np.diff(at, prepend=-1))  # Of the new rows that stand together, the first.
    pieces = zip((ends - lengths)[firsts].tolist(), [*(ends - lengths)[firsts[1:]].tolist(), len(flat)], strict=True)
    flat_now = spliced(group.flat, starts[at[firsts]].tolist(), [flat[start:end] for start, end in pieces])
    cells_now = ranges(starts[at] + ends - lengths, lengths)
    rows_now = at + np.arange(len(numbers))
    tags_now, values_now = with_new((columns.tags, columns.values), cells_now)
    tags_now[cells_now], values_now[cells_now] = tags, values
    nodes_now, lengths_now = with_new((columns.nodes, columns.lengths), rows_now)
    nodes_now[rows_now], lengths_now[rows_now] = numbers, lengths
    columns.replace(nodes_now, lengths_now, tags_now, values_now)
    group.rows.insert(at.tolist(), objects)
    group.set_flat(lengths_now.tolist(), flat_now)


def remove_rows(group: Group, rows: Integers) -> None:
    """Remove rows, in ascending order."""
    columns = group.columns
    starts, lengths = columns.starts()[rows], columns.lengths[rows]
    flat = without(group.flat, starts.tolist(), (starts + lengths).tolist())
    tags, values = without_some((columns.tags, columns.values), ranges(starts, lengths))
    nodes, lengths_now = without_some((columns.nodes, columns.lengths), rows)
    columns.replace(nodes, lengths_now, tags, values)
    group.rows.remove(rows.tolist())
    group.set_flat(lengths_now.tolist(), flat)
