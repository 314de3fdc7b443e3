"""Phase lifecycle: growth, reproduction, death of plants, and the growth of mycorrhizal links.

For each plant in ascending id:
    growth         energy = min(energy + step, max_energy), where step = floor(base_energy × growth_percent / 100),
                   then floor(step × parameter growth / 100) and, in a drought,
                   floor(step × (100 - drought_percent) / 100); never below 0. A plant that loses energy by it gets
                   the loss cause background.
    reproduction   if tick - last_reproduction >= reproduction_interval and energy - seed_cost >= survival_threshold:
                   dispersal.py picks a cell. Outside or occupied: nothing happens, at no cost. Else a seedling with
                   base_energy is born there, the parent pays seed_cost (loss cause reproduction), and both have
                   reproduced at this tick.
    death          energy < survival_threshold: the plant leaves table, index and layers; its cell is free for the seed
                   of a plant with a higher id in the same tick.
Then, at each multiple of the parameter link_interval, links.py; then the energy layers are rebuilt.

The passes below do this for all plants at once. That gives the same as going from plant to plant because a plant's
death depends on its own growth alone (a reproduction that would kill is not tried), so that who dies is known before
any seed falls.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sim.kernel.fixed_point import ONE
from sim.kernel.state import State
from sim.worlds.meadow.biotope import rebuild, write_energy
from sim.worlds.meadow.dispersal import wind_shift
from sim.worlds.meadow.ground import Ground, Values
from sim.worlds.meadow.layout import DrawPhase, LossCause, Parameter
from sim.worlds.meadow.ledger import Flow
from sim.worlds.meadow.links import grow_links
from sim.worlds.meadow.plants import add_plants, plant_cells, remove_plants
from sim.worlds.meadow.tables import rows_by_id


def run_lifecycle(ground: Ground) -> None:
    """The whole phase."""
    state = ground.state
    rows = rows_by_id(state, "plants")
    _grow(ground, rows)
    dying = state["plants.energy"][rows] < ground.flora.survival_threshold[state["plants.species"][rows]]
    mothers, *seedlings = _reproduce(ground, rows, dying)
    ground.note(Flow.DEAD_PLANTS, state["plants.energy"][rows[dying]])
    ground.chronicle.plants_died(state, rows[dying])
    remove_plants(state, rows[dying])
    ground.note(Flow.SEEDLINGS, seedlings[-1])
    ground.chronicle.plants_born(int(state["next_plant_id"]), seedlings[:3], mothers)
    add_plants(state, *seedlings)
    if ground.tick % ground.parameter(Parameter.LINK_INTERVAL) == 0:
        grow_links(ground)
    living = np.flatnonzero(state["plants.id"])
    write_energy(state, *plant_cells(state, living), state["plants.energy"][living])
    rebuild(state)
    _pass_drought(state)


def _grow(ground: Ground, rows: Values) -> None:
    state, flora = ground.state, ground.flora
    species = state["plants.species"][rows]
    growth = ground.parameter(Parameter.GROWTH)  # In Python's integers: the product may be more than int64 holds.
    step = np.array([one * growth // (100 * ONE) for one in flora.growth.tolist()], np.int64)
    if state["climate.drought_ticks"] > 0:
        step = step * (100 - int(state["climate.drought_percent"])) // 100
    before = state["plants.energy"][rows]
    after = np.clip(before + step[species], 0, flora.max_energy[species])
    state.set("plants.energy", rows, after)
    state.set("plants.loss_cause", rows[after < before], LossCause.BACKGROUND)
    ground.note(Flow.GROWTH, np.maximum(after - before, 0))
    ground.note(Flow.DROUGHT, np.maximum(before - after, 0))


def _reproduce(ground: Ground, rows: Values, dying: npt.NDArray[np.bool_]) -> tuple[Values, ...]:
    """Let parents pay; return the parents' ids in their order, and species, x, y and energy of the seedlings.

    rows: of all plants in ascending id. dying: which of them die of their growth in this tick.
    """
    state, flora, grid, tick = ground.state, ground.flora, ground.config.grid, ground.tick
    species = state["plants.species"][rows]
    energy = state["plants.energy"][rows]
    waited = tick - state["plants.last_reproduction"][rows] >= flora.reproduction_interval[species]
    can_pay = energy - flora.seed_cost[species] >= flora.survival_threshold[species]
    order = np.flatnonzero(waited & can_pay)
    parents, species = rows[order], species[order]
    words = ground.random.words(DrawPhase.DISPERSAL, tick, state["plants.id"][parents])
    offsets = flora.rings.pick(words, flora.seed_distance_min[species], flora.seed_distance_max[species])
    bound = flora.seed_distance_max[species]
    x, y = state["plants.x"][parents], state["plants.y"][parents]
    east, south = wind_shift(state, x, y, ground.config.dispersal.flight_ticks)
    x, y = x + offsets[:, 0] + np.clip(east, -bound, bound), y + offsets[:, 1] + np.clip(south, -bound, bound)
    inside = (x >= 0) & (x < grid.width) & (y >= 0) & (y < grid.height)
    order, parents, species, x, y = (values[inside] for values in (order, parents, species, x, y))
    # A cell is free for a seed if nobody stands there, or somebody who dies before it is the parent's turn.
    turn_of_death = np.full(state.count("plants") + 1, len(rows))
    turn_of_death[rows[dying] + 1] = np.flatnonzero(dying)
    turn_of_death[0] = -1
    free = turn_of_death[state["biotope.occupant"][y, x]] < order
    order, parents, species, x, y = (values[free] for values in (order, parents, species, x, y))
    # Of several seeds for one cell the first parent's falls; unique gives the first place of each cell.
    _, first = np.unique(y * grid.width + x, return_index=True)
    first.sort()
    parents, species, x, y = (values[first] for values in (parents, species, x, y))
    state.set("plants.energy", parents, state["plants.energy"][parents] - flora.seed_cost[species])
    state.set("plants.loss_cause", parents, LossCause.REPRODUCTION)
    state.set("plants.last_reproduction", parents, tick)
    ground.note(Flow.SEEDS, flora.seed_cost[species])
    return state["plants.id"][parents], species.astype(np.int64), x, y, flora.base_energy[species]


def _pass_drought(state: State) -> None:
    left = int(state["climate.drought_ticks"])
    if left > 0:
        state.set("climate.drought_ticks", 0, left - 1)
