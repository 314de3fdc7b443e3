"""What a meadow is made of: sizes, species, placements, defences, players, bounds; checked, in fixed point.

Energies, rates and concentrations are decimals in a scenario and 1/65536 units (fixed_point.py) here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import attrs

from sim.kernel.arithmetic.fixed_point import ONE
from sim.kernel.registry import ConfigError
from sim.scenario.config.structure import Decimal, Whole, structure
from sim.worlds.meadow.config.conditions import DEPTH_MAX, Condition
from sim.worlds.meadow.config.inputs import INPUT_KEYS, ScheduledInput
from sim.worlds.meadow.config.species import POPULATION_MAX, TICKS_MAX, Energy, Flora, Herbivore, Share, Substance

SPECIES_MAX = 16  # Of flora, of herbivores and of substances each.
SIDE_CELLS_MAX = 4096
WIND_MAX = 64  # Cells a tick; far more than any meadow needs.
RULES_MAX = 256  # Each is looked at for each plant of its species in each tick.

Cells = Annotated[int, Whole(0, SIDE_CELLS_MAX - 1)]
WindPart = Annotated[int, Decimal(-WIND_MAX, WIND_MAX)]
Ticks = Annotated[int, Whole(1, TICKS_MAX)]


@attrs.frozen
class Grid:
    """Size of the meadow in cells; x runs along rows of memory, y down them."""

    width: Annotated[int, Whole(1, SIDE_CELLS_MAX)]
    height: Annotated[int, Whole(1, SIDE_CELLS_MAX)]


@attrs.frozen
class Links:
    """Mycorrhizal links between neighbouring plants.

    Attributes:
        interval: ticks from one pass of growth to the next.
        cost: energy that each of the two pays.
        between_species: whether plants of different species link.
    """

    interval: Ticks = 8
    cost: Energy = ONE
    between_species: bool = False


@attrs.frozen
class Dispersal:
    """How wind carries seeds: they fly flight_ticks (drop height over terminal velocity) times the wind, in cells."""

    flight_ticks: Annotated[int, Decimal(0, 1000)] = 102_400  # 1.25 / 0.8


@attrs.frozen
class Wind:
    """The wind at the start, everywhere: cells a tick to the east and to the south."""

    east: WindPart = 0
    south: WindPart = 0


@attrs.frozen
class Crowding:
    """What makes swarms wander.

    Attributes:
        carrying_capacity: heads in a cell; where there are more, swarms walk away at random.
        taste_ticks: ticks of random walk after a plant that is not in the diet.
    """

    carrying_capacity: Annotated[int, Whole(1, POPULATION_MAX)] = 500
    taste_ticks: Annotated[int, Whole(0, 1000)] = 2


@attrs.frozen
class Signalling:
    """How substances leave plants and spread.

    Attributes:
        emission: concentration that an active substance of strength 1 gives off in a tick.
        decay: share of a signal that is left after a tick.
        epsilon: concentrations below this become 0.
    """

    emission: Annotated[int, Decimal(0, 1000)] = 6554  # 0.1
    decay: Share = 55_706  # 0.85
    epsilon: Share = 7  # 0.0001


@attrs.frozen
class Trigger:
    """Plants of a species begin a defence when a condition holds.

    Attributes:
        flora, substance: names.
        when: the condition.
    """

    flora: str
    substance: str
    when: Condition


@attrs.frozen
class Player:
    """Somebody who steers one herbivore species.

    Attributes:
        species: its name.
        budget, budget_max, income: what commands are paid from: at the start, at most, and gained a tick.
        spawn_cost, split_cost: of a head that is put down, and of dividing a swarm.
        bias: how much more likely a swarm goes where it is steered.
        sight: cells that a swarm sees, in x and in y.
    """

    species: str
    budget: Energy = 0
    budget_max: Energy = 1000 * ONE
    income: Energy = 0
    spawn_cost: Energy = ONE
    split_cost: Energy = ONE
    bias: Annotated[int, Whole(1, 16)] = 16
    sight: Annotated[int, Whole(0, 64)] = 5


@attrs.frozen
class Termination:
    """What ends a run before its last tick; see termination.py.

    Attributes:
        flora_extinct: plant species of which none may be gone (Z2).
        all_flora: whether it ends without plants (Z3).
        herbivores_extinct: herbivore species of which none may be gone (Z4).
        all_herbivores: whether it ends without swarms (Z5).
        flora_energy_max: energy of all plants (Z6).
        population_max: heads of all swarms (Z7).
    """

    flora_extinct: tuple[str, ...] = ()
    all_flora: bool = True
    herbivores_extinct: tuple[str, ...] = ()
    all_herbivores: bool = False
    flora_energy_max: Annotated[int, Decimal(0, 1 << 40)] | None = None
    population_max: Annotated[int, Whole(0, 1 << 40)] | None = None


@attrs.frozen
class PlantPlacement:
    """One plant at (x, y), or count plants scattered at random; the seed decides where."""

    species: str
    x: Cells | None = None
    y: Cells | None = None
    count: Annotated[int, Whole(1, 1 << 24)] | None = None


@attrs.frozen
class SwarmPlacement:
    """Swarms of population heads: one at (x, y), or count of them scattered at random."""

    species: str
    population: Annotated[int, Whole(1, POPULATION_MAX)]
    x: Cells | None = None
    y: Cells | None = None
    count: Annotated[int, Whole(1, 1 << 20)] | None = None


@attrs.frozen
class MeadowConfig:
    """A whole meadow.

    Attributes:
        diet: diet[herbivore][flora] says who eats what.
    """

    grid: Grid
    flora: tuple[Flora, ...]
    herbivores: tuple[Herbivore, ...] = ()
    diet: tuple[tuple[bool, ...], ...] = ()
    substances: tuple[Substance, ...] = ()
    triggers: tuple[Trigger, ...] = ()
    links: Links = Links()
    dispersal: Dispersal = Dispersal()
    wind: Wind = Wind()
    crowding: Crowding = Crowding()
    signalling: Signalling = Signalling()
    players: tuple[Player, ...] = ()
    termination: Termination = Termination()
    plants: tuple[PlantPlacement, ...] = ()
    swarms: tuple[SwarmPlacement, ...] = ()
    inputs: tuple[ScheduledInput, ...] = ()
    world: str = "meadow"
    name: str = ""
    seed: Annotated[int, Whole(0, (1 << 63) - 1)] = 0  # TOML and JSON readers agree on integers up to here.
    ticks: Ticks = 1000

    def __attrs_post_init__(self) -> None:
        for key in ("flora", "herbivores", "substances"):
            names: list[str] = [species.name for species in getattr(self, key)]
            least, what = (1 if key == "flora" else 0), ("substances" if key == "substances" else "species")
            if not least <= len(names) <= SPECIES_MAX:
                raise ConfigError(key, f"{least} to {SPECIES_MAX} {what} were expected, found {len(names)}")
            if len(set(names)) < len(names):
                raise ConfigError(key, f"two {what} have the same name")
        self._check_diet()
        self._check_triggers()
        self._check_players()
        self._check_placements()
        for key, wanted, find in (
            ("flora_extinct", self.termination.flora_extinct, self.flora_index),
            ("herbivores_extinct", self.termination.herbivores_extinct, self.herbivore_index),
        ):
            for index, name in enumerate(wanted):
                find(name, f"termination.{key}[{index}]")

    def _check_diet(self) -> None:
        rows, columns = len(self.herbivores), len(self.flora)
        if len(self.diet) != rows or any(len(row) != columns for row in self.diet):
            shape = " and ".join(str(len(row)) for row in self.diet) or "no"
            raise ConfigError(
                "diet",
                f"{rows} rows (herbivores) of {columns} values (flora) were expected, found {len(self.diet)} rows of {shape} values",
            )

    def _check_triggers(self) -> None:
        if len(self.triggers) > RULES_MAX:
            raise ConfigError("triggers", f"at most {RULES_MAX} were expected, found {len(self.triggers)}")
        for index, trigger in enumerate(self.triggers):
            place = f"triggers[{index}]"
            self.flora_index(trigger.flora, f"{place}.flora")
            self.substance_index(trigger.substance, f"{place}.substance")
            if trigger.when.depth > DEPTH_MAX:
                raise ConfigError(f"{place}.when", f"at most {DEPTH_MAX} levels were expected")
            self._check_condition(trigger.when, f"{place}.when")

    def _check_condition(self, condition: Condition, place: str) -> None:
        if condition.herbivore is not None:
            self.herbivore_index(condition.herbivore, f"{place}.herbivore")
        if condition.substance is not None:
            self.substance_index(condition.substance, f"{place}.substance")
        if condition.signal is not None:
            names = [substance.name for substance in self.substances if substance.kind == "signal"]
            _index_of(condition.signal, names, f"{place}.signal", "signal")
        for index, part in enumerate(condition.parts):
            self._check_condition(part, f"{place}.{condition.kind}" + ("" if condition.kind == "not" else f"[{index}]"))

    def _check_players(self) -> None:
        found: set[str] = set()
        for index, player in enumerate(self.players):
            self.herbivore_index(player.species, f"players[{index}].species")
            if player.species in found:
                raise ConfigError(f"players[{index}].species", f"{player.species} has a player already")
            if player.budget > player.budget_max:
                raise ConfigError(f"players[{index}].budget", "at most budget_max was expected")
            found.add(player.species)

    def _check_placements(self) -> None:
        for key, find in (("plants", self.flora_index), ("swarms", self.herbivore_index)):
            for index, one in enumerate(getattr(self, key)):
                place = f"{key}[{index}]"
                find(one.species, f"{place}.species")
                if (one.count is None) == (one.x is None) or (one.x is None) != (one.y is None):
                    raise ConfigError(place, "either x and y or count was expected")
                self._check_cell(one.x, one.y, place)
        for index, item in enumerate(self.inputs):
            place = f"inputs[{index}]"
            if "species" in INPUT_KEYS[item.kind]:
                find = self.flora_index if item.kind == "plant" else self.herbivore_index
                find(str(item.species), f"{place}.species")
            self._check_cell(item.x, item.y, place)

    def _check_cell(self, x: int | None, y: int | None, place: str) -> None:
        for key, value, size in (("x", x, self.grid.width), ("y", y, self.grid.height)):
            if value is not None and value >= size:
                raise ConfigError(f"{place}.{key}", f"a whole number from 0 to {size - 1} was expected, found {value}")

    def flora_index(self, name: str, place: str = "species") -> int:
        """The number of the plant species called name. Raises ConfigError."""
        return _index_of(name, [species.name for species in self.flora], place, "species")

    def herbivore_index(self, name: str, place: str = "species") -> int:
        """The number of the herbivore species called name. Raises ConfigError."""
        return _index_of(name, [species.name for species in self.herbivores], place, "species")

    def substance_index(self, name: str, place: str = "substance") -> int:
        """The number of the substance called name. Raises ConfigError."""
        return _index_of(name, [substance.name for substance in self.substances], place, "substance")

    def player_of(self, species: str) -> Player:
        """The player of the herbivore species called so. Raises ConfigError if it has none."""
        for player in self.players:
            if player.species == species:
                return player
        names = ", ".join(player.species for player in self.players) or "none"
        raise ConfigError("players", f"{species} has no player in this scenario; players: {names}")

    @property
    def layers(self) -> tuple[int, ...]:
        """For each substance, which of the layers of its kind is its own."""
        kinds = [substance.kind for substance in self.substances]
        return tuple(kinds[:index].count(kind) for index, kind in enumerate(kinds))


def _index_of(name: str, names: Sequence[str], place: str, what: str) -> int:
    if name not in names:
        raise ConfigError(place, f"one of {', '.join(names) or f'no {what}'} was expected, found {name!r}")
    return names.index(name)


def read_config(plain: Mapping[str, Any]) -> MeadowConfig:
    """The configuration in plain data, as TOML gives it. Raises ConfigError for the first mistake."""
    return structure(plain, MeadowConfig)
