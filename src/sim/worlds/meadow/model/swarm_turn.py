"""The turn of each swarm in the phase interaction, one swarm after the other (interaction.py has the rules).

The loop is written once: Python runs it over lists and memoryviews, numba compiles it for int64 arrays (see
numba_loops.py). So it uses nothing that the two compute differently: no float, no unsigned number, and no product above
63 bits. A swarm and a species are each one row of integers: compiled code is slow with dozens of arrays.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from sim.worlds.meadow.config.species import POPULATION_MAX
from sim.worlds.meadow.model.numba_loops import SWARMS_MIN, Loop, fetch_ahead, loop_for

WEIGHT_MAX = 1 << 26  # Five of them, one sixteen times as heavy, times a 32-bit word stay below 2**63.
NONE = -1
PART = 128  # Swarms. Their cells and plants are a small part of what the cache holds.

# A swarm: columns of the table that change, its species, and two random 32-bit words, for moving and for dividing. Then
# its results: the row of the plant that it ate from, or NONE; energy eaten, and upkeep that it could not pay; heads
# starved and born; its daughter, which exists only if DAUGHTER_HEADS is not 0.
CHANGING = ("energy", "population", "x", "y", "cooldown", "repelled", "steer")
ENERGY, POPULATION, X, Y, COOLDOWN, REPELLED, STEER, SPECIES, MOVE_WORD, SPLIT_WORD = range(10)
EATEN_FROM, EATEN, UNPAID, STARVED, BORN, DAUGHTER_X, DAUGHTER_Y, DAUGHTER_HEADS, DAUGHTER_ENERGY = range(10, 19)
SWARM_WIDTH = 19

# A herbivore species; from DIET on, one flag per plant species: 1 if it is eaten.
BITE, VELOCITY, UPKEEP, ENERGY_MIN, PRICE, SPLIT_POPULATION, BIAS, DIET = range(8)

Row = Any  # A list or array of integers, rows of them, or a memoryview.


class Land(NamedTuple):
    """The meadow that swarms act on: heads, flow, occupant by cell (y × width + x), the others by row of the plants."""

    width: int
    height: int
    carrying_capacity: int
    taste_ticks: int
    heads: Row
    flow: Row
    occupant: Row
    plant_species: Row
    plant_energy: Row


def run_swarms(swarms: Row, kinds: Row, land: Land) -> None:
    """Let all swarms act, in their order."""
    width, height, heads, occupant = land.width, land.height, land.heads, land.occupant
    plant_species, plant_energy = land.plant_species, land.plant_energy
    for swarm in swarms:
        kind = kinds[swarm[SPECIES]]
        here = swarm[Y] * width + swarm[X]
        plant = occupant[here] - 1
        is_eaten = plant >= 0 and kind[DIET + plant_species[plant]] != 0
        food = plant_energy[plant] if is_eaten else 0
        if not move(swarm, kind, food, width, height, heads, land.flow, land.carrying_capacity):
            if is_eaten:
                feed(swarm, kind, plant, plant_energy)
            elif plant >= 0:
                swarm[REPELLED] = max(swarm[REPELLED], land.taste_ticks)
        before = swarm[POPULATION]
        live(swarm, kind)
        if swarm[POPULATION] >= kind[SPLIT_POPULATION]:
            divide(swarm, width, height)
            heads[swarm[DAUGHTER_Y] * width + swarm[DAUGHTER_X]] += swarm[DAUGHTER_HEADS]
        heads[swarm[Y] * width + swarm[X]] += swarm[POPULATION] - before


def move(swarm: Row, kind: Row, food: int, width: int, height: int, heads: Row, flow: Row, capacity: int) -> bool:
    """Move a swarm if its cooldown has run out. Returns True if it changed cells. food: energy that it could eat here."""
    steer = swarm[STEER]
    swarm[STEER] = 0
    if swarm[COOLDOWN] > 0:
        swarm[COOLDOWN] -= 1
        return False
    x, y, word = swarm[X], swarm[Y], swarm[MOVE_WORD]
    here = y * width + x
    if swarm[REPELLED] == 0 and heads[here] > capacity:
        swarm[REPELLED] = 1
    if swarm[REPELLED] > 0:
        swarm[REPELLED] -= 1
        to_x, to_y = pick_cell(x, y, word, width, height)
    elif food > 0 and steer == 0:
        return False
    else:
        to_x, to_y = draw_cell(x, y, word, width, height, flow, steer, kind[BIAS])
    swarm[COOLDOWN] = kind[VELOCITY] - 1
    if to_x == x and to_y == y:
        return False
    heads[here] -= swarm[POPULATION]
    heads[to_y * width + to_x] += swarm[POPULATION]
    swarm[X], swarm[Y] = to_x, to_y
    return True


def pick_cell(x: int, y: int, word: int, width: int, height: int) -> tuple[int, int]:
    """Pick one of the five cells that are inside, each with the same probability."""
    east, south, west, north = int(x + 1 < width), int(y + 1 < height), int(x > 0), int(y > 0)
    number = (word * (1 + east + south + west + north)) >> 32
    if number == 0:
        return x, y
    number -= east
    if number == 0:
        return x + 1, y
    number -= south
    if number == 0:
        return x, y + 1
    return (x - 1, y) if number - west == 0 else (x, y - 1)


def draw_cell(x: int, y: int, word: int, width: int, height: int, flow: Row, steer: int, bias: int) -> tuple[int, int]:
    """Draw one of the five cells that are inside, with a weight by its flow and by the player's steering."""
    here = y * width + x
    centre = flow[here]
    east = flow[here + 1] if x + 1 < width else centre
    south = flow[here + width] if y + 1 < height else centre
    west = flow[here - 1] if x > 0 else centre
    north = flow[here - width] if y > 0 else centre
    least = min(centre, east, south, west, north)
    # A cell outside has no weight, so that it is never drawn.
    stay_weight = weigh(centre - least, 1, steer, bias)
    east_weight = weigh(east - least, 2, steer, bias) if x + 1 < width else 0
    south_weight = weigh(south - least, 3, steer, bias) if y + 1 < height else 0
    west_weight = weigh(west - least, 4, steer, bias) if x > 0 else 0
    north_weight = weigh(north - least, 5, steer, bias) if y > 0 else 0
    left = (word * (stay_weight + east_weight + south_weight + west_weight + north_weight)) >> 32
    left -= stay_weight
    if left < 0:
        return x, y
    left -= east_weight
    if left < 0:
        return x + 1, y
    left -= south_weight
    if left < 0:
        return x, y + 1
    return (x - 1, y) if left < west_weight else (x, y - 1)


def weigh(above: int, cell: int, steer: int, bias: int) -> int:
    """Return the weight of a cell. above: its flow minus the least. cell: the value of steer that points to it."""
    weight = 1 + min(above, WEIGHT_MAX - 1)
    return weight * bias if steer == cell else weight


def feed(swarm: Row, kind: Row, plant: int, plant_energy: Row) -> None:
    """Let a swarm eat from a plant of its diet."""
    there = plant_energy[plant]
    eaten = min(kind[BITE] * swarm[POPULATION], there)
    if eaten != 0:
        plant_energy[plant] = there - eaten
        swarm[ENERGY] += eaten
        swarm[REPELLED] = 0
        swarm[EATEN_FROM] = plant
        swarm[EATEN] = eaten


def live(swarm: Row, kind: Row) -> None:
    """Apply upkeep, starvation and reproduction."""
    heads = swarm[POPULATION]
    energy = swarm[ENERGY] - kind[UPKEEP] * heads
    if energy < 0:
        starved = min(-(energy // kind[ENERGY_MIN]), heads)  # ceil(deficit / energy_min)
        swarm[UNPAID] = -energy
        swarm[STARVED] = starved
        heads -= starved
        energy = 0
    swarm[ENERGY] = energy
    if heads != 0:
        born = max(0, energy - heads * kind[ENERGY_MIN]) // kind[PRICE]
        born = min(born, POPULATION_MAX - heads)
        swarm[BORN] = born
        heads += born
    swarm[POPULATION] = heads


def divide(swarm: Row, width: int, height: int) -> None:
    """Split off a daughter with half of everything, rounded down."""
    swarm[DAUGHTER_X], swarm[DAUGHTER_Y] = pick_cell(swarm[X], swarm[Y], swarm[SPLIT_WORD], width, height)
    swarm[DAUGHTER_HEADS], swarm[DAUGHTER_ENERGY] = swarm[POPULATION] // 2, swarm[ENERGY] // 2
    swarm[POPULATION] -= swarm[DAUGHTER_HEADS]
    swarm[ENERGY] -= swarm[DAUGHTER_ENERGY]


def run_swarms_ahead(swarms: Row, kinds: Row, land: Land) -> None:
    """Do what run_swarms does, in parts whose cells are fetched from memory first. Compiled only."""
    for start in range(0, len(swarms), PART):
        part = swarms[start : start + PART]
        for swarm in part:
            here = swarm[Y] * land.width + swarm[X]
            fetch_ahead(land.occupant, here)
            fetch_ahead(land.heads, here)
            fetch_ahead(land.flow, here)
            fetch_ahead(land.flow, here - land.width)
            fetch_ahead(land.flow, here + land.width)
        for swarm in part:
            plant = land.occupant[swarm[Y] * land.width + swarm[X]] - 1
            fetch_ahead(land.plant_species, plant)
            fetch_ahead(land.plant_energy, plant)
        run_swarms(part, kinds, land)


HELPERS: tuple[Any, ...] = (move, pick_cell, draw_cell, weigh, feed, live, divide)  # The callees of run_swarms.


def swarm_loop(count: int) -> Loop:
    """Return the loop over this number of swarms."""
    return loop_for(count, SWARMS_MIN, run_swarms, *HELPERS, compiled_as=run_swarms_ahead)
