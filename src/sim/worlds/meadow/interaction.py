"""Phase interaction: swarms move, eat, pay for their upkeep, starve, multiply and divide.

For each swarm in ascending id:
    movement       when the cooldown has run out. In a cell with more heads than the parameter carrying_capacity the
                   swarm is repelled for a tick at least. Repelled: one of the five cells (here and the 4 neighbours
                   inside the meadow), drawn evenly. Else, with food in its cell (a plant of its diet with energy) and
                   no player who steers it: it stays. Else one of the five cells, drawn with weight
                   1 + min(flow - least flow of the five, WEIGHT_MAX - 1), which a player's steering multiplies by the
                   bias. After a walk or a draw it waits velocity - 1 ticks.
    feeding        only if it did not go elsewhere: from the plant in its cell, if that is of its diet,
                   min(floor(consumption_rate / velocity) × population, the plant's energy); loss cause feeding. A meal
                   ends a repulsion; a plant that is not in the diet repels for taste_ticks at least.
    upkeep         energy -= upkeep × population. A deficit costs ceil(deficit / energy_min) heads, and energy is 0.
                   A swarm without heads is removed when the phase is over.
    reproduction   floor(max(0, energy - population × energy_min) / price) new heads, where price =
                   floor(energy_min × reproduction_divisor); at most up to POPULATION_MAX.
    mitosis        from split_population on, half of heads and energy (rounded down) become a new swarm in one of the
                   five cells, drawn evenly; it acts from the next tick on.
"""

from __future__ import annotations

from collections import Counter
from itertools import accumulate

import numpy as np

from sim.kernel.fixed_point import multiply
from sim.worlds.meadow.biotope import write_energy
from sim.worlds.meadow.chronicle import FED, HEADS_BORN, HEADS_LOST, Deed
from sim.worlds.meadow.ground import Ground
from sim.worlds.meadow.layout import DrawPhase, HeadLoss, LossCause, Parameter
from sim.worlds.meadow.ledger import Flow
from sim.worlds.meadow.plants import plant_cells
from sim.worlds.meadow.species import POPULATION_MAX, Herbivore
from sim.worlds.meadow.swarms import COLUMNS, Swarm, add_swarms, new_swarm, remove_swarms_without_heads
from sim.worlds.meadow.tables import rows_by_id, write_changed

WEIGHT_MAX = 1 << 26  # Five of them, one sixteen times as heavy, times a 32-bit word stay below 2**63.


def run_interaction(ground: Ground) -> None:
    """The whole phase."""
    state = ground.state
    rows = rows_by_id(state, "swarms")
    if not len(rows):
        return
    columns = (state[f"swarms.{column}"][rows].tolist() for column in COLUMNS)
    swarms = [Swarm(*values) for values in zip(*columns, strict=True)]
    ids = state["swarms.id"][rows]
    moves = ground.random.words(DrawPhase.MOVEMENT, ground.tick, ids)[:, 0].tolist()
    splits = ground.random.words(DrawPhase.MITOSIS, ground.tick, ids)[:, 0].tolist()
    pasture = _Pasture(ground, swarms)
    mothers: list[int] = []
    daughters: list[Swarm] = []
    for swarm, move, split in zip(swarms, moves, splits, strict=True):
        herbivore = ground.config.herbivores[swarm.species]
        if not pasture.move(swarm, herbivore, move):
            pasture.feed(swarm, herbivore)
        pasture.pay_upkeep(swarm, herbivore)
        if swarm.population:
            pasture.multiply(swarm, herbivore)
            if swarm.population >= herbivore.split_population:
                mothers.append(swarm.id)
                daughters.append(pasture.divide(swarm, split))
    pasture.write_back()
    for column in COLUMNS:
        state.set(f"swarms.{column}", rows, [getattr(swarm, column) for swarm in swarms])
    remove_swarms_without_heads(ground, rows, HeadLoss.STARVATION)
    ground.chronicle.swarms_born("mitosis", daughters, int(state["next_swarm_id"]), mothers)
    add_swarms(state, daughters)


class _Pasture:
    """The plants and the crowd as the swarms of one phase meet them."""

    def __init__(self, ground: Ground, swarms: list[Swarm]) -> None:
        state = ground.state
        self._ground = ground
        self._energy = state["plants.energy"]
        self._species = state["plants.species"]
        self._occupant = state["biotope.occupant"]
        self._flow = state["biotope.flow"]
        self._capacity = ground.parameter(Parameter.CARRYING_CAPACITY)
        self._grazed: list[int] = []
        self._deeds: list[Deed] | None = [] if ground.chronicle.is_open else None
        self._crowd: Counter[tuple[int, int]] = Counter()
        for swarm in swarms:
            self._crowd[swarm.x, swarm.y] += swarm.population
        species_count = len(ground.config.herbivores)
        self._born = [0] * species_count
        self._starved = [0] * species_count
        self._eaten = self._used = self._unpaid = 0

    def move(self, swarm: Swarm, herbivore: Herbivore, word: int) -> bool:
        """Move the swarm if it is its time; whether it went to another cell."""
        steer, swarm.steer = swarm.steer, 0
        if swarm.cooldown > 0:
            swarm.cooldown -= 1
            return False
        here = (swarm.x, swarm.y)
        if self._crowd[here] > self._capacity:
            swarm.repelled = max(swarm.repelled, 1)
        if swarm.repelled == 0 and steer == 0 and self._eats(swarm, self._plant_at(*here)):
            return False
        cells = self._ground.cells_around(*here)
        if swarm.repelled > 0:
            swarm.repelled -= 1
            chosen = cells[(word * len(cells)) >> 32]
        else:
            chosen = cells[_draw(word, self._weights(swarm, cells, steer))]
        swarm.cooldown = herbivore.velocity - 1
        self._crowd[here] -= swarm.population
        self._crowd[chosen] += swarm.population
        swarm.x, swarm.y = chosen
        return chosen != here

    def _weights(self, swarm: Swarm, cells: list[tuple[int, int]], steer: int) -> list[int]:
        flow = [int(self._flow[y, x]) for x, y in cells]
        least = min(flow)
        weights = [1 + min(value - least, WEIGHT_MAX - 1) for value in flow]
        if steer:
            dx, dy = ((0, 0), (1, 0), (0, 1), (-1, 0), (0, -1))[steer - 1]
            asked = (swarm.x + dx, swarm.y + dy)
            if asked in cells:
                weights[cells.index(asked)] *= self._ground.players[swarm.species].bias
        return weights

    def _plant_at(self, x: int, y: int) -> int:
        """Row of the plant in a cell, -1 for none."""
        return int(self._occupant[y, x]) - 1

    def _eats(self, swarm: Swarm, row: int) -> bool:
        return row >= 0 and self._is_in_diet(swarm, row) and bool(self._energy[row] > 0)

    def _is_in_diet(self, swarm: Swarm, row: int) -> bool:
        return self._ground.config.diet[swarm.species][int(self._species[row])]

    def feed(self, swarm: Swarm, herbivore: Herbivore) -> None:
        """Let the swarm eat from the plant in its cell, or find that it does not like it."""
        row = self._plant_at(swarm.x, swarm.y)
        if row < 0:
            return
        if not self._is_in_diet(swarm, row):
            swarm.repelled = max(swarm.repelled, self._ground.config.crowding.taste_ticks)
            return
        there = int(self._energy[row])
        eaten = min(herbivore.consumption_rate // herbivore.velocity * swarm.population, there)
        if eaten:
            self._energy[row] = there - eaten
            self._grazed.append(row)
            self._tell(FED, swarm, eaten)
            self._eaten += eaten
            swarm.energy += eaten
            swarm.repelled = 0

    def pay_upkeep(self, swarm: Swarm, herbivore: Herbivore) -> None:
        """Take what the heads use up; those that cannot pay starve."""
        used = herbivore.upkeep * swarm.population
        self._used += used
        swarm.energy -= used
        if swarm.energy < 0:
            self._unpaid -= swarm.energy
            casualties = min(-(swarm.energy // herbivore.energy_min), swarm.population)  # ceil(deficit / energy_min)
            swarm.population -= casualties
            swarm.energy = 0
            self._crowd[swarm.x, swarm.y] -= casualties
            self._starved[swarm.species] += casualties
            self._tell(HEADS_LOST, swarm, casualties)

    def multiply(self, swarm: Swarm, herbivore: Herbivore) -> None:
        """New heads for energy that is left over; they hold it, so that none is lost or made."""
        price = multiply(herbivore.energy_min, herbivore.reproduction_divisor)
        born = max(0, swarm.energy - swarm.population * herbivore.energy_min) // price
        born = min(born, POPULATION_MAX - swarm.population)
        swarm.population += born
        self._crowd[swarm.x, swarm.y] += born
        self._born[swarm.species] += born
        if born:
            self._tell(HEADS_BORN, swarm, born)

    def _tell(self, kind: str, swarm: Swarm, amount: int) -> None:
        if self._deeds is not None:
            self._deeds.append((kind, swarm.id, swarm.species, amount))

    def divide(self, swarm: Swarm, word: int) -> Swarm:
        """Split off a daughter with half of everything, rounded down; she has no id yet."""
        cells = self._ground.cells_around(swarm.x, swarm.y)
        x, y = cells[(word * len(cells)) >> 32]
        daughter = new_swarm(swarm.species, x, y, swarm.population // 2, swarm.energy // 2)
        swarm.energy -= daughter.energy
        swarm.population -= daughter.population
        self._crowd[swarm.x, swarm.y] -= daughter.population
        self._crowd[x, y] += daughter.population
        return daughter

    def write_back(self) -> None:
        """Mark the plants that were eaten from, write their energy to the layers, count, and tell."""
        rows = np.array(self._grazed, dtype=np.int64)
        state = self._ground.state
        state.mark("plants.energy", rows)
        state.set("plants.loss_cause", rows, LossCause.FEEDING)
        write_energy(state, *plant_cells(state, rows), self._energy[rows])
        lost = state["heads_lost"].copy()
        lost[:, HeadLoss.STARVATION] += np.array(self._starved)
        write_changed(state, "heads_lost", lost)
        write_changed(state, "heads_born", state["heads_born"] + np.array(self._born))
        if self._deeds is not None:
            self._ground.chronicle.deeds(self._deeds, state["plants.id"][rows], self._species[rows])
        self._ground.note(Flow.GRAZING, self._eaten)
        self._ground.note(Flow.UPKEEP, self._used)
        self._ground.note(Flow.STARVATION, self._unpaid)


def _draw(word: int, weights: list[int]) -> int:
    """The index that a 32-bit word picks, each with probability by its weight."""
    drawn = (word * sum(weights)) >> 32
    return next(index for index, bound in enumerate(accumulate(weights)) if drawn < bound)
