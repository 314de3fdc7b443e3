"""Phase interaction: swarms move, eat, pay for their upkeep, starve, multiply and divide.

For each swarm in ascending id:
    movement       when the cooldown has run out: a swarm with food in its cell (a plant of its diet with energy) stays;
                   else it goes to one of the five cells (here and the 4 neighbours inside the meadow), drawn with
                   weight 1 + the visible energy of its food there (at most WEIGHT_MAX), and waits velocity - 1 ticks.
    feeding        only if it did not go elsewhere: from the plant in its cell, if that is of its diet,
                   min(floor(consumption_rate / velocity) × population, the plant's energy); loss cause feeding.
    upkeep         energy -= upkeep × population. A deficit costs ceil(deficit / energy_min) heads, and energy is 0.
                   A swarm without heads is removed when the phase is over.
    reproduction   floor(max(0, energy - population × energy_min) / price) new heads, where price =
                   floor(energy_min × reproduction_divisor).
    mitosis        from split_population on, half of heads and energy (rounded down) become a new swarm in one of the
                   five cells, drawn evenly; it acts from the next tick on.
"""

from __future__ import annotations

from itertools import accumulate
from typing import Any

import attrs
import numpy as np
import numpy.typing as npt

from sim.kernel.fixed_point import multiply
from sim.kernel.keyed_random import KeyedRandom
from sim.kernel.state import State
from sim.worlds.meadow.biotope import visible_energy, write_energy
from sim.worlds.meadow.config import Herbivore, MeadowConfig
from sim.worlds.meadow.layout import DrawPhase, LossCause
from sim.worlds.meadow.plants import free_rows, plant_cells

WEIGHT_MAX = 1 << 29  # Five of them stay below 2**32, the range of one random word.
_STEPS = ((0, 0), (1, 0), (0, 1), (-1, 0), (0, -1))


@attrs.define
class Swarm:
    """One row of the swarm table, as plain integers: many times faster to compute with, one by one, than array items.

    Attributes: as the columns of the table.
    """

    energy: int
    population: int
    x: int
    y: int
    cooldown: int
    id: int
    species: int


_COLUMNS = tuple(field.name for field in attrs.fields(Swarm))


def run_interaction(state: State, config: MeadowConfig) -> None:
    """The whole phase."""
    ids = state["swarms.id"]
    rows = np.flatnonzero(ids)
    rows = rows[np.argsort(ids[rows], kind="stable")]
    if not len(rows):
        return
    columns = (state[f"swarms.{column}"][rows].tolist() for column in _COLUMNS)
    swarms = [Swarm(*values) for values in zip(*columns, strict=True)]
    random, tick = KeyedRandom(int(state["seed"])), int(state["tick"])
    moves = random.words(DrawPhase.MOVEMENT, tick, ids[rows])[:, 0].tolist()
    splits = random.words(DrawPhase.MITOSIS, tick, ids[rows])[:, 0].tolist()
    pasture = _Pasture(state, config)
    daughters: list[Swarm] = []
    for swarm, move, split in zip(swarms, moves, splits, strict=True):
        herbivore = config.herbivores[swarm.species]
        if not _move(swarm, herbivore, pasture, move):
            _feed(swarm, herbivore, pasture)
        _pay_upkeep(swarm, herbivore)
        if swarm.population:
            _multiply(swarm, herbivore)
            if swarm.population >= herbivore.split_population:
                daughters.append(_divide(swarm, pasture, split))
    pasture.write_back()
    for column in _COLUMNS:
        state.set(f"swarms.{column}", rows, [getattr(s, column) if s.population else 0 for s in swarms])
    for daughter in daughters:
        add_swarm(state, daughter.species, daughter.x, daughter.y, daughter.population, daughter.energy)


class _Pasture:
    """The plants as the swarms of one phase meet them."""

    def __init__(self, state: State, config: MeadowConfig) -> None:
        self._state = state
        self._config = config
        self._energy = state["plants.energy"]
        self._species = state["plants.species"]
        self._occupant = state["biotope.occupant"]
        self._grazed: list[int] = []
        visible = visible_energy(state)
        self._weights: list[npt.NDArray[np.int64]] = []
        for diet in config.diet:
            food = visible[np.flatnonzero(diet)].sum(axis=0)
            self._weights.append(1 + np.minimum(food, WEIGHT_MAX - 1))

    def food_at(self, species: int, x: int, y: int) -> int | None:
        """Row of the plant in a cell if it has energy and this herbivore eats it."""
        row = int(self._occupant[y, x]) - 1
        eaten = row >= 0 and self._config.diet[species][self._species[row]] and self._energy[row] > 0
        return row if eaten else None

    def graze(self, row: int, appetite: int) -> int:
        """Take at most appetite from a plant; returns what it gave."""
        there = int(self._energy[row])
        eaten = min(appetite, there)
        if eaten:
            self._energy[row] = there - eaten
            self._grazed.append(row)
        return eaten

    def cells_around(self, x: int, y: int) -> list[tuple[int, int]]:
        """The cell and its neighbours inside the meadow."""
        width, height = self._config.grid.width, self._config.grid.height
        near = [(x + dx, y + dy) for dx, dy in _STEPS]
        return [(cx, cy) for cx, cy in near if 0 <= cx < width and 0 <= cy < height]

    def weight(self, species: int, x: int, y: int) -> int:
        """How strongly a cell draws this herbivore."""
        return int(self._weights[species][y, x])

    def write_back(self) -> None:
        """Mark the plants that were eaten from and write their energy to the layers."""
        rows = np.array(self._grazed, dtype=np.int64)
        state = self._state
        state.mark("plants.energy", rows)
        state.set("plants.loss_cause", rows, LossCause.FEEDING)
        write_energy(state, *plant_cells(state, rows), self._energy[rows])


def _draw(word: int, weights: list[int]) -> int:
    """The index that a 32-bit word picks, each with probability by its weight."""
    drawn = (word * sum(weights)) >> 32
    return next(index for index, bound in enumerate(accumulate(weights)) if drawn < bound)


def _move(swarm: Swarm, herbivore: Herbivore, pasture: _Pasture, word: int) -> bool:
    """Move the swarm if it is its time and there is no food here; whether it went to another cell."""
    if swarm.cooldown > 0:
        swarm.cooldown -= 1
        return False
    if pasture.food_at(swarm.species, swarm.x, swarm.y) is not None:
        return False
    cells = pasture.cells_around(swarm.x, swarm.y)
    chosen = cells[_draw(word, [pasture.weight(swarm.species, x, y) for x, y in cells])]
    moved = chosen != (swarm.x, swarm.y)
    swarm.x, swarm.y = chosen
    swarm.cooldown = herbivore.velocity - 1
    return moved


def _feed(swarm: Swarm, herbivore: Herbivore, pasture: _Pasture) -> None:
    plant = pasture.food_at(swarm.species, swarm.x, swarm.y)
    if plant is not None:
        swarm.energy += pasture.graze(plant, herbivore.consumption_rate // herbivore.velocity * swarm.population)


def _pay_upkeep(swarm: Swarm, herbivore: Herbivore) -> None:
    swarm.energy -= herbivore.upkeep * swarm.population
    if swarm.energy < 0:
        casualties = -(swarm.energy // herbivore.energy_min)  # ceil(deficit / energy_min)
        swarm.population = max(0, swarm.population - casualties)
        swarm.energy = 0


def _multiply(swarm: Swarm, herbivore: Herbivore) -> None:
    price = multiply(herbivore.energy_min, herbivore.reproduction_divisor)
    swarm.population += max(0, swarm.energy - swarm.population * herbivore.energy_min) // price


def _divide(swarm: Swarm, pasture: _Pasture, word: int) -> Swarm:
    """Split off a daughter with half of everything, rounded down; it has no id and no cooldown yet."""
    cells = pasture.cells_around(swarm.x, swarm.y)
    x, y = cells[_draw(word, [1] * len(cells))]
    daughter = Swarm(swarm.energy // 2, swarm.population // 2, x, y, 0, 0, swarm.species)
    swarm.energy -= daughter.energy
    swarm.population -= daughter.population
    return daughter


def add_swarm(state: State, species: int, x: int, y: int, population: int, energy: int) -> None:
    """Add a swarm; it gets the next id."""
    row = free_rows(state, "swarms", 1)
    swarm_id = int(state["next_swarm_id"])
    values: dict[str, Any] = {"energy": energy, "population": population, "x": x, "y": y, "species": species}
    for column, value in {**values, "id": swarm_id}.items():
        state.set(f"swarms.{column}", row, value)
    state.set("next_swarm_id", 0, swarm_id + 1)
