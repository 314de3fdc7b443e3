"""The configuration of a meadow: sizes, species, placements, defences, players, bounds; checked, in fixed point.

Energies, rates and concentrations are decimals in a scenario. Here they are integers in 1/65536 units (fixed_point.py).
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import attrs

from sim.kernel.arithmetic.fixed_point import ONE
from sim.kernel.plain_data import decode_plain, encode_plain
from sim.kernel.registry import ConfigError
from sim.scenario.config.structure import Decimal, Whole, structure
from sim.worlds.meadow.config.conditions import DEPTH_MAX, Condition
from sim.worlds.meadow.config.inputs import INPUT_KEYS, ScheduledInput
from sim.worlds.meadow.config.species import POPULATION_MAX, TICKS_MAX, Energy, Flora, Herbivore, Share, Substance

SPECIES_MAX = 16  # Of flora, of herbivores and of substances each.
SIDE_CELLS_MAX = 4096
WIND_MAX = 64  # Cells a tick; far more than any meadow needs.
RULES_MAX = 256  # Every rule is evaluated for every plant of its species in every tick.
CONFIGS_KEPT = 64  # Frozen, and small next to one state: of many runs, each has its own seed.

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
        interval: ticks from one pass of link growth to the next.
        cost: energy that each of the two plants pays.
        between_species: plants of different species link, too.
    """

    interval: Ticks = 8
    cost: Energy = ONE
    between_species: bool = False


@attrs.frozen
class Dispersal:
    """Seeds carried by wind: they fly flight_ticks (drop height over terminal velocity) times the wind, in cells."""

    flight_ticks: Annotated[int, Decimal(0, 1000)] = 102_400  # 1.25 / 0.8


@attrs.frozen
class Wind:
    """The wind at the start, everywhere: cells a tick to the east and to the south."""

    east: WindPart = 0
    south: WindPart = 0


@attrs.frozen
class Crowding:
    """Causes of random walks of swarms.

    Attributes:
        carrying_capacity: heads in a cell; above this, swarms walk away at random.
        taste_ticks: ticks of random walk after a plant that is not in the diet.
    """

    carrying_capacity: Annotated[int, Whole(1, POPULATION_MAX)] = 500
    taste_ticks: Annotated[int, Whole(0, 1000)] = 2


@attrs.frozen
class Signalling:
    """Emission and spread of substances.

    Attributes:
        emission: concentration that an active substance of strength 1 gives off in a tick.
        decay: share of a signal that remains after a tick.
        epsilon: concentrations below this become 0.
    """

    emission: Annotated[int, Decimal(0, 1000)] = 6554  # 0.1
    decay: Share = 55_706  # 0.85
    epsilon: Share = 7  # 0.0001


@attrs.frozen
class Trigger:
    """Plants of a species begin a defence when a condition holds.

    Attributes:
        flora, substance: names of the plant species and of the substance.
        when: the condition.
    """

    flora: str
    substance: str
    when: Condition


@attrs.frozen
class Player:
    """A player who steers one herbivore species.

    Attributes:
        species: the name of the species.
        budget, budget_max, income: the energy that commands cost: at the start, at most, and gained per tick.
        spawn_cost, split_cost: the price of each spawned head, and of dividing a swarm.
        bias: the factor on the weight of the cell towards which a swarm is steered.
        sight: the distance in cells that a swarm sees, in x and in y.
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
    """Conditions that end a run before its last tick; see termination.py.

    Attributes:
        flora_extinct: plant species; the run ends if one of them is extinct (Z2).
        all_flora: end the run when no plant is left (Z3).
        herbivores_extinct: herbivore species; the run ends if one of them is extinct (Z4).
        all_herbivores: end the run when no swarm is left (Z5).
        flora_energy_max: end the run when all plants together have more energy than this (Z6).
        population_max: end the run when all swarms together have more heads than this (Z7).
    """

    flora_extinct: tuple[str, ...] = ()
    all_flora: bool = True
    herbivores_extinct: tuple[str, ...] = ()
    all_herbivores: bool = False
    flora_energy_max: Annotated[int, Decimal(0, 1 << 40)] | None = None
    population_max: Annotated[int, Whole(0, 1 << 40)] | None = None


@attrs.frozen
class PlantPlacement:
    """One plant at (x, y), or ``count`` plants scattered at random by the seed."""

    species: str
    x: Cells | None = None
    y: Cells | None = None
    count: Annotated[int, Whole(1, 1 << 24)] | None = None


@attrs.frozen
class SwarmPlacement:
    """Swarms of ``population`` heads: one at (x, y), or ``count`` swarms scattered at random."""

    species: str
    population: Annotated[int, Whole(1, POPULATION_MAX)]
    x: Cells | None = None
    y: Cells | None = None
    count: Annotated[int, Whole(1, 1 << 20)] | None = None


@attrs.frozen
class MeadowConfig:
    """The configuration of one meadow.

    Attributes:
        diet: diet[herbivore][flora] is true if the herbivore eats the plant.
        ids: how new plants and swarms get their ids, see births.py. Counted ones depend on all births before.
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
    ids: Literal["counted", "births"] = "counted"
    world: str = "meadow"
    name: str = ""
    seed: Annotated[int, Whole(0, (1 << 63) - 1)] = 0  # TOML and JSON readers agree on integers up to here.
    ticks: Ticks = 1000

    def __attrs_post_init__(self) -> None:
        for key in ("flora", "herbivores", "substances"):
            names: list[str] = [species.name for species in getattr(self, key)]
            least, noun = (1 if key == "flora" else 0), ("substances" if key == "substances" else "species")
            if not least <= len(names) <= SPECIES_MAX:
                raise ConfigError(key, f"expected {least} to {SPECIES_MAX} {noun}, got {len(names)}")
            if len(set(names)) < len(names):
                raise ConfigError(key, f"two {noun} have the same name")
        self._check_diet()
        self._check_triggers()
        self._check_players()
        self._check_placements()
        for key, species_names, find in (
            ("flora_extinct", self.termination.flora_extinct, self.flora_index),
            ("herbivores_extinct", self.termination.herbivores_extinct, self.herbivore_index),
        ):
            for index, name in enumerate(species_names):
                find(name, f"termination.{key}[{index}]")

    def _check_diet(self) -> None:
        rows, columns = len(self.herbivores), len(self.flora)
        if len(self.diet) != rows or any(len(row) != columns for row in self.diet):
            shape = " and ".join(str(len(row)) for row in self.diet) or "no"
            raise ConfigError(
                "diet",
                f"expected {rows} rows (herbivores) of {columns} values (flora), got {len(self.diet)} rows of {shape} values",
            )

    def _check_triggers(self) -> None:
        if len(self.triggers) > RULES_MAX:
            raise ConfigError("triggers", f"expected at most {RULES_MAX} triggers, got {len(self.triggers)}")
        for index, trigger in enumerate(self.triggers):
            key_path = f"triggers[{index}]"
            self.flora_index(trigger.flora, f"{key_path}.flora")
            self.substance_index(trigger.substance, f"{key_path}.substance")
            if trigger.when.depth > DEPTH_MAX:
                raise ConfigError(f"{key_path}.when", f"expected at most {DEPTH_MAX} levels, got {trigger.when.depth}")
            self._check_condition(trigger.when, f"{key_path}.when")

    def _check_condition(self, condition: Condition, key_path: str) -> None:
        if condition.herbivore is not None:
            self.herbivore_index(condition.herbivore, f"{key_path}.herbivore")
        if condition.substance is not None:
            self.substance_index(condition.substance, f"{key_path}.substance")
        if condition.signal is not None:
            names = [substance.name for substance in self.substances if substance.kind == "signal"]
            _index_of(condition.signal, names, f"{key_path}.signal", "signal")
        for index, child in enumerate(condition.children):
            self._check_condition(
                child, f"{key_path}.{condition.kind}" + ("" if condition.kind == "not" else f"[{index}]")
            )

    def _check_players(self) -> None:
        species: set[str] = set()
        for index, player in enumerate(self.players):
            self.herbivore_index(player.species, f"players[{index}].species")
            if player.species in species:
                raise ConfigError(f"players[{index}].species", f"{player.species} has a player already")
            if player.budget > player.budget_max:
                raise ConfigError(f"players[{index}].budget", "expected at most budget_max")
            species.add(player.species)

    def _check_placements(self) -> None:
        for key, find in (("plants", self.flora_index), ("swarms", self.herbivore_index)):
            for index, placement in enumerate(getattr(self, key)):
                key_path = f"{key}[{index}]"
                find(placement.species, f"{key_path}.species")
                if (placement.count is None) == (placement.x is None) or (placement.x is None) != (placement.y is None):
                    raise ConfigError(key_path, "expected either x and y, or count")
                self._check_cell(placement.x, placement.y, key_path)
        for index, item in enumerate(self.inputs):
            key_path = f"inputs[{index}]"
            if "species" in INPUT_KEYS[item.kind]:
                find = self.flora_index if item.kind == "plant" else self.herbivore_index
                find(str(item.species), f"{key_path}.species")
            self._check_cell(item.x, item.y, key_path)

    def _check_cell(self, x: int | None, y: int | None, key_path: str) -> None:
        for key, value, size in (("x", x, self.grid.width), ("y", y, self.grid.height)):
            if value is not None and value >= size:
                raise ConfigError(f"{key_path}.{key}", f"expected a whole number from 0 to {size - 1}, got {value}")

    def flora_index(self, name: str, key_path: str = "species") -> int:
        """Return the index of the plant species with this name. Raises ConfigError if there is none."""
        return _index_of(name, [species.name for species in self.flora], key_path, "species")

    def herbivore_index(self, name: str, key_path: str = "species") -> int:
        """Return the index of the herbivore species with this name. Raises ConfigError if there is none."""
        return _index_of(name, [species.name for species in self.herbivores], key_path, "species")

    def substance_index(self, name: str, key_path: str = "substance") -> int:
        """Return the index of the substance with this name. Raises ConfigError if there is none."""
        return _index_of(name, [substance.name for substance in self.substances], key_path, "substance")

    def player_of(self, species: str) -> Player:
        """Return the player of a herbivore species. Raises ConfigError if it has none."""
        for player in self.players:
            if player.species == species:
                return player
        names = ", ".join(player.species for player in self.players) or "none"
        raise ConfigError("players", f"{species} has no player in this scenario; players: {names}")

    @property
    def layers(self) -> tuple[int, ...]:
        """The index of each substance's layer among the layers of its kind."""
        kinds = [substance.kind for substance in self.substances]
        return tuple(kinds[:index].count(kind) for index, kind in enumerate(kinds))


PARAMETERS = tuple(field.name for field in attrs.fields(MeadowConfig))


def _index_of(name: str, names: Sequence[str], key_path: str, noun: str) -> int:
    if name not in names:
        raise ConfigError(key_path, f"expected one of {', '.join(names) or f'no {noun}'}, got {name!r}")
    return names.index(name)


def read_config(plain: Mapping[str, Any]) -> MeadowConfig:
    """Read a configuration from plain data, such as parsed TOML. Raises ConfigError for the first mistake."""
    try:
        encoded = encode_plain(plain)
    except (TypeError, ValueError, OverflowError):
        return structure(plain, MeadowConfig)  # It tells which value cannot be in a configuration.
    return _read(encoded)


@functools.lru_cache(maxsize=CONFIGS_KEPT)
def _read(encoded: bytes) -> MeadowConfig:
    """A configuration from encoded plain data. Each observation and each action of a player asks for that of its run."""
    return structure(decode_plain(encoded), MeadowConfig)
