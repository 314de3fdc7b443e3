"""The world of organisms as a simulation: its state at tick 0, its phases and its figures."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from sim.kernel.hooks import Phase
from sim.kernel.registry import Config, Origin
from sim.kernel.simulation import run_phases
from sim.kernel.state import Snapshot, State
from sim.worlds.organisms.config import OrganismsConfig, read_config
from sim.worlds.organisms.execution import Requests, run_slices, take_bodies
from sim.worlds.organisms.inputs import POOL_MAX, read_inputs
from sim.worlds.organisms.instructions import GENOME_MAX, OPS, program_text
from sim.worlds.organisms.layout import COLUMNS, RUNNING, Statistic, make_schema
from sim.worlds.organisms.population import Newborn, newborns_of, replace_population, share_food
from sim.worlds.organisms.taxonomy import rank_names

WORLD_NAME = "organisms"
WORLD_VERSION = 1  # Changes if and only if the same configuration and inputs give different states.

RunSlices = Callable[["Organisms"], Requests]

_POPULATION_WRITES = frozenset({"organisms", "seed_bank", "next_id", "statistics"})


class Organisms:
    """Self-copying programs in bounded memory; see layout.py for the state.

    Attributes:
        run_slices: runs the slices of all organisms of the state at the tick that the step makes, writes the columns of
            RUNNING and returns the requests. By default here; a server has them run by its workers, with the same result.
    """

    run_slices: RunSlices

    def __init__(self, plain_config: Config) -> None:
        """Build a world at tick 0. plain_config: as parsed from TOML. Raises ConfigError."""
        self.config: OrganismsConfig = read_config(plain_config)
        self.origin = Origin(WORLD_NAME, WORLD_VERSION, plain_config)
        self.state = State(make_schema(self.config))
        self.run_slices = run_slices_here
        running = frozenset(f"organisms.{name}" for name in RUNNING)
        self.phases: tuple[Phase, ...] = (
            Phase("inputs", self._run_inputs, frozenset({"tick", "pool"})),
            Phase("slices", self._run_slices, running | {"statistics"}),
            Phase("food", self._run_food, frozenset({"organisms.energy", "organisms.max_energy", "pool"})),
            Phase("population", self._run_population, _POPULATION_WRITES),
        )
        self._injected: list[bytes] = []  # From here on: of the step that is under way.
        self._requests: Requests | None = None
        self.state["seed"][...] = self.config.seed
        self.state["next_id"][...] = 1
        self.state["pool"][...] = min(self.config.inflow, self.config.pool_max)
        founders = [Newborn(genome, self.config.start_energy) for genome in self.config.founders]
        replace_population(self.state, founders, self.config)

    def step(self, inputs: Any) -> None:
        """Advance by one tick. inputs: a list (see inputs.py) or None. Raises ValueError; the state is then unchanged."""
        run_phases(self.phases, inputs)

    def _run_inputs(self, inputs: Any) -> None:
        amount, self._injected = read_inputs(inputs)
        state, config = self.state, self.config
        pool = int(state["pool"])
        state["tick"][...] += 1
        state["pool"][...] = min(max(pool, min(pool + config.inflow, config.pool_max)) + amount, POOL_MAX)

    def _run_slices(self, _: Any) -> None:
        self._requests = self.run_slices(self)
        instructions, copies, mutations = self._requests.figures.sum(axis=0).tolist()
        statistics = self.state["statistics"]
        statistics[Statistic.INSTRUCTIONS] += instructions
        statistics[Statistic.COPIES] += copies
        statistics[Statistic.MUTATIONS] += mutations

    def _run_food(self, _: Any) -> None:
        assert self._requests is not None
        share_food(self.state, self._requests, self.config)

    def _run_population(self, _: Any) -> None:
        assert self._requests is not None
        born = newborns_of(self.state, self._requests)
        injected = [Newborn(genome, self.config.start_energy) for genome in self._injected]
        self.state["statistics"][Statistic.BIRTHS] += len(born)
        self.state["statistics"][Statistic.INJECTED] += len(injected)
        replace_population(self.state, [*born, *injected], self.config)
        self._requests, self._injected = None, []

    def telemetry(self) -> Mapping[str, int | float]:
        """The figures of the current tick; energies as whole numbers."""
        return figures_of(self.state)

    def ended(self) -> tuple[str, str] | None:
        """The reason for the end, ("extinct", sentence), when no organism lives; None before."""
        return None if self.state.count("organisms") else ("extinct", "no organism lives, and none is reseeded")


def run_slices_here(world: Organisms) -> Requests:
    """Run the slices of all organisms in this process; see Organisms.run_slices."""
    state = world.state
    bodies = take_bodies({column.name: state[f"organisms.{column.name}"] for column in COLUMNS}, slice(None))
    requests = run_slices(bodies, world.config, int(state["seed"]), int(state["tick"]), int(state["pool"]))
    for name in RUNNING:
        state[f"organisms.{name}"][...] = bodies[name]
    return requests


def figures_of(state: State | Snapshot) -> dict[str, int]:
    """The figures of a state by name; energies are whole numbers, the mean is rounded down."""
    energy, count = int(state["organisms.energy"].sum()), state.count("organisms")
    species = len(np.unique(state["organisms.taxonomy"][:, -1]))
    figures = {"organisms": count, "species": species, "seeds": state.count("seed_bank"), "pool": int(state["pool"])}
    figures["energy"] = energy
    figures["energy_mean"] = energy // count if count else 0
    figures["size_mean"] = int(state["organisms.size"].sum()) // count if count else 0
    figures["generation_max"] = int(state["organisms.generation"].max(initial=0))
    return figures | {name.name.lower(): int(state["statistics"][name]) for name in Statistic}


def summarize(_: Config, snapshot: Snapshot) -> Mapping[str, str]:
    """Summarize one tick: figures as text, by name."""
    figures = figures_of(snapshot)
    lines = {
        "organisms": f"{figures['organisms']:,} of {figures['species']:,} species, in generations up to {figures['generation_max']:,}",
        "energy": f"{figures['energy']:,} in organisms, {figures['pool']:,} in the pool",
        "born so far": f"{figures['births']:,}, {figures['reseeded']:,} more from the seed bank",
        "died so far": f"{figures['starved'] + figures['reaped']:,} ({figures['starved']:,} starved, {figures['reaped']:,} reaped)",
    }
    species, counts = np.unique(snapshot["organisms.taxonomy"][:, -1], return_counts=True)
    if len(species):
        row = int(np.flatnonzero(snapshot["organisms.taxonomy"][:, -1] == species[np.argmax(counts)])[0])
        name = rank_names(snapshot["organisms.taxonomy"][row].tolist())["species"]
        genome = snapshot["organisms.genome"][row, : int(snapshot["organisms.size"][row])].tobytes()
        lines["most frequent"] = f"{name}, {int(counts.max()):,} of them: {program_text(genome)}"
    return lines


def picture(snapshot: Snapshot) -> npt.NDArray[Any]:
    """The genomes of the organisms, one in each row: (capacity, GENOME_MAX) int8, operations, -1 after the end."""
    return _programs(snapshot, "organisms")


def layers(_: Config, snapshot: Snapshot) -> Mapping[str, npt.NDArray[Any]]:
    """The genomes of the organisms and of the seed bank: operations from 1 on, and 0, the colour of nothing, after the end."""
    return {"genomes": _programs(snapshot, "organisms") + 1, "seed bank": _programs(snapshot, "seed_bank") + 1}


def _programs(snapshot: Snapshot, table: str) -> npt.NDArray[Any]:
    rows = np.full((snapshot.layout.capacities[table], GENOME_MAX), -1, np.int8)
    sizes = snapshot[f"{table}.size"]
    is_used = np.arange(GENOME_MAX) < sizes[:, None]
    rows[: len(sizes)][is_used] = snapshot[f"{table}.genome"][is_used]
    assert rows.max(initial=-1) < len(OPS)
    return rows
