"""Bring plants into the meadow and take them out, so that table, index and layers always agree.

Invariants:
    1. biotope.occupant[y, x] is the row of the plant there plus 1, or 0.
    2. A row without a plant is all zeros.
    3. Links are mutual, between living neighbours.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from sim.kernel.state import State
from sim.worlds.meadow.biotope import write_energy
from sim.worlds.meadow.layout import NEIGHBOURS

Rows = npt.NDArray[np.int64]

_COLUMNS = ("energy", "loss_cause", "last_reproduction", "id", "species", "x", "y", "links")


def rows_by_id(state: State) -> Rows:
    """Rows of the living plants in ascending id: the stable order of every phase."""
    ids = state["plants.id"]
    rows = np.flatnonzero(ids)
    return rows[np.argsort(ids[rows], kind="stable")]


def plant_cells(state: State, rows: Rows) -> tuple[Rows, Rows, Rows]:
    """Species, y and x of the plants in these rows."""
    return state["plants.species"][rows], state["plants.y"][rows], state["plants.x"][rows]


def free_rows(state: State, table: str, count: int) -> Rows:
    """The count lowest rows of a table without an entity, the table lengthened if need be."""
    free = np.flatnonzero(state[f"{table}.id"] == 0)[:count]
    if len(free) < count:
        added = state.add_rows(table, count - len(free))
        free = np.concatenate([free, np.arange(added.start, added.stop)])
    return free


def add_plants(state: State, species: Rows, x: Rows, y: Rows, energy: Rows) -> None:
    """Add plants at free cells, all different; ids in the order given, born at the present tick."""
    count = len(species)
    if not count:
        return
    rows = free_rows(state, "plants", count)
    first_id = int(state["next_plant_id"])
    values = {
        "energy": energy,
        "last_reproduction": int(state["tick"]),
        "id": np.arange(first_id, first_id + count),
        "species": species,
        "x": x,
        "y": y,
    }
    for column, value in values.items():
        state[f"plants.{column}"][rows] = value
        state.mark(f"plants.{column}", rows)
    state["next_plant_id"][()] = first_id + count
    state.mark("next_plant_id")
    cells = y.astype(np.int64) * state["biotope.occupant"].shape[1] + x
    state["biotope.occupant"].reshape(-1)[cells] = rows + 1
    state.mark("biotope.occupant", cells)
    write_energy(state, species, y, x, energy)
    np.add.at(state["births"], species, 1)
    state.mark("births")


def remove_plants(state: State, rows: Rows) -> None:
    """Take plants out of table, index, layers and their partners' links, and count what they died of."""
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
    for column in _COLUMNS:
        state[f"plants.{column}"][rows] = 0
        state.mark(f"plants.{column}", rows)


def link_plants(state: State, pairs: Sequence[tuple[int, int, int]]) -> None:
    """Make mutual links: (row, row of the neighbour, direction of the neighbour)."""
    links, ids = state["plants.links"], state["plants.id"]
    for row, neighbour, direction in pairs:
        links[row, direction] = ids[neighbour]
        links[neighbour, (direction + 2) % 4] = ids[row]
    state.mark("plants.links", np.array([row for pair in pairs for row in pair[:2]], dtype=np.int64))
