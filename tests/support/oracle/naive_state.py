"""The state of a naive meadow: entities in rows, layers as nested lists, random words, and the state at tick 0.

Written from docs/meadow-rules.md alone. It uses only the configuration, the schema and the enums of the fast code.
"""

from __future__ import annotations

from typing import Any

from sim import Table
from sim.worlds.meadow.config.meadow import MeadowConfig
from sim.worlds.meadow.model.layout import DrawPhase, HeadLoss, LossCause, make_schema

from sim_strategies import philox_block

ONE = 65_536
FIVE_CELLS = ((0, 0), (1, 0), (0, 1), (-1, 0), (0, -1))  # Here, east, south, west, north.
DIRECTIONS = FIVE_CELLS[1:]
SCATTERED_SWARMS_BLOCK = 16  # Blocks below it are those of scattered plants.

Entity = dict[str, Any]
Grid = list[list[int]]


def pick(word: int, count: int) -> int:
    """Return a number from 0 to count - 1."""
    return word * count // 2**32


def draw(word: int, weights: list[int]) -> int:
    """Return the index of one of the weights."""
    mark = word * sum(weights) // 2**32
    index = 0
    while mark >= sum(weights[: index + 1]):
        index += 1
    return index


class NaiveState:
    """Entities are dicts with the columns of their table as keys, in lists of rows; a free row is None.

    The world's own numbers have the names of the rules; coordinates are [y][x] everywhere.
    """

    def __init__(self, config: MeadowConfig) -> None:
        self.config = config
        self.width, self.height = config.grid.width, config.grid.height
        self.tick = 0
        self.rows: dict[str, list[Entity | None]] = {"plants": [], "swarms": [], "substances": []}
        self.next_id = {"plants": 1, "swarms": 1, "substances": 1}
        self.birth_id: int | None = None  # Of the input that is taken now, where ids come from births.
        self.daughters: list[Entity] = []  # Born in this tick's interaction: they take room but have no rows yet.
        self.births = [0 for _ in config.flora]
        self.deaths = [[0 for _ in LossCause] for _ in config.flora]
        self.defence_cost = [0 for _ in config.flora]
        self.heads_born = [0 for _ in config.herbivores]
        self.heads_lost = [[0 for _ in HeadLoss] for _ in config.herbivores]
        self.parameters = {
            "growth": 100 * ONE,
            "link_interval": config.links.interval,
            "link_cost": config.links.cost,
            "carrying_capacity": config.crowding.carrying_capacity,
            "emission": config.signalling.emission,
            "signal_decay": config.signalling.decay,
        }
        self.players = {config.herbivore_index(player.species): player for player in config.players}
        self.budget = [self.players[i].budget if i in self.players else 0 for i in range(len(config.herbivores))]
        self.drought_ticks = self.drought_percent = 0
        self.front = 0
        self.energy = [[self.grid() for _ in config.flora] for _ in range(2)]
        self.total = [self.grid() for _ in range(2)]
        self.flow = self.grid()
        self.signals = [self.grid() for substance in config.substances if substance.kind == "signal"]
        self.toxins = [self.grid() for substance in config.substances if substance.kind == "toxin"]
        self.wind = [self.grid(config.wind.east), self.grid(config.wind.south)]
        self.last_seen = [self.grid(-1) for _ in self.players]
        self.seen_plants, self.seen_food, self.seen_others = ([self.grid() for _ in self.players] for _ in range(3))
        self._place_plants()
        self._place_swarms()
        for plant in self.living("plants"):
            self.write_energy(plant)
        self.rebuild()

    # --- places and random words

    def grid(self, value: int = 0) -> Grid:
        """Return a new layer with one value everywhere."""
        return [[value for _ in range(self.width)] for _ in range(self.height)]

    def inside(self, x: int, y: int) -> bool:
        """Return True if the cell is inside the meadow."""
        return 0 <= x < self.width and 0 <= y < self.height

    def cells(self) -> list[tuple[int, int]]:
        """Return all (x, y), in the order of y * width + x."""
        return [(x, y) for y in range(self.height) for x in range(self.width)]

    def five_cells(self, x: int, y: int) -> list[tuple[int, int]]:
        """Return the cell and its neighbours inside the meadow."""
        return [(x + dx, y + dy) for dx, dy in FIVE_CELLS if self.inside(x + dx, y + dy)]

    def word(self, phase: DrawPhase, entity: int, number: int, block: int = 0) -> int:
        """Return the random word of this tick with this number, 0 to 3."""
        low = 2**32
        counter = (block, entity % low, self.tick % low, phase * 2**24 + self.tick // low * 2**16 + entity // low)
        return philox_block(counter, (self.config.seed % low, self.config.seed // low))[number]

    # --- entities

    def living(self, table: str) -> list[Entity]:
        """Return all living entities of a table, in the order of their ids."""
        return sorted((row for row in self.rows[table] if row is not None), key=lambda row: int(row["id"]))

    def find(self, table: str, entity_id: int) -> Entity | None:
        """Return the entity with this id, or None."""
        return next((row for row in self.rows[table] if row is not None and row["id"] == entity_id), None)

    def plant_at(self, x: int, y: int) -> Entity | None:
        """Return the plant in a cell, or None."""
        return next((row for row in self.rows["plants"] if row is not None and (row["x"], row["y"]) == (x, y)), None)

    def heads_at(self, x: int, y: int, species: int | None = None) -> int:
        """Count the heads in a cell, of one species or of all, including daughters of this tick."""
        heads = 0
        for swarm in self.rows["swarms"] + self.daughters:
            if swarm is not None and (swarm["x"], swarm["y"]) == (x, y) and species in {None, swarm["species"]}:
                heads += swarm["population"]
        return heads

    def ids_of_births(self, way: int, keys: list[int]) -> list[int]:
        """Return the ids that births have where ids come from them; way: 1 an input, 2 a split, 3 any other."""
        numbers: list[int] = []
        for key in keys:
            number = self.word(DrawPhase.BIRTH, key, 0, way) // 2**10
            while number in numbers:
                number = (number + 1) % 2**22
            numbers.append(number)
        return [self.tick * 2**24 + way * 2**22 + number for number in numbers]

    def enter(self, table: str, entity: Entity, birth_id: int | None = None) -> Entity:
        """Give an entity an id and the lowest free row. birth_id: for where ids come from births."""
        is_counted = self.config.ids == "counted" or birth_id is None
        entity["id"] = self.next_id[table] if is_counted else birth_id
        self.next_id[table] += 1
        rows = self.rows[table]
        if None not in rows:
            rows.append(None)
        rows[rows.index(None)] = entity
        return entity

    def leave(self, table: str, entity: Entity) -> None:
        """Free an entity's row."""
        rows = self.rows[table]
        rows[next(number for number, row in enumerate(rows) if row is entity)] = None

    def add_plant(self, species: int, x: int, y: int, birth_id: int | None = None) -> Entity:
        """Add a plant, which counts as a birth after tick 0."""
        if self.tick > 0:
            self.births[species] += 1
        plant = {"species": species, "x": x, "y": y, "energy": self.config.flora[species].base_energy}
        plant |= {"loss_cause": 0, "last_reproduction": self.tick, "links": [0, 0, 0, 0]}
        return self.enter("plants", plant, birth_id)

    def add_swarm(self, species: int, x: int, y: int, population: int, birth_id: int | None = None) -> Entity:
        """Add a swarm with energy_min for each head."""
        energy = self.config.herbivores[species].energy_min * population
        return self.enter("swarms", new_swarm(species, x, y, population, energy), birth_id)

    # --- layers of energy

    def write_energy(self, plant: Entity) -> None:
        """Write a plant's energy to the back."""
        self.energy[1 - self.front][plant["species"]][plant["y"]][plant["x"]] = max(0, plant["energy"])

    def rebuild(self) -> None:
        """Make the written values visible; the new back starts as a copy of the new front."""
        self.front = 1 - self.front
        layers = self.energy[self.front]
        for x, y in self.cells():
            self.total[self.front][y][x] = sum(layer[y][x] for layer in layers)
        self.energy[1 - self.front] = [[list(line) for line in layer] for layer in layers]
        self.total[1 - self.front] = [list(line) for line in self.total[self.front]]

    # --- tick 0

    def _place_plants(self) -> None:
        placed = [(self.config.flora_index(one.species), one) for one in self.config.plants]
        for species, y, x in sorted((number, one.y or 0, one.x or 0) for number, one in placed if one.count is None):
            if self.plant_at(x, y) is None:
                self.add_plant(species, x, y)
        for species in range(len(self.config.flora)):
            count = sum(one.count or 0 for number, one in placed if number == species)
            free = [number for number, (x, y) in enumerate(self.cells()) if self.plant_at(x, y) is None]
            order = sorted((self.word(DrawPhase.PLACEMENT, number, 0, species), number) for number in free)
            for number in sorted(number for _, number in order[:count]):
                self.add_plant(species, *self.cells()[number])

    def _place_swarms(self) -> None:
        cells = self.cells()
        placed = [(self.config.herbivore_index(one.species), one) for one in self.config.swarms]
        found = [(number, one.y or 0, one.x or 0, one.population) for number, one in placed if one.count is None]
        for species in range(len(self.config.herbivores)):
            block = SCATTERED_SWARMS_BLOCK + species
            order = sorted((self.word(DrawPhase.PLACEMENT, number, 0, block), number) for number in range(len(cells)))
            scattered = [(one.population, one.count) for number, one in placed if number == species and one.count]
            populations = [population for population, count in sorted(scattered) for _ in range(count)]
            for k, population in enumerate(populations):
                x, y = cells[order[k % len(cells)][1]]
                found.append((species, y, x, population))
        for species, y, x, population in sorted(found):
            self.add_swarm(species, x, y, population)

    # --- the fields of the state

    def fields(self) -> dict[str, Any]:
        """Return every field of the schema by name, as a number or nested lists in the shape of the field."""
        values: dict[str, Any] = {
            "tick": self.tick,
            "seed": self.config.seed,
            "next_plant_id": self.next_id["plants"],
            "next_swarm_id": self.next_id["swarms"],
            "next_substance_id": self.next_id["substances"],
            "births": self.births,
            "deaths": self.deaths,
            "defence_cost": self.defence_cost,
            "heads_born": self.heads_born,
            "heads_lost": self.heads_lost,
            "parameters": list(self.parameters.values()),
            "player_budget": self.budget,
            "climate.drought_ticks": self.drought_ticks,
            "climate.drought_percent": self.drought_percent,
            "biotope.front": self.front,
            "biotope.energy": self.energy,
            "biotope.total": self.total,
            "biotope.occupant": self._occupants(),
            "biotope.flow": self.flow,
            "biotope.signals": self.signals,
            "biotope.toxins": self.toxins,
            "biotope.wind": self.wind,
        }
        if self.players:
            values |= {"sight.last_seen": self.last_seen, "sight.plants": self.seen_plants}
            values |= {"sight.food": self.seen_food, "sight.others": self.seen_others}
        for entry in make_schema(self.config).entries:
            if isinstance(entry, Table):
                for column in entry.columns:
                    zero = [0] * column.shape[0] if column.shape else 0
                    column_values = [zero if row is None else row[column.name] for row in self.rows[entry.name]]
                    values[f"{entry.name}.{column.name}"] = column_values
        return values

    def _occupants(self) -> Grid:
        occupants = self.grid()
        for number, plant in enumerate(self.rows["plants"]):
            if plant is not None:
                occupants[plant["y"]][plant["x"]] = number + 1
        return occupants


def new_swarm(species: int, x: int, y: int, population: int, energy: int) -> Entity:
    """Make a new swarm without an id."""
    return {
        "species": species,
        "x": x,
        "y": y,
        "population": population,
        "energy": energy,
        "cooldown": 0,
        "repelled": 0,
        "steer": 0,
        "initial_population": population,
    }
