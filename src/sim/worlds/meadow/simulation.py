"""The meadow as a simulation: its state at tick 0, its phases in their order, and figures worth showing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from sim.kernel.arithmetic.fixed_point import ONE, PLACES, to_number
from sim.kernel.hooks import Phase
from sim.kernel.messages import Event
from sim.kernel.registry import Config, Origin
from sim.kernel.simulation import run_phases
from sim.kernel.state import Snapshot, State
from sim.worlds.meadow.config.inputs import INPUT_KEYS
from sim.worlds.meadow.config.meadow import read_config
from sim.worlds.meadow.model.context import PhaseContext
from sim.worlds.meadow.model.energy_ledger import Ledger
from sim.worlds.meadow.model.layout import LossCause, make_schema
from sim.worlds.meadow.phases.flow_field import run_flow_field
from sim.worlds.meadow.phases.inputs import is_input, run_inputs
from sim.worlds.meadow.phases.interaction import run_interaction
from sim.worlds.meadow.phases.lifecycle import run_lifecycle
from sim.worlds.meadow.phases.sight import run_sight
from sim.worlds.meadow.phases.signalling import run_signalling
from sim.worlds.meadow.phases.termination import find_end
from sim.worlds.meadow.phases.writes import WRITES
from sim.worlds.meadow.placement import place_everything
from sim.worlds.meadow.telemetry import make_row

WORLD_NAME = "meadow"
INT64_MAX = (1 << 63) - 1
WORLD_VERSION = 3  # Changes whenever the same configuration and inputs give other states, and only then.


class Meadow:
    """Plants and herbivores on a grid; see layout.py for the state and each phase's module for its rules."""

    marks_writes = True

    def __init__(self, plain_config: Config, *, ledger: Ledger | None = None) -> None:
        """A meadow at tick 0. plain_config: as a TOML file gives it. Raises ConfigError.

        ledger: keep books of every flow of energy, and check them after each phase; step raises LedgerError then.
        """
        self.config = read_config(plain_config)
        self.origin = Origin(WORLD_NAME, WORLD_VERSION, plain_config)
        self.state = State(make_schema(self.config))
        self._ledger = ledger
        self._context = PhaseContext.of(self.state, self.config, ledger)
        self.phases: tuple[Phase, ...] = (
            self._phase("inputs", lambda inputs: run_inputs(self._context, inputs)),
            self._phase("flow_field", lambda _: run_flow_field(self._context)),
            self._phase("lifecycle", lambda _: run_lifecycle(self._context)),
            self._phase("interaction", lambda _: run_interaction(self._context)),
            self._phase("signalling", lambda _: run_signalling(self._context)),
        )
        if self.config.players:
            self.phases += (self._phase("sight", lambda _: run_sight(self._context)),)
        place_everything(self._context)
        if ledger is not None:
            ledger.close_phase("placement", self.state)

    def _phase(self, name: str, run: Callable[[Any], None]) -> Phase:
        ledger = self._ledger
        if ledger is None:
            return Phase(name, run, WRITES[name])

        def run_with_books(inputs: Any) -> None:
            run(inputs)
            ledger.close_phase(name, self.state)

        return Phase(name, run_with_books, WRITES[name])

    def after_restore(self) -> None:
        """The books begin anew with the state that was put in; what has led to it is not known."""
        self._context.event_log.forget(self._context.tick)
        if self._ledger is not None:
            self._ledger.begin(self.state)

    @property
    def roles(self) -> tuple[str, ...]:
        """The herbivores, whose players send inputs."""
        return tuple(herbivore.name for herbivore in self.config.herbivores)

    @property
    def labels(self) -> tuple[str, ...]:
        """The kinds of inputs."""
        return tuple(INPUT_KEYS)

    def accepts(self, item: Any) -> bool:
        """Whether step takes this input; a scenario drops what it has corrupted beyond that."""
        return is_input(self.config, item)

    def sample(self, role: str) -> list[int]:
        """Heads and energy of a herbivore, Q32.32 as integers, at most what 64 bits hold."""
        mine = (self.state["swarms.species"] == self.config.herbivore_index(role)) & (self.state["swarms.id"] != 0)
        heads, energy = (int(self.state[f"swarms.{name}"][mine].sum()) for name in ("population", "energy"))
        return [min(heads << 32, INT64_MAX), min(energy << (32 - PLACES), INT64_MAX)]

    def telemetry(self) -> Mapping[str, int | float]:
        """The figures of the present tick, see telemetry.py."""
        return make_row(self.state, self.config)

    @property
    def events_wanted(self) -> bool:
        """Whether events() is to tell of the steps from the next one on; not unless somebody says so."""
        return self._context.event_log.wanted

    @events_wanted.setter
    def events_wanted(self, wanted: bool) -> None:
        self._context.event_log.wanted = wanted

    def events(self) -> list[Event]:
        """What happened in the step just made, see events.py; last, whether the run is over with it, and why.

        Raises RuntimeError if that step was made without anybody wanting to know.
        """
        event_log = self._context.event_log
        end = self.ended() if event_log.is_open else None
        last: list[Event] = [{"kind": "ended", "reason": end[0], "text": end[1]}] if end is not None else []
        return event_log.events(self._context.tick) + last

    def ended(self) -> tuple[str, str] | None:
        """Why the run is over as of the present tick, see termination.py: name and sentence; None if it is not."""
        return find_end(self.state, self.config)

    def step(self, inputs: Any) -> None:
        """Advance by one tick. inputs: a list of inputs (see inputs.py) or None; ValueError if one cannot be."""
        run_phases(self.phases, inputs)


def summarize(plain_config: Config, snapshot: Snapshot) -> Mapping[str, str]:
    """Figures of one tick, by name, ready to print."""
    config = read_config(plain_config)
    lines: dict[str, str] = {}
    alive = snapshot["plants.id"] != 0
    for index, flora in enumerate(config.flora):
        mine = alive & (snapshot["plants.species"] == index)
        energy = to_number(int(snapshot["plants.energy"][mine].sum()))
        lines[flora.name] = f"{_counted(int(mine.sum()), 'plant')}, energy {energy:,.1f}"
    present = snapshot["swarms.id"] != 0
    for index, herbivore in enumerate(config.herbivores):
        mine = present & (snapshot["swarms.species"] == index)
        heads = int(snapshot["swarms.population"][mine].sum())
        lines[herbivore.name] = f"{_counted(heads, 'head')} in {_counted(int(mine.sum()), 'swarm')}"
    lines["born so far"] = _counted(int(snapshot["births"].sum()), "plant")
    deaths = snapshot["deaths"].sum(axis=0)
    causes = ", ".join(f"{int(count):,} {LossCause(i).name.lower()}" for i, count in enumerate(deaths) if count)
    lines["died so far"] = _counted(int(deaths.sum()), "plant") + (f" ({causes})" if causes else "")
    if snapshot["climate.drought_ticks"] > 0:
        lines["drought"] = f"{_counted(int(snapshot['climate.drought_ticks']), 'tick')} left"
    return lines


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def picture(snapshot: Snapshot) -> npt.NDArray[Any]:
    """Plant energy in sum, as everybody sees it: (height, width) int64."""
    layer: npt.NDArray[Any] = snapshot["biotope.total"][int(snapshot["biotope.front"])]
    return layer


def layers(plain_config: Config, snapshot: Snapshot) -> Mapping[str, npt.NDArray[Any]]:
    """All layers, by name, in units of 1.0: (height, width) float64."""
    config = read_config(plain_config)
    front = int(snapshot["biotope.front"])
    found = {"plant energy": snapshot["biotope.total"][front], "flow": snapshot["biotope.flow"]}
    found |= {f"energy of {flora.name}": snapshot["biotope.energy"][front, i] for i, flora in enumerate(config.flora)}
    for substance, layer in zip(config.substances, config.layers, strict=True):
        found[f"{substance.kind} {substance.name}"] = snapshot[f"biotope.{substance.kind}s"][layer]
    scaled = {name: layer / ONE for name, layer in found.items()}
    rows = np.flatnonzero(snapshot["swarms.id"])
    for index, herbivore in enumerate(config.herbivores):
        mine = rows[snapshot["swarms.species"][rows] == index]
        heads = np.zeros_like(snapshot["biotope.flow"], dtype=np.float64)
        np.add.at(heads, (snapshot["swarms.y"][mine], snapshot["swarms.x"][mine]), snapshot["swarms.population"][mine])
        scaled[f"heads of {herbivore.name}"] = heads
    return scaled


def points(plain_config: Config, snapshot: Snapshot) -> Mapping[str, npt.NDArray[np.float64]]:
    """Where the swarms of each herbivore are, the middles of their cells: (count, 2) float64, x and y, by name."""
    rows = np.flatnonzero(snapshot["swarms.id"])
    middles = np.stack([snapshot["swarms.x"][rows], snapshot["swarms.y"][rows]], axis=1) + 0.5
    species = snapshot["swarms.species"][rows]
    return {
        f"swarms of {herbivore['name']}": middles[species == index]
        for index, herbivore in enumerate(plain_config.get("herbivores", ()))
    }
