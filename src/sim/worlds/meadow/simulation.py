"""The meadow as a simulation: its state at tick 0, its phases in order, and figures and pictures of its state."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from sim.kernel.arithmetic.fixed_point import ONE, PLACES, to_number
from sim.kernel.hooks import Phase
from sim.kernel.messages import Event
from sim.kernel.plain_data import decode_plain, encode_plain
from sim.kernel.registry import Config, Origin
from sim.kernel.simulation import run_phases
from sim.kernel.state import Snapshot, State
from sim.worlds.meadow.config.inputs import INPUT_KEYS
from sim.worlds.meadow.config.meadow import MeadowConfig, read_config
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
from sim.worlds.meadow.telemetry import column_names, make_row

WORLD_NAME = "meadow"
INT64_MAX = (1 << 63) - 1
WORLD_VERSION = 4  # Changes whenever the same configuration and inputs give other states, and only then.


class Meadow:
    """Plants and herbivores on a grid. layout.py describes the state, the module of each phase its rules."""

    marks_writes = True

    def __init__(self, plain_config: Config, *, ledger: Ledger | None = None) -> None:
        """Make a meadow at tick 0. plain_config: parsed TOML. Raises ConfigError.

        ledger: receives every flow of energy and checks the sums after each phase; step can then raise LedgerError.
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
        self._columns = column_names(self.config)
        place_everything(self._context)
        if ledger is not None:
            ledger.close_phase("placement", self.state)

    def _phase(self, name: str, run: Callable[[Any], None]) -> Phase:
        ledger = self._ledger
        if ledger is None:
            return Phase(name, run, WRITES[name])

        def run_with_ledger(inputs: Any) -> None:
            run(inputs)
            ledger.close_phase(name, self.state)

        return Phase(name, run_with_ledger, WRITES[name])

    def after_restore(self) -> None:
        """Restart event log and ledger from the restored state; the steps before it are unknown."""
        self._context.event_log.forget(self._context.tick)
        if self._ledger is not None:
            self._ledger.begin(self.state)

    @property
    def roles(self) -> tuple[str, ...]:
        """The herbivores, whose players send inputs."""
        return tuple(herbivore.name for herbivore in self.config.herbivores)

    @property
    def labels(self) -> tuple[str, ...]:
        """The kinds of inputs of a meadow."""
        return tuple(INPUT_KEYS)

    def accepts(self, item: Any) -> bool:
        """Return True if step accepts this input; a scenario drops inputs that it has corrupted until they are invalid."""
        return is_input(self.config, item)

    def sample(self, role: str) -> list[int]:
        """Return heads and energy of a herbivore as Q32.32 integers, clipped to 64 bits."""
        mine = (self.state["swarms.species"] == self.config.herbivore_index(role)) & (self.state["swarms.id"] != 0)
        heads, energy = (int(self.state[f"swarms.{name}"][mine].sum()) for name in ("population", "energy"))
        return [min(heads << 32, INT64_MAX), min(energy << (32 - PLACES), INT64_MAX)]

    def telemetry(self) -> Mapping[str, int | float]:
        """Return the figures of the current tick, see telemetry.py."""
        return make_row(self.state, self.config, self._columns)

    @property
    def events_wanted(self) -> bool:
        """True to collect events for events(), from the next step on; False by default."""
        return self._context.event_log.wanted

    @events_wanted.setter
    def events_wanted(self, wanted: bool) -> None:
        self._context.event_log.wanted = wanted

    def events(self) -> list[Event]:
        """Return the events of the last step, see event_log.py; if the run is over, the last event states the reason.

        Raises RuntimeError if the step was made while events_wanted was False.
        """
        event_log = self._context.event_log
        end = self.ended() if event_log.is_open else None
        last: list[Event] = [{"kind": "ended", "reason": end[0], "text": end[1]}] if end is not None else []
        return event_log.events(self._context.tick) + last

    def ended(self) -> tuple[str, str] | None:
        """Return the reason why the run is over at this tick, as name and sentence (see termination.py), or None."""
        return find_end(self.state, self.config)

    def step(self, inputs: Any) -> None:
        """Advance by one tick. inputs: a list of inputs (see inputs.py) or None. Raises ValueError for an invalid input."""
        run_phases(self.phases, inputs)


def summarize(plain_config: Config, snapshot: Snapshot) -> Mapping[str, str]:
    """Return the figures of one tick by name, as text."""
    config = _config_of(plain_config)
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


def _config_of(plain: Config) -> MeadowConfig:
    """The configuration, read once for many ticks: reading takes ten times as long as drawing a tick."""
    return _read_encoded(encode_plain(dict(plain)))


@functools.lru_cache(maxsize=4)
def _read_encoded(encoded: bytes) -> MeadowConfig:
    return read_config(decode_plain(encoded))


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def picture(snapshot: Snapshot) -> npt.NDArray[Any]:
    """Return the visible energy of all plants: (height, width) int64."""
    layer: npt.NDArray[Any] = snapshot["biotope.total"][int(snapshot["biotope.front"])]
    return layer


def layers(plain_config: Config, snapshot: Snapshot) -> Mapping[str, npt.NDArray[Any]]:
    """Return all layers by name, in units of 1.0: (height, width) float64."""
    return {name: make(snapshot) for name, make in _layers_of(_config_of(plain_config)).items()}


def layer(plain_config: Config, snapshot: Snapshot, name: str) -> npt.NDArray[Any]:
    """Return one of the layers. Raises KeyError for a name that none has."""
    return _layers_of(_config_of(plain_config))[name](snapshot)


def _layers_of(config: MeadowConfig) -> dict[str, Callable[[Snapshot], npt.NDArray[Any]]]:
    """What makes each layer, by its name."""
    made: dict[str, Callable[[Snapshot], npt.NDArray[Any]]] = {
        "plant energy": lambda snapshot: picture(snapshot) / ONE,
        "flow": lambda snapshot: snapshot["biotope.flow"] / ONE,
    }
    for number, flora in enumerate(config.flora):
        made[f"energy of {flora.name}"] = functools.partial(_plant_energy, number)
    for substance, number in zip(config.substances, config.layers, strict=True):
        made[f"{substance.kind} {substance.name}"] = functools.partial(_signal, f"biotope.{substance.kind}s", number)
    for number, herbivore in enumerate(config.herbivores):
        made[f"heads of {herbivore.name}"] = functools.partial(_heads, number)
    return made


def _plant_energy(number: int, snapshot: Snapshot) -> npt.NDArray[Any]:
    energy: npt.NDArray[Any] = snapshot["biotope.energy"][int(snapshot["biotope.front"]), number] / ONE
    return energy


def _signal(field: str, number: int, snapshot: Snapshot) -> npt.NDArray[Any]:
    amount: npt.NDArray[Any] = snapshot[field][number] / ONE
    return amount


def _heads(number: int, snapshot: Snapshot) -> npt.NDArray[Any]:
    """The animals of one herbivore in each cell."""
    rows = np.flatnonzero(snapshot["swarms.id"])
    mine = rows[snapshot["swarms.species"][rows] == number]
    heads = np.zeros_like(snapshot["biotope.flow"], dtype=np.float64)
    np.add.at(heads, (snapshot["swarms.y"][mine], snapshot["swarms.x"][mine]), snapshot["swarms.population"][mine])
    return heads


def points(plain_config: Config, snapshot: Snapshot) -> Mapping[str, npt.NDArray[np.float64]]:
    """Return the swarms of each herbivore by name, (count, 3) float64: the centre of the cell, x and y, and the heads."""
    rows = np.flatnonzero(snapshot["swarms.id"])
    x, y, heads = (snapshot[f"swarms.{column}"][rows] for column in ("x", "y", "population"))
    places = np.stack([x + 0.5, y + 0.5, heads], axis=1)
    species = snapshot["swarms.species"][rows]
    return {
        f"swarms of {herbivore['name']}": places[species == index]
        for index, herbivore in enumerate(plain_config.get("herbivores", ()))
    }
