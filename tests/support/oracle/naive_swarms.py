"""The interaction of a naive meadow, swarm by swarm; written from docs/meadow-rules.md alone."""

from __future__ import annotations

from sim.worlds.meadow.config.species import Herbivore
from sim.worlds.meadow.model.layout import DrawPhase, HeadLoss, LossCause

from oracle.naive_state import FIVE_CELLS, ONE, Entity, NaiveState, draw, new_swarm, pick

HEADS_MAX = 10**6
WEIGHT_MAX = 2**26


def interaction(meadow: NaiveState) -> None:
    """All swarms move, eat, starve, reproduce and divide, one after the other."""
    mothers: list[int] = []
    for swarm in meadow.living("swarms"):
        kind = meadow.config.herbivores[swarm["species"]]
        before = (swarm["x"], swarm["y"])
        _move(meadow, swarm, kind)
        if (swarm["x"], swarm["y"]) == before:
            _feed(meadow, swarm, kind)
        _pay_upkeep(meadow, swarm, kind)
        if swarm["population"] > 0:
            _reproduce(meadow, swarm, kind)
        if swarm["population"] >= kind.split_population:
            mothers.append(swarm["id"])
            meadow.daughters.append(divide(meadow, swarm, 0))
    for swarm in meadow.living("swarms"):
        if swarm["population"] == 0:
            meadow.leave("swarms", swarm)
    born = list(zip(meadow.ids_of_births(3, mothers), meadow.daughters, strict=True))
    for birth_id, daughter in sorted(born, key=lambda one: one[0]) if meadow.config.ids == "births" else born:
        meadow.enter("swarms", daughter, birth_id)
    meadow.daughters = []
    for plant in meadow.living("plants"):
        meadow.write_energy(plant)


def divide(meadow: NaiveState, mother: Entity, number: int) -> Entity:
    """Split off half of a swarm as a daughter without an id. number: index of the random word."""
    cells = meadow.five_cells(mother["x"], mother["y"])
    x, y = cells[pick(meadow.word(DrawPhase.MITOSIS, mother["id"], number), len(cells))]
    daughter = new_swarm(mother["species"], x, y, mother["population"] // 2, mother["energy"] // 2)
    mother["population"] -= daughter["population"]
    mother["energy"] -= daughter["energy"]
    return daughter


def _food_of(meadow: NaiveState, swarm: Entity) -> Entity | None:
    """Return the plant in a swarm's cell if its species is in the diet, even with no energy left."""
    plant = meadow.plant_at(swarm["x"], swarm["y"])
    return plant if plant is not None and meadow.config.diet[swarm["species"]][plant["species"]] else None


def _move(meadow: NaiveState, swarm: Entity, kind: Herbivore) -> None:
    steer, swarm["steer"] = swarm["steer"], 0
    if swarm["cooldown"] > 0:
        swarm["cooldown"] -= 1
        return
    if meadow.heads_at(swarm["x"], swarm["y"]) > meadow.parameters["carrying_capacity"]:
        swarm["repelled"] = max(swarm["repelled"], 1)
    cells = meadow.five_cells(swarm["x"], swarm["y"])
    word = meadow.word(DrawPhase.MOVEMENT, swarm["id"], 0)
    food = _food_of(meadow, swarm)
    if swarm["repelled"] > 0:
        swarm["repelled"] -= 1
        chosen = pick(word, len(cells))
    elif steer == 0 and food is not None and food["energy"] > 0:
        return
    else:
        least = min(meadow.flow[y][x] for x, y in cells)
        weights = [1 + min(meadow.flow[y][x] - least, WEIGHT_MAX - 1) for x, y in cells]
        if steer > 0:
            dx, dy = FIVE_CELLS[steer - 1]
            asked_for = (swarm["x"] + dx, swarm["y"] + dy)
            if asked_for in cells:
                weights[cells.index(asked_for)] *= meadow.players[swarm["species"]].bias
        chosen = draw(word, weights)
    swarm["x"], swarm["y"] = cells[chosen]
    swarm["cooldown"] = kind.velocity - 1


def _feed(meadow: NaiveState, swarm: Entity, kind: Herbivore) -> None:
    food = _food_of(meadow, swarm)
    if food is not None:
        eaten = min(kind.consumption_rate // kind.velocity * swarm["population"], food["energy"])
        food["energy"] -= eaten
        swarm["energy"] += eaten
        if eaten > 0:
            food["loss_cause"] = LossCause.FEEDING
            swarm["repelled"] = 0
    elif meadow.plant_at(swarm["x"], swarm["y"]) is not None:
        swarm["repelled"] = max(swarm["repelled"], meadow.config.crowding.taste_ticks)


def _pay_upkeep(meadow: NaiveState, swarm: Entity, kind: Herbivore) -> None:
    swarm["energy"] -= kind.upkeep * swarm["population"]
    if swarm["energy"] < 0:
        missing = -swarm["energy"]
        casualties = min((missing + kind.energy_min - 1) // kind.energy_min, swarm["population"])
        swarm["population"] -= casualties
        swarm["energy"] = 0
        meadow.heads_lost[swarm["species"]][HeadLoss.STARVATION] += casualties


def _reproduce(meadow: NaiveState, swarm: Entity, kind: Herbivore) -> None:
    price = kind.energy_min * kind.reproduction_divisor // ONE
    surplus = max(0, swarm["energy"] - swarm["population"] * kind.energy_min)
    born = min(surplus // price, HEADS_MAX - swarm["population"])
    swarm["population"] += born
    meadow.heads_born[swarm["species"]] += born
