"""Phase lifecycle: growth, reproduction, death of plants, and the growth of mycorrhizal links.

For each plant in ascending id:
    growth         energy = min(energy + step, max_energy), where step = floor(base_energy × growth_percent / 100) and,
                   in a drought, floor(step × (100 - drought_percent) / 100); never below 0. A plant that loses
                   energy by it gets the loss cause background.
    reproduction   if tick - last_reproduction >= reproduction_interval and energy - seed_cost >= survival_threshold:
                   dispersal.py picks a cell. Outside or occupied: nothing happens, at no cost. Else a seedling with
                   base_energy is born there, the parent pays seed_cost (loss cause reproduction), and both have
                   reproduced at this tick.
    death          energy < survival_threshold: the plant leaves table, index and layers; its cell is free for the seed
                   of a plant with a higher id in the same tick.
Then, at each multiple of links.interval, links.py; then the energy layers are rebuilt.

The passes below do this for all plants at once. That gives the same as going from plant to plant because a plant's
death depends on its own growth alone (a reproduction that would kill is not tried), so that who dies is known before
any seed falls.
"""

from __future__ import annotations

import attrs
import numpy as np
import numpy.typing as npt

from sim.kernel.fixed_point import ONE
from sim.kernel.keyed_random import KeyedRandom
from sim.kernel.state import State
from sim.worlds.meadow.biotope import rebuild, write_energy
from sim.worlds.meadow.config import MeadowConfig
from sim.worlds.meadow.dispersal import SeedRings, wind_shift
from sim.worlds.meadow.layout import DrawPhase, LossCause
from sim.worlds.meadow.links import grow_links
from sim.worlds.meadow.plants import add_plants, plant_cells, remove_plants, rows_by_id

Values = npt.NDArray[np.int64]


@attrs.frozen(eq=False)
class FloraTable:
    """The constants of the plant species as arrays by species: (species,) int64."""

    growth: Values
    max_energy: Values
    base_energy: Values
    survival_threshold: Values
    reproduction_interval: Values
    seed_cost: Values
    seed_distance_min: Values
    seed_distance_max: Values
    rings: SeedRings

    @staticmethod
    def of(config: MeadowConfig) -> FloraTable:
        """The constants of a configuration."""
        names = [field.name for field in attrs.fields(FloraTable) if field.name not in ("growth", "rings")]
        columns = {name: np.array([getattr(flora, name) for flora in config.flora], np.int64) for name in names}
        growth = [flora.base_energy * flora.growth_percent // (100 * ONE) for flora in config.flora]
        rings = SeedRings(max(flora.seed_distance_max for flora in config.flora))
        return FloraTable(growth=np.array(growth, np.int64), rings=rings, **columns)


def run_lifecycle(state: State, config: MeadowConfig, flora: FloraTable) -> None:
    """The whole phase."""
    rows = rows_by_id(state)
    _grow(state, flora, rows)
    dying = state["plants.energy"][rows] < flora.survival_threshold[state["plants.species"][rows]]
    seedlings = _reproduce(state, config, flora, rows, dying)
    remove_plants(state, rows[dying])
    add_plants(state, *seedlings)
    if int(state["tick"]) % config.links.interval == 0:
        grow_links(state, config, flora.survival_threshold)
    living = np.flatnonzero(state["plants.id"])
    write_energy(state, *plant_cells(state, living), state["plants.energy"][living])
    rebuild(state)
    _pass_drought(state)


def _grow(state: State, flora: FloraTable, rows: Values) -> None:
    species = state["plants.species"][rows]
    step = flora.growth
    if state["climate.drought_ticks"] > 0:
        step = step * (100 - int(state["climate.drought_percent"])) // 100
    before = state["plants.energy"][rows]
    after = np.clip(before + step[species], 0, flora.max_energy[species])
    state.set("plants.energy", rows, after)
    state.set("plants.loss_cause", rows[after < before], LossCause.BACKGROUND)


def _reproduce(
    state: State, config: MeadowConfig, flora: FloraTable, rows: Values, dying: npt.NDArray[np.bool_]
) -> tuple[Values, Values, Values, Values]:
    """Let parents pay; return species, x, y and energy of the seedlings, in the order of their parents' ids.

    rows: of all plants in ascending id. dying: which of them die of their growth in this tick.
    """
    tick = int(state["tick"])
    species = state["plants.species"][rows]
    energy = state["plants.energy"][rows]
    waited = tick - state["plants.last_reproduction"][rows] >= flora.reproduction_interval[species]
    can_pay = energy - flora.seed_cost[species] >= flora.survival_threshold[species]
    order = np.flatnonzero(waited & can_pay)
    parents, species = rows[order], species[order]
    words = KeyedRandom(int(state["seed"])).words(DrawPhase.DISPERSAL, tick, state["plants.id"][parents])
    offsets = flora.rings.pick(words, flora.seed_distance_min[species], flora.seed_distance_max[species])
    bound = flora.seed_distance_max[species]
    east, south = wind_shift(state, config)
    x = state["plants.x"][parents] + offsets[:, 0] + np.clip(east, -bound, bound)
    y = state["plants.y"][parents] + offsets[:, 1] + np.clip(south, -bound, bound)
    inside = (x >= 0) & (x < config.grid.width) & (y >= 0) & (y < config.grid.height)
    order, parents, species, x, y = (values[inside] for values in (order, parents, species, x, y))
    # A cell is free for a seed if nobody stands there, or somebody who dies before it is the parent's turn.
    turn_of_death = np.full(state.count("plants") + 1, len(rows))
    turn_of_death[rows[dying] + 1] = np.flatnonzero(dying)
    turn_of_death[0] = -1
    free = turn_of_death[state["biotope.occupant"][y, x]] < order
    order, parents, species, x, y = (values[free] for values in (order, parents, species, x, y))
    # Of several seeds for one cell the first parent's falls; unique gives the first place of each cell.
    _, first = np.unique(y * config.grid.width + x, return_index=True)
    first.sort()
    parents, species, x, y = (values[first] for values in (parents, species, x, y))
    state.set("plants.energy", parents, state["plants.energy"][parents] - flora.seed_cost[species])
    state.set("plants.loss_cause", parents, LossCause.REPRODUCTION)
    state.set("plants.last_reproduction", parents, tick)
    return species.astype(np.int64), x, y, flora.base_energy[species]


def _pass_drought(state: State) -> None:
    left = int(state["climate.drought_ticks"])
    if left > 0:
        state.set("climate.drought_ticks", 0, left - 1)
