"""The context that every phase of a meadow receives: the state, the configuration, and constants derived from it."""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np
import numpy.typing as npt

from sim.kernel.arithmetic.counter_rng import KeyedRandom
from sim.kernel.arithmetic.fixed_point import ONE, multiply
from sim.kernel.state import State
from sim.worlds.meadow.config.meadow import MeadowConfig, Player
from sim.worlds.meadow.model.dispersal import SeedRings
from sim.worlds.meadow.model.energy_ledger import Flow, Ledger
from sim.worlds.meadow.model.event_log import EventLog
from sim.worlds.meadow.model.layout import Parameter
from sim.worlds.meadow.model.loops import draw_first_words
from sim.worlds.meadow.model.numba_loops import SWARMS_MIN, compiled_for

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
    camouflage: Values
    rings: SeedRings

    @staticmethod
    def of(config: MeadowConfig) -> FloraTable:
        """Return the constants of a configuration."""
        names = [field.name for field in attrs.fields(FloraTable) if field.name not in ("growth", "rings")]
        columns = {name: np.array([getattr(flora, name) for flora in config.flora], np.int64) for name in names}
        growth = [flora.base_energy * flora.growth_percent // (100 * ONE) for flora in config.flora]
        rings = SeedRings(max(flora.seed_distance_max for flora in config.flora))
        return FloraTable(growth=np.array(growth, np.int64), rings=rings, **columns)


def _kinds(config: MeadowConfig, players: dict[int, Player]) -> Values:
    """Return the constants of the herbivore species: int64, one row per species, columns as in swarm_turn.py."""
    rows = []
    for index, (species, diet) in enumerate(zip(config.herbivores, config.diet, strict=True)):
        bite = species.consumption_rate // species.velocity
        price = multiply(species.energy_min, species.reproduction_divisor)
        bias = players[index].bias if index in players else 1
        constants = (bite, species.velocity, species.upkeep, species.energy_min, price, species.split_population, bias)
        rows.append((*constants, *diet))
    return np.array(rows, np.int64)


@attrs.frozen(eq=False)
class PhaseContext:
    """The state, configuration and constants of one meadow.

    Attributes:
        state: everything that persists from tick to tick.
        config: the configuration, which never changes.
        flora: constants of the plant species as arrays.
        kinds: constants of the herbivore species as arrays.
        defended: True for plant species that have a trigger rule: (species,) bool.
        players: by index of their herbivore species.
        ledger: the ledger of energy flows; None if none is kept.
        event_log: the events of the step.
    """

    state: State
    config: MeadowConfig
    flora: FloraTable
    kinds: Values
    defended: npt.NDArray[np.bool_]
    players: dict[int, Player]
    ledger: Ledger | None
    event_log: EventLog

    @staticmethod
    def of(state: State, config: MeadowConfig, ledger: Ledger | None) -> PhaseContext:
        """Make the context for a state of this configuration."""
        players = {config.herbivore_index(player.species): player for player in config.players}
        ruled = {trigger.flora for trigger in config.triggers}
        defended = np.array([flora.name in ruled for flora in config.flora])
        kinds, event_log = _kinds(config, players), EventLog(config)
        return PhaseContext(state, config, FloraTable.of(config), kinds, defended, players, ledger, event_log)

    @property
    def random(self) -> KeyedRandom:
        """Random draws keyed by the meadow's seed."""
        return KeyedRandom(int(self.state["seed"]))

    @property
    def tick(self) -> int:
        """The tick that the current step produces."""
        return int(self.state["tick"])

    def first_words(self, phase: int, entities: Values) -> Values:
        """Return the first random word of each entity in this tick, below 2**32: (entities,) int64."""
        keyed, tick = self.random, self.tick
        compiled = compiled_for(len(entities), SWARMS_MIN, draw_first_words)
        if compiled is None:
            return keyed.words(phase, tick, entities)[:, 0].astype(np.int64)
        keyed.check(phase, tick, entities)
        words = np.empty(len(entities), np.int64)
        numbers = (tick & 0xFFFFFFFF, phase << 24 | (tick >> 32) << 16, *keyed.key)
        compiled(entities, *(np.uint64(number) for number in numbers), words)
        return words

    def parameter(self, parameter: Parameter) -> int:
        """Return the current value of a parameter."""
        return int(self.state["parameters"][parameter])

    def note(self, flow: Flow, amount: Any) -> None:
        """Note an energy flow, or the sum of an array of flows, if there is a ledger."""
        if self.ledger is not None:
            self.ledger.note(flow, np.sum(amount))
