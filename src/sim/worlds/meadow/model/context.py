"""What every phase of a meadow is given: the state, the configuration, and what follows from that."""

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
from sim.worlds.meadow.model.layout import NEIGHBOURS, Parameter

Values = npt.NDArray[np.int64]

_HERE_AND_NEIGHBOURS = ((0, 0), *NEIGHBOURS)


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
        """The constants of a configuration."""
        names = [field.name for field in attrs.fields(FloraTable) if field.name not in ("growth", "rings")]
        columns = {name: np.array([getattr(flora, name) for flora in config.flora], np.int64) for name in names}
        growth = [flora.base_energy * flora.growth_percent // (100 * ONE) for flora in config.flora]
        rings = SeedRings(max(flora.seed_distance_max for flora in config.flora))
        return FloraTable(growth=np.array(growth, np.int64), rings=rings, **columns)


def _kinds(config: MeadowConfig, players: dict[int, Player]) -> Values:
    """The constants of the herbivore species, a row for each, as swarm_turn.py describes it: int64."""
    rows = []
    for index, (one, diet) in enumerate(zip(config.herbivores, config.diet, strict=True)):
        bite, price = one.consumption_rate // one.velocity, multiply(one.energy_min, one.reproduction_divisor)
        bias = players[index].bias if index in players else 1
        rows.append((bite, one.velocity, one.upkeep, one.energy_min, price, one.split_population, bias, *diet))
    return np.array(rows, np.int64)


@attrs.frozen(eq=False)
class PhaseContext:
    """A meadow as its phases see it.

    Attributes:
        state: all that lasts.
        config: what never changes.
        flora: constants of the plant species as arrays.
        kinds: constants of the herbivore species as arrays.
        defended: which plant species begin a defence, if a rule says so: (species,) bool.
        players: by number of their herbivore species.
        ledger: where flows of energy are noted, if somebody keeps books.
        event_log: where it is noted what happens.
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
        """For a state of this configuration."""
        players = {config.herbivore_index(player.species): player for player in config.players}
        ruled = {trigger.flora for trigger in config.triggers}
        defended = np.array([flora.name in ruled for flora in config.flora])
        kinds, event_log = _kinds(config, players), EventLog(config)
        return PhaseContext(state, config, FloraTable.of(config), kinds, defended, players, ledger, event_log)

    @property
    def random(self) -> KeyedRandom:
        """Draws under the meadow's seed."""
        return KeyedRandom(int(self.state["seed"]))

    @property
    def tick(self) -> int:
        """The tick that the step under way leads to."""
        return int(self.state["tick"])

    def parameter(self, which: Parameter) -> int:
        """The present value of a parameter."""
        return int(self.state["parameters"][which])

    def note(self, flow: Flow, amount: Any) -> None:
        """Note a flow of energy, or the sum of several, if books are kept."""
        if self.ledger is not None:
            self.ledger.note(flow, np.sum(amount))

    def cells_around(self, x: int, y: int) -> list[tuple[int, int]]:
        """The five cells: the cell, and its neighbours to the east, south, west and north, as far as they are inside."""
        width, height = self.config.grid.width, self.config.grid.height
        near = [(x + dx, y + dy) for dx, dy in _HERE_AND_NEIGHBOURS]
        return [(cx, cy) for cx, cy in near if 0 <= cx < width and 0 <= cy < height]
