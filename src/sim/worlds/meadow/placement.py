"""The meadow at tick 0: plants and swarms at the cells of the scenario, or scattered by its seed.

The result does not depend on the order of the scenario's lists:
    plants with x and y    are sorted by (species, y, x); of two for one cell the first is placed.
    scattered plants       follow, species by species: they take the free cells with the smallest random words, with ids
                           in the order of the cells.
    scattered swarms       of a species, in the order of population, take the cells with the smallest random words,
                           starting again when there are more swarms than cells.
    all swarms             get ids in the order of (species, y, x, population), and energy_min for each head.
At the end the players' sight is initialised.
"""

from __future__ import annotations

import numpy as np

from sim.worlds.meadow.config.meadow import SPECIES_MAX
from sim.worlds.meadow.model.context import PhaseContext, Values
from sim.worlds.meadow.model.energy_ledger import Flow
from sim.worlds.meadow.model.layers import rebuild
from sim.worlds.meadow.model.layout import DrawPhase, Parameter
from sim.worlds.meadow.model.plants import add_plants
from sim.worlds.meadow.model.swarms import add_swarms, new_swarm
from sim.worlds.meadow.phases.sight import begin_sight


def place_everything(context: PhaseContext) -> None:
    """Fill the empty state with that of tick 0."""
    state, config = context.state, context.config
    state["seed"][()] = config.seed
    for counter in ("next_plant_id", "next_swarm_id", "next_substance_id"):
        state[counter][()] = 1
    parameters = state["parameters"]
    parameters[Parameter.GROWTH] = 100 << 16
    parameters[Parameter.LINK_INTERVAL], parameters[Parameter.LINK_COST] = config.links.interval, config.links.cost
    parameters[Parameter.CARRYING_CAPACITY] = config.crowding.carrying_capacity
    parameters[Parameter.EMISSION] = config.signalling.emission
    parameters[Parameter.SIGNAL_DECAY] = config.signalling.decay
    state["biotope.wind"][0], state["biotope.wind"][1] = config.wind.east, config.wind.south
    for species, player in context.players.items():
        state["player_budget"][species] = player.budget
    _place_plants(context)
    _place_swarms(context)
    rebuild(state)
    begin_sight(context)


def _place_plants(context: PhaseContext) -> None:
    state, config = context.state, context.config
    width, height = config.grid.width, config.grid.height
    free = np.ones(width * height, np.bool_)
    fixed = sorted({(config.flora_index(p.species), p.y, p.x) for p in config.plants if p.x is not None})
    cells = np.array([y * width + x for _, y, x in fixed if y is not None and x is not None], dtype=np.int64)
    _, first = np.unique(cells, return_index=True)
    chosen = [(fixed[index][0], int(cells[index])) for index in sorted(first.tolist())]
    free[cells] = False
    for species, flora in enumerate(config.flora):
        count = sum(p.count or 0 for p in config.plants if p.species == flora.name)
        taken = np.sort(_shuffled(context, np.flatnonzero(free), species)[:count])
        free[taken] = False
        chosen += [(species, int(cell)) for cell in taken]
    species_column, cell_column = np.array(chosen, dtype=np.int64).reshape(-1, 2).T
    energy = context.flora.base_energy[species_column]
    add_plants(state, species_column, cell_column % width, cell_column // width, energy)
    context.note(Flow.PLACED_PLANTS, energy)
    state["births"][:] = 0  # Plants of tick 0 do not count as births.


def _shuffled(context: PhaseContext, cells: Values, block: int) -> Values:
    words = context.random.words(DrawPhase.PLACEMENT, 0, cells, block=block)[:, 0]
    return cells[np.argsort(words, kind="stable")]


def _place_swarms(context: PhaseContext) -> None:
    config = context.config
    width, cell_count = config.grid.width, config.grid.width * config.grid.height
    placed: list[tuple[int, int, int, int]] = []
    for species, herbivore in enumerate(config.herbivores):
        mine = sorted((s for s in config.swarms if s.species == herbivore.name), key=lambda s: s.population)
        placed += [(species, s.y, s.x, s.population) for s in mine if s.x is not None and s.y is not None]
        scattered = [s.population for s in mine for _ in range(s.count or 0)]
        if scattered:
            cells = _shuffled(context, np.arange(cell_count), SPECIES_MAX + species)[: len(scattered)].tolist()
            for number, population in enumerate(scattered):
                y, x = divmod(cells[number % cell_count], width)
                placed.append((species, y, x, population))
    swarms = []
    for species, y, x, population in sorted(placed):
        energy = config.herbivores[species].energy_min * population
        swarms.append(new_swarm(species, x, y, population, energy))
        context.note(Flow.PLACED_SWARMS, energy)
    add_swarms(context.state, swarms)
