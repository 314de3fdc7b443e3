"""The meadow as a simulation: its state at tick 0, its phases in their order, and figures worth showing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from sim.kernel.fixed_point import to_number
from sim.kernel.keyed_random import KeyedRandom
from sim.kernel.registry import Config, Origin
from sim.kernel.simulation import Phase, run_phases
from sim.kernel.state import Snapshot, State
from sim.worlds.meadow.biotope import rebuild
from sim.worlds.meadow.config import MeadowConfig, read_config
from sim.worlds.meadow.interaction import add_swarm, run_interaction
from sim.worlds.meadow.layout import DrawPhase, LossCause, make_schema
from sim.worlds.meadow.lifecycle import FloraTable, run_lifecycle
from sim.worlds.meadow.orders import run_inputs
from sim.worlds.meadow.plants import add_plants

WORLD_NAME = "meadow"
WORLD_VERSION = 1  # Changes whenever the same configuration and inputs give other states, and only then.


class Meadow:
    """Plants and herbivores on a grid; see layout.py for the state and each phase's module for its rules."""

    marks_writes = True

    def __init__(self, plain_config: Config) -> None:
        """A meadow at tick 0. plain_config: as a TOML file gives it. Raises ConfigError."""
        config = read_config(plain_config)
        flora = FloraTable.of(config)
        self.config = config
        self.origin = Origin(WORLD_NAME, WORLD_VERSION, plain_config)
        self.state = State(make_schema(config))
        self.phases = (
            Phase("inputs", lambda inputs: run_inputs(self.state, config, inputs)),
            Phase("lifecycle", lambda _: run_lifecycle(self.state, config, flora)),
            Phase("interaction", lambda _: run_interaction(self.state, config)),
        )
        _place_everything(self.state, config)

    def step(self, inputs: Any) -> None:
        """Advance by one tick. inputs: a list of inputs (see orders.py) or None; ValueError if one cannot be."""
        run_phases(self.phases, inputs)


def _place_everything(state: State, config: MeadowConfig) -> None:
    """Put the configured plants and swarms down, in an order that does not depend on that of the scenario's lists."""
    state["seed"][()] = config.seed
    state["next_plant_id"][()] = state["next_swarm_id"][()] = 1
    width, height = config.grid.width, config.grid.height
    free = np.ones(width * height, np.bool_)
    fixed = sorted({(config.flora_index(p.species), p.y, p.x) for p in config.plants if p.x is not None})
    cells = np.array([y * width + x for _, y, x in fixed if y is not None and x is not None], dtype=np.int64)
    _, first = np.unique(cells, return_index=True)  # Of two plants for one cell the one of the first species stays.
    chosen = [(fixed[index][0], int(cells[index])) for index in sorted(first.tolist())]
    free[cells] = False
    for species, flora in enumerate(config.flora):
        wanted = sum(p.count or 0 for p in config.plants if p.species == flora.name)
        open_cells = np.flatnonzero(free)
        words = KeyedRandom(config.seed).words(DrawPhase.PLACEMENT, 0, open_cells, block=species)[:, 0]
        taken = np.sort(open_cells[np.argsort(words, kind="stable")[:wanted]])
        free[taken] = False
        chosen += [(species, int(cell)) for cell in taken]
    species_column, cell_column = np.array(chosen, dtype=np.int64).reshape(-1, 2).T
    base = np.array([flora.base_energy for flora in config.flora], dtype=np.int64)
    add_plants(state, species_column, cell_column % width, cell_column // width, base[species_column])
    state["births"][:] = 0  # What was there from the start was not born.
    for swarm in sorted(config.swarms, key=lambda s: (config.herbivore_index(s.species), s.y, s.x, s.population)):
        species = config.herbivore_index(swarm.species)
        energy = config.herbivores[species].energy_min * swarm.population
        add_swarm(state, species, swarm.x, swarm.y, swarm.population, energy)
    rebuild(state)


def summarize(plain_config: Config, snapshot: Snapshot) -> Mapping[str, str]:
    """Figures of one tick, by name, ready to print."""
    config = read_config(plain_config)
    lines: dict[str, str] = {}
    alive = snapshot["plants.id"] != 0
    for index, flora in enumerate(config.flora):
        mine = alive & (snapshot["plants.species"] == index)
        energy = to_number(int(snapshot["plants.energy"][mine].sum()))
        lines[flora.name] = f"{int(mine.sum()):,} plants, energy {energy:,.1f}"
    present = snapshot["swarms.id"] != 0
    for index, herbivore in enumerate(config.herbivores):
        mine = present & (snapshot["swarms.species"] == index)
        heads = int(snapshot["swarms.population"][mine].sum())
        lines[herbivore.name] = f"{heads:,} heads in {int(mine.sum()):,} swarms"
    lines["born so far"] = f"{int(snapshot['births'].sum()):,} plants"
    deaths = snapshot["deaths"].sum(axis=0)
    causes = ", ".join(f"{int(count):,} {LossCause(i).name.lower()}" for i, count in enumerate(deaths) if count)
    lines["died so far"] = f"{int(deaths.sum()):,} plants" + (f" ({causes})" if causes else "")
    if snapshot["climate.drought_ticks"] > 0:
        lines["drought"] = f"{int(snapshot['climate.drought_ticks'])} ticks left"
    return lines


def picture(snapshot: Snapshot) -> npt.NDArray[Any]:
    """Plant energy in sum, as everybody sees it: (height, width) int64."""
    layer: npt.NDArray[Any] = snapshot["biotope.total"][int(snapshot["biotope.front"])]
    return layer
