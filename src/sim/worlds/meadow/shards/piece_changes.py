"""What has changed in the rows of a stripe since its last piece, so that a piece is small; and its way into the whole.

Both sides begin with the same state, which the stripe has loaded. Then a piece names changed cells by their place among
the own rows, and changed values of entities by their place in the ascending ids of the stripe.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from sim.kernel.state import State
from sim.worlds.meadow.model.table_rows import Rows

Cells = npt.NDArray[Any]
CellChanges = list[Cells | tuple[Rows, Cells]]  # Of each layer: all cells of the own rows, or places and values.
ColumnChanges = dict[str, tuple[Rows, Cells]]  # By column: places among the ids, and values.


class SentRows:
    """The own rows as the receiver has them."""

    def __init__(self) -> None:
        self._cells: dict[str, Cells] = {}
        self._tables: dict[str, dict[str, Cells]] = {}

    def cell_changes(self, name: str, cells: Cells) -> CellChanges:
        """Return the changes of a grid, (..., own rows, width), and take them as sent."""
        changes: CellChanges = []
        for layer, sent in zip(_layers_of(cells), _layers_of(self._cells[name]), strict=True):
            places = np.flatnonzero(layer != sent)
            if 2 * len(places) > layer.size:
                np.copyto(sent, layer)
                changes.append(layer.copy())
            else:
                values: Cells = layer[places]
                sent[places] = values
                changes.append((places, values))
        return changes

    def column_changes(self, table: str, columns: dict[str, Cells]) -> ColumnChanges:
        """Return the changes of a table, and take them as sent. columns: without free rows, in ascending id."""
        ids, sent = columns["id"], self._tables[table]
        at = np.searchsorted(sent["id"], ids)
        at[at == len(sent["id"])] = 0
        is_old = sent["id"][at] == ids if len(sent["id"]) else np.zeros(len(ids), np.bool_)
        changes: ColumnChanges = {}
        for name, values in columns.items():
            differs = np.ones(len(ids), np.bool_)
            if len(sent["id"]):
                changed = values != sent[name][at]
                differs = ~is_old | (changed.any(axis=1) if changed.ndim > 1 else changed)
            places = np.flatnonzero(differs)
            changes[name] = (places, values[places])
        self._tables[table] = columns
        return changes

    def take(self, cells: dict[str, Cells], tables: dict[str, dict[str, Cells]]) -> None:
        """Take everything as sent: the receiver has the state that was loaded."""
        self._cells = {name: values.copy() for name, values in cells.items()}
        self._tables = tables


def apply_cells(cells: Cells, changes: CellChanges) -> None:
    """Write changes of a grid into the rows of a stripe in the whole state."""
    for layer, change in zip(_layers_of(cells), changes, strict=True):
        if isinstance(change, tuple):
            places, values = change
            layer[places] = values
        else:
            layer[...] = change


def _layers_of(cells: Cells) -> Cells:
    """Return some rows of a grid as a view, (layers, cells): with one index a cell, it is read and written fastest."""
    layers = cells.reshape(-1, cells.shape[-2] * cells.shape[-1])
    assert not cells.size or np.may_share_memory(layers, cells)
    return layers


def apply_columns(state: State, table: str, rows: Rows, changes: ColumnChanges) -> None:
    """Write changes of a table. rows: in the whole state, of the entities of the stripe in ascending id."""
    for name, (places, values) in changes.items():
        state[f"{table}.{name}"][rows[places]] = values
