"""Mesa models that the tests of its adapter record. Separate from the tests, since importing Mesa takes seconds."""

from __future__ import annotations

import enum
from typing import Any

import mesa
import networkx as nx
import numpy as np
from mesa.discrete_space import CellAgent, Network, OrthogonalMooreGrid, PropertyLayer


class Walker(CellAgent):
    """Walks, eats grass, breeds, dies; remembers friends and a direction that is a row of a shared array."""

    def __init__(self, model: Any, cell: Any, direction: Any) -> None:
        super().__init__(model)
        self.cell, self.direction, self.energy = cell, direction, 5.0
        self.friends: list[Any] = []
        self.seen: set[tuple[int, int]] = set()
        self.way = (0, 1)

    def step(self) -> None:
        self.cell = self.cell.neighborhood.select_random_cell()
        self.seen.add(self.cell.coordinate)
        self.way = (1, 0) if self.random.random() < 0.5 else (0, 1)
        self.energy += float(self.cell.grass) - 1.0
        self.cell.grass = 0.0
        self.direction += self.rng.normal(size=2)
        self.friends = [*self.friends[-3:], self.random.choice(self.model.agents)]
        if self.energy > 8:
            self.energy /= 2
            Walker(self.model, self.cell, self.direction.copy())
        elif self.energy < 0:
            self.remove()


class Meadow(mesa.Model):
    """A model with many traps: a layer, views of an array, a function without a name, a dict of agents."""

    def __init__(self, seed: int = 1, agents: int = 12) -> None:
        super().__init__(seed=seed)
        self.grid = OrthogonalMooreGrid((6, 6), torus=True, random=self.random)
        self.grid.add_property_layer(PropertyLayer("grass", (6, 6), 0.5, float))
        self.directions = np.zeros((agents, 2))
        self.grow = lambda grass: np.minimum(grass + 0.35, 3.0)
        Walker.create_agents(self, agents, self.random.choices(self.grid.all_cells.cells, k=agents), self.directions)
        self.favourites = {agent: agent.unique_id for agent in self.agents}
        self.corner = self.grid.all_cells.select(lambda cell: sum(cell.coordinate) < 3)

    def step(self, growth: float = 0.0) -> None:
        self.grid.grass.data = self.grow(self.grid.grass.data) + growth
        self.agents.shuffle_do("step")
        self.favourites = {agent: at for agent, at in self.favourites.items() if agent in self.agents}
        self.in_corner = len(list(self.corner.agents))


class Settler(CellAgent):
    """Moves within the surroundings of its home, which it keeps; some ask their home for them again now and then."""

    def __init__(self, model: Any, cell: Any) -> None:
        super().__init__(model)
        self.cell = self.home = cell
        self.neighborhood = cell.get_neighborhood(2)

    def step(self) -> None:
        if self.model.asks_again and self.unique_id % 2 and self.model.steps % 3 == 0:
            self.neighborhood = self.home.get_neighborhood(2)
        self.cell = self.neighborhood.select_random_cell()


class Homesteads(mesa.Model):
    """Settlers, three of whom share a home."""

    def __init__(self, seed: int = 1, *, asks_again: bool = True) -> None:
        super().__init__(seed=seed)
        self.asks_again = asks_again
        self.grid = OrthogonalMooreGrid((6, 6), random=self.random)
        for place in (0, 0, 0, 2, 3):
            Settler(self, self.grid[(place, place)])

    def step(self) -> None:
        self.agents.do("step")


class Rewiring(mesa.Model):
    """Its network changes while it runs."""

    def __init__(self) -> None:
        super().__init__(seed=2)
        self.grid = Network(nx.cycle_graph(12), random=self.random)
        for cell in self.grid.all_cells:
            Pawn(self, cell)

    def step(self) -> None:
        if self.steps % 5 == 0:
            one, other = self.random.sample(self.grid.all_cells.cells, 2)
            self.grid.add_connection(one, other)
        self.agents.do("step")


class Pawn(CellAgent):
    """Moves along the network."""

    def __init__(self, model: Any, cell: Any) -> None:
        super().__init__(model)
        self.cell = cell

    def step(self) -> None:
        self.cell = self.cell.neighborhood.select_random_cell()


class Member(mesa.Agent):
    """An agent with sets of agents, whose order it never uses; some of these have left the model."""

    def __init__(self, model: Any) -> None:
        super().__init__(model)
        self.friends: set[Any] = set()
        self.party: frozenset[Any] = frozenset()
        self.wealth = 0.0

    def step(self) -> None:
        self.wealth += self.random.random() + min(friend.wealth for friend in self.friends)
        self.friends.add(self.random.choice([one for one in self.model.agents if one is not self]))
        self.party = frozenset((self, *self.friends))


class Village(mesa.Model):
    """A model whose sets have another order after each restore, and in each run, without effect."""

    def __init__(self, members: int = 16) -> None:
        super().__init__(seed=4)
        Member.create_agents(self, members)
        self.former: frozenset[Any] = frozenset()
        self.council = set(self.random.sample(list(self.agents), 5))
        for member in self.agents:
            member.friends.update(self.random.sample([one for one in self.agents if one is not member], 4))
            member.council = self.council

    def step(self) -> None:
        self.agents.do("step")
        if self.steps % 2:
            gone = self.agents[self.steps % 5]
            self.former |= {gone}
            gone.remove()


class Extra(mesa.Agent):
    """An agent that is as any other one but for its number."""


class Crowd(mesa.Model):
    """A model with a set of agents that nothing else holds, all with the same contents."""

    def __init__(self) -> None:
        super().__init__(seed=1)
        self.waiting = {Extra(self) for _ in range(16)}
        for one in self.waiting:
            one.remove()

    def step(self) -> None:
        self.waiting.add(gone := Extra(self))
        gone.remove()


class Mood(enum.StrEnum):
    """Texts that are members of an enumeration."""

    HAPPY = "h"
    SAD = "s"


class Crate:
    """An object that is no agent."""


class Tally:
    """An object that its constructor makes again."""

    def __init__(self, members: Any) -> None:
        self.members, self.count = members, len(members)

    def __reduce__(self) -> Any:
        return Tally, (self.members,)


class Dock(mesa.Model):
    """A model with sets of one agent, of other objects, and of agents that an object reads while it is loaded."""

    def __init__(self) -> None:
        super().__init__(seed=1)
        self.crew = set(Extra.create_agents(self, 3))
        self.crates, self.moods, self.captain = {Crate()}, {Mood.HAPPY}, {self.agents[0]}
        self.tallies = [Tally(self.crew), Tally(frozenset(self.crew)), Tally(self.crates)]
        self.total = 0

    def step(self) -> None:
        self.total += sum(tally.count for tally in self.tallies) + len(self.moods)
