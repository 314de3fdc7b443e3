"""Phase sight, in meadows with players: record what each player sees at the end of a tick, and remembers.

For each player the state holds four maps: the tick at which each cell was last in sight, and the contents of the cell
then. A cell is in sight now if it was last seen in the current tick, so no map of the cells in sight is needed. A meadow
without players has neither the maps nor the phase.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sim.kernel.state import State
from sim.worlds.meadow.model.context import PhaseContext
from sim.worlds.meadow.model.layers import visible_energy
from sim.worlds.meadow.model.layout import NEVER_SEEN

Numbers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


def begin_sight(context: PhaseContext) -> None:
    """Initialise the maps at tick 0: only the cells in sight have been seen."""
    if context.players:
        context.state["sight.last_seen"][...] = NEVER_SEEN
        run_sight(context)


def run_sight(context: PhaseContext) -> None:
    """Run the phase, for all players at once."""
    remember_seen(context, find_seen(context, *seers_of(context)))


def seers_of(context: PhaseContext) -> tuple[Numbers, Numbers, Numbers]:
    """Return the index of the player, x and y of each swarm that a player has."""
    state, rows, number = _swarms_with_players(context)
    own = number >= 0
    return number[own], state["swarms.x"][rows[own]], state["swarms.y"][rows[own]]


def _swarms_with_players(context: PhaseContext) -> tuple[State, Numbers, Numbers]:
    """Return the state, the rows of all swarms, and the index of the player of each; -1 without a player."""
    state = context.state
    rows = np.flatnonzero(state["swarms.id"] != 0)
    numbers = np.full(len(context.config.herbivores), -1)  # The player's index by species.
    numbers[list(context.players)] = range(len(context.players))
    return state, rows, numbers[state["swarms.species"][rows]]


def remember_seen(context: PhaseContext, seen: Mask) -> None:
    """Write the contents of the cells in sight to the maps. seen: (players, height, width)."""
    config = context.config
    state, rows, number = _swarms_with_players(context)
    own = number >= 0
    population = state["swarms.population"][rows]
    cells = state["swarms.y"][rows].astype(np.int64) * config.grid.width + state["swarms.x"][rows]
    heads = np.zeros((1 + len(context.players), config.grid.height * config.grid.width), np.int64)
    np.add.at(heads[-1], cells, population)  # The last row counts all swarms, the others those of one player each.
    np.add.at(heads.reshape(-1), number[own] * heads.shape[1] + cells[own], population[own])
    energy = visible_energy(state)
    food = [energy[np.flatnonzero(config.diet[herbivore])].sum(axis=0) for herbivore in context.players]
    _remember(state, "sight.last_seen", seen, np.array(context.tick))
    _remember(state, "sight.plants", seen, state["biotope.total"][int(state["biotope.front"])])
    _remember(state, "sight.food", seen, np.array(food))
    _remember(state, "sight.others", seen, (heads[-1] - heads[:-1]).reshape(seen.shape))


def find_seen(context: PhaseContext, number: Numbers, x: Numbers, y: Numbers) -> Mask:
    """Return the cells in sight of each player: (players, height, width). number: player's index of each swarm.

    Signed counts at the corners of the squares that swarms see; their cumulative sums count the squares over each cell.
    """
    width, height = context.config.grid.width, context.config.grid.height
    distance = np.array([player.sight for player in context.players.values()])[number]
    left, right = np.maximum(x - distance, 0), np.minimum(x + distance + 1, width)
    top, bottom = np.maximum(y - distance, 0), np.minimum(y + distance + 1, height)
    first, line = number * (height + 1) * (width + 1), width + 1
    opening = np.concatenate([first + top * line + left, first + bottom * line + right])
    closing = np.concatenate([first + top * line + right, first + bottom * line + left])
    size = len(context.players) * (height + 1) * (width + 1)
    corners = np.bincount(opening, minlength=size) - np.bincount(closing, minlength=size)
    squares = corners.reshape(-1, height + 1, width + 1).cumsum(axis=1).cumsum(axis=2)
    return squares[:, :height, :width] > 0


def _remember(state: State, name: str, seen: Mask, values: Numbers) -> None:
    """Write values to the cells of the maps that are in sight, and mark those that changed."""
    maps = state[name]
    changed = np.flatnonzero(seen & (maps != values))
    if len(changed):
        np.copyto(maps, values, where=seen)
        state.mark(name, changed)
