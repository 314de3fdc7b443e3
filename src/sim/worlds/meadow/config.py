"""What a meadow is made of: species, sizes, placements and the inputs that its scenario sends; checked, in fixed point.

Energies and rates are decimals in a scenario and 1/65536 units (fixed_point.py) here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import attrs

from sim.kernel.registry import ConfigError
from sim.scenario.structure import Decimal, Whole, structure

SPECIES_MAX = 16  # Of flora and of herbivores each.
SIDE_CELLS_MAX = 4096
ENERGY_MAX = 1_000_000  # Times 65,536 and a million heads this stays far below 2**63.
POPULATION_MAX = 1_000_000
TICKS_MAX = 1 << 40  # What the random numbers' keys can count.

Energy = Annotated[int, Decimal(0, ENERGY_MAX)]
Cells = Annotated[int, Whole(0, SIDE_CELLS_MAX - 1)]


@attrs.frozen
class Grid:
    """Size of the meadow in cells; x runs along rows of memory, y down them."""

    width: Annotated[int, Whole(1, SIDE_CELLS_MAX)]
    height: Annotated[int, Whole(1, SIDE_CELLS_MAX)]


@attrs.frozen
class Flora:
    """A plant species.

    Attributes:
        name: for summaries and for placements.
        base_energy: of a seedling, and what growth is a percentage of.
        max_energy: growth stops here.
        growth_percent: of base_energy, gained a tick.
        survival_threshold: a plant with less energy dies.
        reproduction_interval: ticks from a birth, or from a success, to the next attempt.
        seed_distance_min, seed_distance_max: in cells, both included.
        seed_cost: energy that a successful reproduction takes from the parent.
    """

    name: str
    base_energy: Energy
    max_energy: Energy
    growth_percent: Annotated[int, Decimal(0, 1000)]
    survival_threshold: Energy
    reproduction_interval: Annotated[int, Whole(1, TICKS_MAX)]
    seed_cost: Energy
    seed_distance_min: Annotated[int, Whole(1, 64)] = 1
    seed_distance_max: Annotated[int, Whole(1, 64)] = 3

    def __attrs_post_init__(self) -> None:
        if self.seed_distance_min > self.seed_distance_max:
            raise ConfigError("seed_distance_min", "at most seed_distance_max was expected")
        if not self.survival_threshold <= self.base_energy <= self.max_energy:
            raise ConfigError("base_energy", "a value from survival_threshold to max_energy was expected")


@attrs.frozen
class Herbivore:
    """A herbivore species.

    Attributes:
        name: for summaries and for placements.
        consumption_rate: energy that one head eats in a tick at velocity 1.
        upkeep: energy that one head uses in a tick.
        energy_min: energy that one head holds at least; what is above can become offspring.
        velocity: ticks from one move to the next.
        reproduction_divisor: a new head costs energy_min times this.
        split_population: a swarm of so many divides.
    """

    name: str
    consumption_rate: Energy
    upkeep: Energy
    energy_min: Annotated[int, Decimal(1, ENERGY_MAX)]
    velocity: Annotated[int, Whole(1, 1000)] = 1
    reproduction_divisor: Annotated[int, Decimal(1, 1000)] = 1 << 16
    split_population: Annotated[int, Whole(2, POPULATION_MAX)] = 100


@attrs.frozen
class Links:
    """Mycorrhizal links between neighbouring plants.

    Attributes:
        interval: ticks from one pass of growth to the next.
        cost: energy that each of the two pays.
        between_species: whether plants of different species link.
    """

    interval: Annotated[int, Whole(1, TICKS_MAX)] = 8
    cost: Energy = 1 << 16
    between_species: bool = False


@attrs.frozen
class Dispersal:
    """How wind carries seeds: they fly flight_ticks (drop height over terminal velocity) times the wind, in cells."""

    flight_ticks: Annotated[int, Decimal(0, 1000)] = 102_400  # 1.25 / 0.8


@attrs.frozen
class PlantPlacement:
    """One plant at (x, y), or count plants scattered at random; the seed decides where."""

    species: str
    x: Cells | None = None
    y: Cells | None = None
    count: Annotated[int, Whole(1, 1 << 24)] | None = None


@attrs.frozen
class SwarmPlacement:
    """One swarm of population heads at (x, y)."""

    species: str
    x: Cells
    y: Cells
    population: Annotated[int, Whole(1, POPULATION_MAX)]


@attrs.frozen
class ScheduledInput:
    """An input that the scenario sends at a tick and, with every, again and again until a tick.

    Attributes:
        kind: plant, release, wind or drought; the other keys are those of the kind (see orders.py).
        tick: of the first time.
        every, until: ticks between repetitions, and the last tick at which there may be one.
    """

    kind: str
    tick: Annotated[int, Whole(1, TICKS_MAX)]
    every: Annotated[int, Whole(1, TICKS_MAX)] | None = None
    until: Annotated[int, Whole(1, TICKS_MAX)] | None = None
    species: str | None = None
    x: Cells | None = None
    y: Cells | None = None
    population: Annotated[int, Whole(1, POPULATION_MAX)] | None = None
    east: Annotated[int, Decimal(-64, 64)] | None = None
    south: Annotated[int, Decimal(-64, 64)] | None = None
    ticks: Annotated[int, Whole(0, TICKS_MAX)] | None = None
    percent: Annotated[int, Whole(0, 200)] | None = None

    def __attrs_post_init__(self) -> None:
        if self.kind not in INPUT_KEYS:
            raise ConfigError("kind", f"one of {', '.join(INPUT_KEYS)} was expected, found {self.kind!r}")
        wanted = set(INPUT_KEYS[self.kind])
        for field in attrs.fields(ScheduledInput)[4:]:
            given = getattr(self, field.name) is not None
            if given != (field.name in wanted):
                problem = "there is no such key for" if given else "this key is missing for"
                raise ConfigError(field.name, f"{problem} an input of kind {self.kind}")


INPUT_KEYS = {  # The keys of each kind of input, in the order that sorts inputs canonically.
    "plant": ("species", "x", "y"),
    "release": ("species", "x", "y", "population"),
    "wind": ("east", "south"),
    "drought": ("ticks", "percent"),
}


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
    links: Links = Links()
    dispersal: Dispersal = Dispersal()
    plants: tuple[PlantPlacement, ...] = ()
    swarms: tuple[SwarmPlacement, ...] = ()
    inputs: tuple[ScheduledInput, ...] = ()
    world: str = "meadow"
    name: str = ""
    seed: Annotated[int, Whole(0, (1 << 63) - 1)] = 0  # TOML and JSON readers agree on integers up to here.
    ticks: Annotated[int, Whole(1, TICKS_MAX)] = 1000

    def __attrs_post_init__(self) -> None:
        for key in ("flora", "herbivores"):
            names = [species.name for species in getattr(self, key)]
            least = 1 if key == "flora" else 0
            if not least <= len(names) <= SPECIES_MAX:
                raise ConfigError(key, f"{least} to {SPECIES_MAX} species were expected, found {len(names)}")
            if len(set(names)) < len(names):
                raise ConfigError(key, "two species have the same name")
        rows, columns = len(self.herbivores), len(self.flora)
        if len(self.diet) != rows or any(len(row) != columns for row in self.diet):
            shape = " and ".join(str(len(row)) for row in self.diet) or "no"
            raise ConfigError(
                "diet",
                f"{rows} rows (herbivores) of {columns} values (flora) were expected, found {len(self.diet)} rows of {shape} values",
            )
        self._check_placements()

    def _check_placements(self) -> None:
        for index, plant in enumerate(self.plants):
            place = f"plants[{index}]"
            self.flora_index(plant.species, f"{place}.species")
            if (plant.count is None) == (plant.x is None) or (plant.x is None) != (plant.y is None):
                raise ConfigError(place, "either x and y or count was expected")
            self._check_cell(plant.x, plant.y, place)
        for index, swarm in enumerate(self.swarms):
            self.herbivore_index(swarm.species, f"swarms[{index}].species")
            self._check_cell(swarm.x, swarm.y, f"swarms[{index}]")
        for index, item in enumerate(self.inputs):
            place = f"inputs[{index}]"
            if item.kind in ("plant", "release"):
                find = self.flora_index if item.kind == "plant" else self.herbivore_index
                find(str(item.species), f"{place}.species")
                self._check_cell(item.x, item.y, place)

    def _check_cell(self, x: int | None, y: int | None, place: str) -> None:
        for key, value, size in (("x", x, self.grid.width), ("y", y, self.grid.height)):
            if value is not None and value >= size:
                raise ConfigError(f"{place}.{key}", f"a whole number from 0 to {size - 1} was expected, found {value}")

    def flora_index(self, name: str, place: str = "species") -> int:
        """The number of the plant species called name. Raises ConfigError."""
        return _index_of(name, [species.name for species in self.flora], place)

    def herbivore_index(self, name: str, place: str = "species") -> int:
        """The number of the herbivore species called name. Raises ConfigError."""
        return _index_of(name, [species.name for species in self.herbivores], place)


def _index_of(name: str, names: list[str], place: str) -> int:
    if name not in names:
        raise ConfigError(place, f"one of {', '.join(names) or 'no species'} was expected, found {name!r}")
    return names.index(name)


def read_config(plain: Mapping[str, Any]) -> MeadowConfig:
    """The configuration in plain data, as TOML gives it. Raises ConfigError for the first mistake."""
    return structure(plain, MeadowConfig)
