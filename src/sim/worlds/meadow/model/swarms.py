"""Add, remove and divide swarms."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import numpy as np

from sim.kernel.arithmetic.counter_rng import scale_words
from sim.kernel.state import State
from sim.worlds.meadow.config.meadow import Grid
from sim.worlds.meadow.model.context import PhaseContext
from sim.worlds.meadow.model.energy_ledger import Flow
from sim.worlds.meadow.model.layers import Layer
from sim.worlds.meadow.model.layout import NEIGHBOURS, DrawPhase, HeadLoss
from sim.worlds.meadow.model.loops import count_at
from sim.worlds.meadow.model.numba_loops import SWARMS_MIN, compiled_for
from sim.worlds.meadow.model.table_rows import Rows, add_entities, clear_rows


@attrs.define
class Swarm:
    """One row of the swarm table as Python integers, which are many times faster to compute with than array items.

    The attributes are the columns of the table.
    """

    energy: int
    population: int
    x: int
    y: int
    cooldown: int
    repelled: int
    steer: int
    initial_population: int
    id: int
    species: int


COLUMNS = tuple(field.name for field in attrs.fields(Swarm))


def new_swarm(species: int, x: int, y: int, population: int, energy: int) -> Swarm:
    """Make a swarm that has no id yet."""
    return Swarm(energy, population, x, y, 0, 0, 0, population, 0, species)


def add_swarms(state: State, swarms: Sequence[Swarm], ids: Rows | None = None) -> None:
    """Add swarms with the next ids, in their order, or with these ids, as add_entities does."""
    if swarms:
        columns = {name: [getattr(swarm, name) for swarm in swarms] for name in COLUMNS if name != "id"}
        add_entities(state, "swarms", "next_swarm_id", columns, len(swarms), ids)


def release_swarm(
    context: PhaseContext, species: int, x: int, y: int, population: int, new_id: int, by: str = "release"
) -> None:
    """Add a swarm with energy_min for each head. by: the kind of input."""
    energy = context.config.herbivores[species].energy_min * population
    swarm = new_swarm(species, x, y, population, energy)
    context.event_log.swarms_born(by, [swarm], [new_id], [None])
    add_swarms(context.state, [swarm], np.array([new_id]))
    context.note(Flow.PLACED_SWARMS, energy)


def remove_swarms_without_heads(context: PhaseContext, rows: Rows, loss: HeadLoss) -> None:
    """Clear those of the rows, in ascending id, whose swarm has no heads left. loss: the cause of the last deaths.

    Their remaining energy must have been noted in the ledger.
    """
    state = context.state
    empty = rows[state["swarms.population"][rows] == 0]
    context.event_log.swarms_died(state, empty, loss)
    clear_rows(state, "swarms", COLUMNS, empty)


def divide_swarm(context: PhaseContext, row: int, new_id: int) -> None:
    """Split off a daughter with half of heads and energy, rounded down, in one of the five cells, and add it at once."""
    state = context.state
    x, y, species, mother = (int(state[f"swarms.{column}"][row]) for column in ("x", "y", "species", "id"))
    daughter_x, daughter_y = draw_daughter_cell(context, context.config.grid, mother, x, y)
    population, energy = (int(state[f"swarms.{column}"][row]) for column in ("population", "energy"))
    state.set("swarms.population", row, population - population // 2)
    state.set("swarms.energy", row, energy - energy // 2)
    daughter = new_swarm(species, daughter_x, daughter_y, population // 2, energy // 2)
    context.event_log.swarms_born("split", [daughter], [new_id], [mother])
    add_swarms(state, [daughter], np.array([new_id]))


def draw_daughter_cell(context: PhaseContext, grid: Grid, mother: int, x: int, y: int) -> tuple[int, int]:
    """Draw one of the five cells of a swarm at (x, y), an id, for the daughter that a player's command splits off."""
    near = [(x + dx, y + dy) for dx, dy in ((0, 0), *NEIGHBOURS)]
    cells = [(cx, cy) for cx, cy in near if 0 <= cx < grid.width and 0 <= cy < grid.height]
    word = context.random.words(DrawPhase.MITOSIS, context.tick, mother)[1]
    return cells[int(scale_words(word, len(cells)))]


def heads_by_plant(state: State, species: int) -> Layer:
    """Count the heads of a species in the cell of each plant: (rows of the table of plants,) int64."""
    mine = np.flatnonzero((state["swarms.species"] == species) & (state["swarms.id"] != 0))
    plants = state["biotope.occupant"][state["swarms.y"][mine], state["swarms.x"][mine]]
    heads = np.zeros(1 + state.count("plants"), np.int64)  # The first item is for cells without a plant.
    _count_at(heads, plants, state["swarms.population"][mine])
    return heads[1:]


def count_heads(state: State, rows: Rows, grid: Grid) -> Layer:
    """Count the heads of the swarms of these rows in each cell: (height, width) int64."""
    heads = np.zeros(grid.height * grid.width, np.int64)
    cells = state["swarms.y"][rows].astype(np.int64) * grid.width + state["swarms.x"][rows]
    _count_at(heads, cells, state["swarms.population"][rows])
    return heads.reshape(grid.height, grid.width)


def _count_at(counts: Layer, places: Rows, heads: Layer) -> None:
    """Add heads to the counts at these places, which may repeat."""
    compiled = compiled_for(len(places), SWARMS_MIN, count_at)
    if compiled is None:
        np.add.at(counts, places, heads)
    else:
        compiled(places, heads, counts)
