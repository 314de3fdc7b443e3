"""A second meadow in plain Python, plant by plant and swarm by swarm, must agree with the first at every tick."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from sim.worlds.meadow import Meadow
from sim.worlds.meadow.config import MeadowConfig, read_config

from sim_strategies import meadow_inputs, meadows, philox_block

BACKGROUND, REPRODUCTION, LINK, FEEDING = 0, 1, 2, 4
DISPERSAL, MOVEMENT, MITOSIS = 1, 2, 3
FIVE_CELLS = ((0, 0), (1, 0), (0, 1), (-1, 0), (0, -1))


class Naive:
    """Entities are dicts by id; written from the docstrings, sharing only the configuration with the real one."""

    def __init__(self, config: MeadowConfig, state: Any) -> None:
        """Start from the entities of a real state at tick 0."""
        self.config = config
        self.tick = self.drought_ticks = self.drought_percent = 0
        self.wind = (0, 0)
        self.births = [0] * len(config.flora)
        self.deaths = [[0] * 5 for _ in config.flora]
        self.plants: dict[int, dict[str, Any]] = {}
        self.swarms: dict[int, dict[str, Any]] = {}
        real = entities(state)
        for plant_id, (species, x, y, energy, *_) in sorted(real["plants"].items()):
            self.plant(species, x, y, energy)
            assert plant_id in self.plants
        for swarm_id, (species, x, y, population, energy, _) in sorted(real["swarms"].items()):
            self.swarm(species, x, y, population, energy)
            assert swarm_id in self.swarms
        self.births = [0] * len(config.flora)
        self.rebuild()

    def plant(self, species: int, x: int, y: int, energy: int) -> int:
        new_id = getattr(self, "next_plant", 1)
        self.next_plant = new_id + 1
        self.plants[new_id] = {
            "species": species, "x": x, "y": y, "energy": energy, "cause": 0, "last": self.tick, "links": [0, 0, 0, 0]
        }  # fmt: skip
        self.births[species] += 1
        return new_id

    def swarm(self, species: int, x: int, y: int, population: int, energy: int) -> None:
        new_id = getattr(self, "next_swarm", 1)
        self.next_swarm = new_id + 1
        self.swarms[new_id] = {"species": species, "x": x, "y": y, "heads": population, "energy": energy, "wait": 0}

    def at(self, x: int, y: int) -> int:
        return next((i for i, p in self.plants.items() if (p["x"], p["y"]) == (x, y)), 0)

    def draw(self, phase: int, entity: int) -> tuple[int, ...]:
        seed = self.config.seed
        return philox_block((0, entity, self.tick, phase << 24), (seed % (1 << 32), seed >> 32))

    def inside(self, x: int, y: int) -> bool:
        return 0 <= x < self.config.grid.width and 0 <= y < self.config.grid.height

    def rebuild(self) -> None:
        self.visible = {(p["species"], p["y"], p["x"]): p["energy"] for p in self.plants.values()}

    def step(self, inputs: list[dict[str, Any]]) -> None:
        self.tick += 1
        self.take_inputs(inputs)
        for plant_id in sorted(self.plants):
            self.live(plant_id)
        if self.tick % self.config.links.interval == 0:
            self.grow_links()
        self.rebuild()
        self.drought_ticks = max(0, self.drought_ticks - 1)
        for swarm_id in sorted(self.swarms):
            self.act(swarm_id)
        for species, x, y, heads, energy in self.daughters:
            self.swarm(species, x, y, heads, energy)
        self.daughters.clear()
        self.swarms = {i: s for i, s in self.swarms.items() if s["heads"]}

    daughters: list[tuple[int, ...]] = []  # noqa: RUF012 - emptied in each step

    def take_inputs(self, inputs: list[dict[str, Any]]) -> None:
        kinds = ("plant", "release", "wind", "drought")
        keys = {
            "plant": ("species", "x", "y"),
            "release": ("species", "x", "y", "population"),
            "wind": ("east", "south"),
            "drought": ("ticks", "percent"),
        }
        for one in sorted(inputs, key=lambda i: (kinds.index(i["kind"]), [i[key] for key in keys[i["kind"]]])):
            match one["kind"]:
                case "plant" if not self.at(one["x"], one["y"]):
                    self.plant(one["species"], one["x"], one["y"], self.config.flora[one["species"]].base_energy)
                case "release":
                    energy = self.config.herbivores[one["species"]].energy_min * one["population"]
                    self.swarm(one["species"], one["x"], one["y"], one["population"], energy)
                case "wind":
                    self.wind = (one["east"], one["south"])
                case "drought":
                    self.drought_ticks = one["ticks"]
                    self.drought_percent = one["percent"] if one["ticks"] else 0

    def live(self, plant_id: int) -> None:
        plant = self.plants[plant_id]
        flora = self.config.flora[plant["species"]]
        step = flora.base_energy * flora.growth_percent // (100 * 65_536)
        if self.drought_ticks > 0:
            step = step * (100 - self.drought_percent) // 100
        grown = max(0, min(plant["energy"] + step, flora.max_energy))
        if grown < plant["energy"]:
            plant["cause"] = BACKGROUND
        plant["energy"] = grown
        rested = self.tick - plant["last"] >= flora.reproduction_interval
        if rested and plant["energy"] - flora.seed_cost >= flora.survival_threshold:
            x, y = self.landing(plant_id, plant, flora)
            if self.inside(x, y) and not self.at(x, y):
                self.plant(plant["species"], x, y, flora.base_energy)
                plant.update(energy=plant["energy"] - flora.seed_cost, cause=REPRODUCTION, last=self.tick)
        if plant["energy"] < flora.survival_threshold:
            del self.plants[plant_id]
            self.deaths[plant["species"]][plant["cause"]] += 1
            for other in self.plants.values():
                other["links"] = [0 if link == plant_id else link for link in other["links"]]

    def landing(self, plant_id: int, plant: dict[str, Any], flora: Any) -> tuple[int, int]:
        first, second, *_ = self.draw(DISPERSAL, plant_id)
        low, high = flora.seed_distance_min, flora.seed_distance_max
        distance = low + (first * (high - low + 1) >> 32)
        ring = [
            (dx, dy)
            for dy in range(-high - 1, high + 2)
            for dx in range(-high - 1, high + 2)
            if round((dx * dx + dy * dy) ** 0.5) == distance
        ]
        dx, dy = ring[second * len(ring) >> 32]
        carried = [(part * self.config.dispersal.flight_ticks // 65_536 + 32_768) // 65_536 for part in self.wind]
        east, south = (max(-high, min(high, cells)) for cells in carried)
        return plant["x"] + dx + east, plant["y"] + dy + south

    def grow_links(self) -> None:
        linked: set[int] = set()
        links = self.config.links
        for plant_id, plant in sorted(self.plants.items(), key=lambda item: (item[1]["y"], item[1]["x"])):
            for direction, (dx, dy) in enumerate(((1, 0), (0, 1))):
                other_id = self.at(plant["x"] + dx, plant["y"] + dy)
                pair = (plant_id, other_id)
                if not other_id or linked & set(pair) or plant["links"][direction]:
                    continue
                other = self.plants[other_id]
                if plant["species"] != other["species"] and not links.between_species:
                    continue
                after = [
                    self.plants[i]["energy"] - links.cost
                    - self.config.flora[self.plants[i]["species"]].survival_threshold
                    for i in pair
                ]  # fmt: skip
                if min(after) < 0:
                    continue
                linked.update(pair)
                plant["links"][direction], other["links"][direction + 2] = other_id, plant_id
                for one in (plant, other):
                    one.update(energy=one["energy"] - links.cost, cause=LINK)

    def food(self, swarm: dict[str, Any]) -> dict[str, Any] | None:
        plant = self.plants.get(self.at(swarm["x"], swarm["y"]))
        eaten = plant and plant["energy"] > 0 and self.config.diet[swarm["species"]][plant["species"]]
        return plant if eaten else None

    def near(self, swarm: dict[str, Any]) -> list[tuple[int, int]]:
        cells = [(swarm["x"] + dx, swarm["y"] + dy) for dx, dy in FIVE_CELLS]
        return [cell for cell in cells if self.inside(*cell)]

    def attraction(self, species: int, cell: tuple[int, int]) -> int:
        seen = (
            self.visible.get((flora, cell[1], cell[0]), 0)
            for flora, eats in enumerate(self.config.diet[species])
            if eats
        )
        return 1 + min(sum(seen), (1 << 29) - 1)

    def act(self, swarm_id: int) -> None:
        swarm = self.swarms[swarm_id]
        kind = self.config.herbivores[swarm["species"]]
        here = (swarm["x"], swarm["y"])
        if swarm["wait"]:
            swarm["wait"] -= 1
        elif self.food(swarm) is None:
            weights = {cell: self.attraction(swarm["species"], cell) for cell in self.near(swarm)}
            mark = self.draw(MOVEMENT, swarm_id)[0] * sum(weights.values()) >> 32
            for cell, weight in weights.items():
                if mark < weight:
                    swarm["x"], swarm["y"] = cell
                    break
                mark -= weight
            swarm["wait"] = kind.velocity - 1
        food = self.food(swarm)
        if (swarm["x"], swarm["y"]) == here and food:
            bite = min(kind.consumption_rate // kind.velocity * swarm["heads"], food["energy"])
            if bite:
                food.update(energy=food["energy"] - bite, cause=FEEDING)
            swarm["energy"] += bite
        swarm["energy"] -= kind.upkeep * swarm["heads"]
        if swarm["energy"] < 0:
            swarm["heads"] = max(0, swarm["heads"] - -(swarm["energy"] // kind.energy_min))
            swarm["energy"] = 0
        if swarm["heads"]:
            price = kind.energy_min * kind.reproduction_divisor // 65_536
            swarm["heads"] += max(0, swarm["energy"] - swarm["heads"] * kind.energy_min) // price
            if swarm["heads"] >= kind.split_population:
                cells = self.near(swarm)
                x, y = cells[self.draw(MITOSIS, swarm_id)[0] * len(cells) >> 32]
                heads, energy = swarm["heads"] // 2, swarm["energy"] // 2
                swarm.update(heads=swarm["heads"] - heads, energy=swarm["energy"] - energy)
                self.daughters.append((swarm["species"], x, y, heads, energy))

    def entities(self) -> dict[str, Any]:
        """The same form as that of the real state."""
        return {
            "plants": {
                i: (p["species"], p["x"], p["y"], p["energy"], p["cause"], p["last"], tuple(p["links"]))
                for i, p in self.plants.items()
            },
            "swarms": {
                i: (s["species"], s["x"], s["y"], s["heads"], s["energy"], s["wait"]) for i, s in self.swarms.items()
            },
            "births": self.births,
            "deaths": self.deaths,
            "climate": (self.tick, self.drought_ticks, self.wind),
            "visible": {cell: energy for cell, energy in self.visible.items() if energy},
            "ids": (getattr(self, "next_plant", 1), getattr(self, "next_swarm", 1)),
        }


def entities(state: Any) -> dict[str, Any]:
    """A real state by id, without rows."""

    def by_id(table: str, *columns: str) -> dict[int, tuple[Any, ...]]:
        values = zip(*(state[f"{table}.{column}"].tolist() for column in ("id", *columns)), strict=True)
        return {
            entity_id: tuple(tuple(v) if isinstance(v, list) else v for v in rest)
            for entity_id, *rest in values
            if entity_id
        }

    layer = state["biotope.energy"][int(state["biotope.front"])]
    return {
        "plants": by_id("plants", "species", "x", "y", "energy", "loss_cause", "last_reproduction", "links"),
        "swarms": by_id("swarms", "species", "x", "y", "population", "energy", "cooldown"),
        "births": state["births"].tolist(),
        "deaths": state["deaths"].tolist(),
        "climate": (int(state["tick"]), int(state["climate.drought_ticks"]), tuple(state["climate.wind"].tolist())),
        "visible": {tuple(cell): int(layer[tuple(cell)]) for cell in zip(*map(list, layer.nonzero()), strict=True)},
        "ids": (int(state["next_plant_id"]), int(state["next_swarm_id"])),
    }


@settings(deadline=None, max_examples=25)
@given(st.data(), st.integers(1, 120))
def test_both_meadows_agree_at_every_tick(data: st.DataObject, ticks: int) -> None:
    """Growth, seeds, deaths, links, movement, feeding, starvation and division: the same entities after each tick."""
    plain = data.draw(meadows(swarms=data.draw(st.booleans())))
    inputs = data.draw(st.dictionaries(st.integers(1, 60), st.lists(meadow_inputs(plain), max_size=3), max_size=6))
    meadow = Meadow(plain)
    naive = Naive(read_config(plain), meadow.state)

    assert naive.entities() == entities(meadow.state)
    for tick in range(1, ticks + 1):
        sent = inputs.get(tick, [])
        meadow.step(sent)
        naive.step(sent)
        assert naive.entities() == entities(meadow.state), f"tick {tick}"
