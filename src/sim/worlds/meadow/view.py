"""What a player of a herbivore species may know: the cells within sight of its swarms, and nothing else."""

from __future__ import annotations

import attrs
import numpy as np
import numpy.typing as npt

from sim.kernel.state import State
from sim.worlds.meadow.config import MeadowConfig, Player
from sim.worlds.meadow.tables import rows_by_id

Grid = npt.NDArray[np.int64]


@attrs.frozen(eq=False)
class FogView:
    """A view through fog. Grids are (height, width); cells out of sight are 0 there.

    Attributes:
        seen: which cells are in sight, bool.
        food: visible energy of the plants that the species eats, 1/65536 units.
        plants: visible energy of all plants.
        heads: own heads.
        others: heads of other species.
        swarm_ids, swarm_x, swarm_y, swarm_population, swarm_cooldown: of the own swarms, in ascending id.
        budget: what the player can spend, 1/65536 units.
    """

    seen: npt.NDArray[np.bool_]
    food: Grid
    plants: Grid
    heads: Grid
    others: Grid
    swarm_ids: Grid
    swarm_x: Grid
    swarm_y: Grid
    swarm_population: Grid
    swarm_cooldown: Grid
    budget: int


def look(state: State, config: MeadowConfig, player: Player) -> FogView:
    """What the player sees now. The same function serves live policies and what is cut out of recordings."""
    species = config.herbivore_index(player.species)
    rows = rows_by_id(state, "swarms")
    mine = rows[state["swarms.species"][rows] == species]
    others = rows[state["swarms.species"][rows] != species]
    seen = np.zeros((config.grid.height, config.grid.width), np.bool_)
    for x, y in zip(state["swarms.x"][mine].tolist(), state["swarms.y"][mine].tolist(), strict=True):
        seen[max(0, y - player.sight) : y + player.sight + 1, max(0, x - player.sight) : x + player.sight + 1] = True
    front = int(state["biotope.front"])
    eaten = np.flatnonzero(config.diet[species])
    columns = {
        name: state[f"swarms.{name}"][mine].astype(np.int64) for name in ("id", "x", "y", "population", "cooldown")
    }
    return FogView(
        seen=seen,
        food=np.where(seen, state["biotope.energy"][front, eaten].sum(axis=0), 0),
        plants=np.where(seen, state["biotope.total"][front], 0),
        heads=np.where(seen, _heads(state, seen.shape, mine), 0),
        others=np.where(seen, _heads(state, seen.shape, others), 0),
        swarm_ids=columns["id"],
        swarm_x=columns["x"],
        swarm_y=columns["y"],
        swarm_population=columns["population"],
        swarm_cooldown=columns["cooldown"],
        budget=int(state["player_budget"][species]),
    )


def _heads(state: State, shape: tuple[int, ...], rows: npt.NDArray[np.int64]) -> Grid:
    heads = np.zeros(shape, np.int64)
    np.add.at(heads, (state["swarms.y"][rows], state["swarms.x"][rows]), state["swarms.population"][rows])
    return heads
