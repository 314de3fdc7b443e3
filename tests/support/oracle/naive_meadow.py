"""One step of a meadow, slow and obvious: inputs, flow field, lifecycle, links and termination.

Written from docs/meadow-rules.md alone, as are naive_state.py, naive_swarms.py, naive_signalling.py and naive_sight.py.
"""

from __future__ import annotations

from typing import Any

from sim.worlds.meadow.config.meadow import MeadowConfig
from sim.worlds.meadow.config.species import Flora
from sim.worlds.meadow.model.layout import DrawPhase, HeadLoss, LossCause

from oracle.naive_sight import sight
from oracle.naive_signalling import signalling
from oracle.naive_state import DIRECTIONS, ONE, Entity, NaiveState, pick
from oracle.naive_swarms import divide, interaction

Input = dict[str, Any]

KINDS = {  # In the order that sorts inputs, each with its values in the order that sorts those of the kind.
    "plant": ("species", "x", "y"),
    "release": ("species", "x", "y", "population"),
    "wind": ("east", "south"),
    "gust": ("x", "y", "radius", "east", "south"),
    "drought": ("ticks", "percent"),
    "cull": ("species", "x", "y", "radius", "percent"),
    "set": ("parameter", "value"),
    "steer": ("swarm", "direction"),
    "split": ("swarm",),
    "spawn": ("species", "x", "y", "population"),
}


class NaiveMeadow(NaiveState):
    """A meadow that follows the rules entity by entity and cell by cell."""

    def __init__(self, config: MeadowConfig) -> None:
        super().__init__(config)
        sight(self)

    def step(self, inputs: list[Input]) -> None:
        """Advance by one tick. inputs: valid inputs with exactly the keys of their kind."""
        self.tick += 1
        ordered = sorted(inputs, key=canonical)
        ids = self._ids_of_inputs(ordered)
        for number, one in enumerate(ordered):
            self.birth_id = ids.get(number)
            getattr(self, f"_take_{one['kind']}")(*canonical(one)[1:])
        for species, player in self.players.items():
            self.budget[species] = min(self.budget[species] + player.income, player.budget_max)
        self._make_flow()
        self._lifecycle()
        interaction(self)
        signalling(self)
        sight(self)

    def ended(self) -> str | None:
        """Return the first condition of termination that holds now, or None."""
        conditions = self.config.termination
        plants, swarms = self.living("plants"), self.living("swarms")
        flora, herbivores = {plant["species"] for plant in plants}, {swarm["species"] for swarm in swarms}
        energy, heads = sum(plant["energy"] for plant in plants), sum(swarm["population"] for swarm in swarms)
        reasons = {
            "Z1": self.tick >= self.config.ticks,
            "Z2": any(self.config.flora_index(name) not in flora for name in conditions.flora_extinct),
            "Z3": conditions.all_flora and not plants,
            "Z4": any(self.config.herbivore_index(name) not in herbivores for name in conditions.herbivores_extinct),
            "Z5": conditions.all_herbivores and not swarms,
            "Z6": conditions.flora_energy_max is not None and energy > conditions.flora_energy_max,
            "Z7": conditions.population_max is not None and heads > conditions.population_max,
        }
        return next((reason for reason, holds in reasons.items() if holds), None)

    # --- inputs: one method for each kind, with the values in the order of KINDS

    def _ids_of_inputs(self, inputs: list[Input]) -> dict[int, int]:
        """The id of what each input may bring to life, by its number."""
        ids: dict[int, int] = {}
        for way, kinds in ((1, {"plant"}), (1, {"release", "spawn"}), (2, {"split"})):
            numbers = [number for number, one in enumerate(inputs) if one["kind"] in kinds]
            of_cells = [inputs[number] for number in numbers]
            keys = [
                one["swarm"] if way == 2 else (one["species"] * 2**16 + one["y"]) * 2**16 + one["x"] for one in of_cells
            ]
            ids |= dict(zip(numbers, self.ids_of_births(way, keys), strict=True))
        return ids

    def _take_plant(self, species: int, x: int, y: int) -> None:
        if self.plant_at(x, y) is None:
            self.write_energy(self.add_plant(species, x, y, self.birth_id))

    def _take_release(self, species: int, x: int, y: int, population: int) -> None:
        self.add_swarm(species, x, y, population, self.birth_id)

    def _take_wind(self, east: int, south: int) -> None:
        self.wind = [self.grid(east), self.grid(south)]

    def _take_gust(self, x: int, y: int, radius: int, east: int, south: int) -> None:
        for cell_x, cell_y in self.cells():
            if abs(cell_x - x) <= radius and abs(cell_y - y) <= radius:
                self.wind[0][cell_y][cell_x] = east
                self.wind[1][cell_y][cell_x] = south

    def _take_drought(self, ticks: int, percent: int) -> None:
        self.drought_ticks = ticks
        self.drought_percent = percent if ticks else 0

    def _take_cull(self, species: int, x: int, y: int, radius: int, percent: int) -> None:
        for swarm in self.living("swarms"):
            near = abs(swarm["x"] - x) <= radius and abs(swarm["y"] - y) <= radius
            if swarm["species"] != species or not near:
                continue
            lost = swarm["population"] * percent // 100
            swarm["energy"] -= swarm["energy"] * lost // swarm["population"]
            swarm["population"] -= lost
            self.heads_lost[species][HeadLoss.CULL] += lost
            if swarm["population"] == 0:
                self.leave("swarms", swarm)

    def _take_set(self, parameter: int, value: int) -> None:
        self.parameters[list(self.parameters)[parameter]] = value

    def _players_swarm(self, swarm_id: int) -> Entity | None:
        """The swarm with this id if its species has a player."""
        swarm = self.find("swarms", swarm_id)
        return swarm if swarm is not None and swarm["species"] in self.players else None

    def _take_steer(self, swarm_id: int, direction: int) -> None:
        swarm = self._players_swarm(swarm_id)
        if swarm is not None:
            swarm["steer"] = 1 + direction

    def _take_split(self, swarm_id: int) -> None:
        swarm = self._players_swarm(swarm_id)
        if swarm is None or swarm["population"] < 2:
            return
        cost = self.players[swarm["species"]].split_cost
        if self.budget[swarm["species"]] >= cost:
            self.budget[swarm["species"]] -= cost
            self.enter("swarms", divide(self, swarm, 1), self.birth_id)

    def _take_spawn(self, species: int, x: int, y: int, population: int) -> None:
        if species not in self.players:
            return
        cost, sight = self.players[species].spawn_cost * population, self.players[species].sight
        own = [swarm for swarm in self.living("swarms") if swarm["species"] == species]
        seen = [swarm for swarm in own if abs(swarm["x"] - x) <= sight and abs(swarm["y"] - y) <= sight]
        if self.budget[species] >= cost and seen:
            self.budget[species] -= cost
            self.add_swarm(species, x, y, population, self.birth_id)

    # --- flow field

    def _make_flow(self) -> None:
        base = self.grid()
        for x, y in self.cells():
            base[y][x] = self.total[self.front][y][x] - sum(toxin[y][x] for toxin in self.toxins)
        for x, y in self.cells():
            self.flow[y][x] = base[y][x]
            around = [base[other_y][other_x] for other_x, other_y in self.five_cells(x, y)[1:]]
            if around:
                self.flow[y][x] += sum(around) // (2 * len(around))
        for plant in self.living("plants"):
            camouflage = self.config.flora[plant["species"]].camouflage
            if camouflage < ONE:
                self.flow[plant["y"]][plant["x"]] = self.flow[plant["y"]][plant["x"]] * camouflage // ONE

    # --- lifecycle

    def _lifecycle(self) -> None:
        seeds: list[tuple[int, int, int]] = []  # Species, x and y; they become plants after the last plant's turn.
        mothers: list[int] = []
        for plant in self.living("plants"):
            flora = self.config.flora[plant["species"]]
            self._grow(plant, flora)
            self._reproduce(plant, flora, seeds)
            mothers += [plant["id"]] * (len(seeds) - len(mothers))
            if plant["energy"] < flora.survival_threshold:
                self._die(plant)
        born = zip(self.ids_of_births(3, mothers), seeds, strict=True)
        for birth_id, seed in sorted(born) if self.config.ids == "births" else born:
            self.add_plant(*seed, birth_id)
        if self.tick % self.parameters["link_interval"] == 0:
            self._grow_links()
        for plant in self.living("plants"):
            self.write_energy(plant)
        self.rebuild()
        if self.drought_ticks > 0:
            self.drought_ticks -= 1

    def _grow(self, plant: Entity, flora: Flora) -> None:
        gain = flora.base_energy * flora.growth_percent // (100 * ONE)
        gain = gain * self.parameters["growth"] // (100 * ONE)
        if self.drought_ticks > 0:
            gain = gain * (100 - self.drought_percent) // 100
        grown = max(0, min(plant["energy"] + gain, flora.max_energy))
        if grown < plant["energy"]:
            plant["loss_cause"] = LossCause.BACKGROUND
        plant["energy"] = grown

    def _reproduce(self, plant: Entity, flora: Flora, seeds: list[tuple[int, int, int]]) -> None:
        if self.tick - plant["last_reproduction"] < flora.reproduction_interval:
            return
        if plant["energy"] - flora.seed_cost < flora.survival_threshold:
            return
        x, y = self._landing(plant, flora)
        taken = self.plant_at(x, y) is not None or (x, y) in [seed[1:] for seed in seeds]
        if not self.inside(x, y) or taken:
            return
        seeds.append((plant["species"], x, y))
        plant["energy"] -= flora.seed_cost
        plant["loss_cause"] = LossCause.REPRODUCTION
        plant["last_reproduction"] = self.tick

    def _landing(self, plant: Entity, flora: Flora) -> tuple[int, int]:
        nearest, farthest = flora.seed_distance_min, flora.seed_distance_max
        distance = nearest + pick(self.word(DrawPhase.DISPERSAL, plant["id"], 0), farthest - nearest + 1)
        ring = [
            (dx, dy)
            for dy in range(-distance - 1, distance + 2)
            for dx in range(-distance - 1, distance + 2)
            if (2 * distance - 1) ** 2 <= 4 * (dx * dx + dy * dy) < (2 * distance + 1) ** 2
        ]
        dx, dy = ring[pick(self.word(DrawPhase.DISPERSAL, plant["id"], 1), len(ring))]
        carried = []
        for layer in self.wind:
            flown = layer[plant["y"]][plant["x"]] * self.config.dispersal.flight_ticks // ONE
            carried.append(max(-farthest, min((flown + ONE // 2) // ONE, farthest)))
        return plant["x"] + dx + carried[0], plant["y"] + dy + carried[1]

    def _die(self, plant: Entity) -> None:
        self.deaths[plant["species"]][plant["loss_cause"]] += 1
        self.energy[1 - self.front][plant["species"]][plant["y"]][plant["x"]] = 0
        self.leave("plants", plant)
        for other in self.living("plants"):
            other["links"] = [0 if link == plant["id"] else link for link in other["links"]]

    def _grow_links(self) -> None:
        cost = self.parameters["link_cost"]
        busy: list[int] = []  # Ids of plants with a new link in this pass.
        for plant in sorted(self.living("plants"), key=lambda one: (one["y"], one["x"])):
            for direction in (0, 1):
                dx, dy = DIRECTIONS[direction]
                other = self.plant_at(plant["x"] + dx, plant["y"] + dy)
                if other is None or plant["links"][direction] == other["id"]:
                    continue
                if plant["id"] in busy or other["id"] in busy:
                    continue
                if plant["species"] != other["species"] and not self.config.links.between_species:
                    continue
                if any(one["energy"] - cost <= self._threshold(one) for one in (plant, other)):
                    continue
                plant["links"][direction], other["links"][direction + 2] = other["id"], plant["id"]
                for one in (plant, other):
                    one["energy"] -= cost
                    one["loss_cause"] = LossCause.LINK
                    busy.append(one["id"])

    def _threshold(self, plant: Entity) -> int:
        return self.config.flora[plant["species"]].survival_threshold


def canonical(item: Input) -> tuple[Any, ...]:
    """Return the sort key of an input: the index of its kind, then its values."""
    return (list(KINDS).index(item["kind"]), *(item[key] for key in KINDS[item["kind"]]))
