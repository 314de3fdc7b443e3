"""Add and remove plants, and keep the table, the index and the layers consistent.

Invariants:
    1. biotope.occupant[y, x] is the row of the plant there plus 1, or 0.
    2. A row without a plant is all zeros.
    3. Links are mutual, between living neighbours.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import numpy as np
import numpy.typing as npt

from sim.kernel.state import State
from sim.worlds.meadow.model.layers import write_energy
from sim.worlds.meadow.model.layout import NEIGHBOURS
from sim.worlds.meadow.model.loops import list_living
from sim.worlds.meadow.model.numba_loops import PLANTS_MIN, compiled_for
from sim.worlds.meadow.model.table_rows import Rows, add_entities, clear_rows, in_order_of_id

COLUMNS = ("energy", "loss_cause", "last_reproduction", "id", "species", "x", "y", "links")


@attrs.frozen(eq=False)
class Stand:
    """The living plants of some species in ascending id, for phases in which none is added or removed.

    Attributes:
        rows: rows of the table.
        ids: ids of the same plants.
    """

    rows: Rows
    ids: Rows

    @staticmethod
    def of(state: State, species: npt.NDArray[np.bool_]) -> Stand:
        """Return the plants that live now. species: mask of the species to include."""
        rows = in_order_of_id(state, "plants", _living(state["plants.id"], state["plants.species"], species))
        return Stand(rows, state["plants.id"][rows])

    def find(self, ids: Rows) -> Rows:
        """Return the rows of the plants with these ids; -1 for an id that is not among them."""
        index = np.searchsorted(self.ids, ids)
        index[index == len(self.ids)] = 0
        result = np.full(len(ids), -1)
        if len(self.ids):
            matches = self.ids[index] == ids
            result[matches] = self.rows[index[matches]]
        return result


def _living(ids: Rows, kinds: Rows, species: npt.NDArray[np.bool_]) -> Rows:
    """Return the rows of the plants of some species. ids, kinds: columns; kinds are their species."""
    compiled = compiled_for(len(ids), PLANTS_MIN, list_living)
    if compiled is None:
        return np.flatnonzero(species[kinds] & (ids != 0))
    rows = np.empty(len(ids) + 1, np.int64)
    return rows[: compiled(ids, kinds, species, rows)]


def plant_cells(state: State, rows: Rows) -> tuple[Rows, Rows, Rows]:
    """Return species, y and x of the plants in these rows."""
    return state["plants.species"][rows], state["plants.y"][rows], state["plants.x"][rows]


def add_plants(state: State, species: Rows, x: Rows, y: Rows, energy: Rows, *, ids: Rows | None = None) -> None:
    """Add plants at distinct free cells, with ids in the order of the arrays, born at the current tick.

    ids: to use instead of the next ones, as add_entities does.
    """
    count = len(species)
    if not count:
        return
    columns = {"energy": energy, "last_reproduction": int(state["tick"]), "species": species, "x": x, "y": y}
    rows = add_entities(state, "plants", "next_plant_id", columns, count, ids)
    cells = y.astype(np.int64) * state["biotope.occupant"].shape[1] + x
    state["biotope.occupant"].reshape(-1)[cells] = rows + 1
    state.mark("biotope.occupant", cells)
    write_energy(state, species, y, x, energy)
    np.add.at(state["births"], species, 1)
    state.mark("births")


def remove_plants(state: State, rows: Rows) -> None:
    """Remove plants from table, index, layers and their partners' links, and count their causes of death."""
    if not len(rows):
        return
    species, x, y = (state[f"plants.{column}"][rows] for column in ("species", "x", "y"))
    np.add.at(state["deaths"], (species, state["plants.loss_cause"][rows]), 1)
    state.mark("deaths")
    occupant = state["biotope.occupant"]
    links = state["plants.links"]
    for direction, (dx, dy) in enumerate(NEIGHBOURS):
        linked = links[rows, direction] != 0
        partners = occupant[y[linked] + dy, x[linked] + dx] - 1
        links[partners, (direction + 2) % 4] = 0
        state.mark("plants.links", partners)
    write_energy(state, species, y, x, 0)
    occupant[y, x] = 0
    state.mark("biotope.occupant", y.astype(np.int64) * occupant.shape[1] + x)
    clear_rows(state, "plants", COLUMNS, rows)


def link_plants(state: State, pairs: Sequence[tuple[int, int, int]]) -> None:
    """Make mutual links: (row, row of the neighbour, direction of the neighbour)."""
    links, ids = state["plants.links"], state["plants.id"]
    for row, neighbour, direction in pairs:
        links[row, direction] = ids[neighbour]
        links[neighbour, (direction + 2) % 4] = ids[row]
    state.mark("plants.links", np.array([row for pair in pairs for row in pair[:2]], dtype=np.int64))
