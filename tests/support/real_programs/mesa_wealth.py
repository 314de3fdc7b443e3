"""Mesa 0.8.6: the money model of its tutorial. A cell of a MultiGrid is a set of agents, in the order of addresses."""

from __future__ import annotations

from typing import Any

from mesa import Agent, Model
from mesa.space import MultiGrid
from mesa.time import RandomActivation

STEP = "step"


class MoneyAgent(Agent):
    def __init__(self, unique_id: int, model: Any) -> None:
        super().__init__(unique_id, model)
        self.wealth = 1

    def move(self) -> None:
        steps = self.model.grid.get_neighborhood(self.pos, moore=True, include_center=False)
        self.model.grid.move_agent(self, self.random.choice(steps))

    def give_money(self) -> None:
        cellmates = self.model.grid.get_cell_list_contents([self.pos])
        if len(cellmates) > 1:
            self.random.choice(cellmates).wealth += 1
            self.wealth -= 1

    def step(self) -> None:
        self.move()
        if self.wealth > 0:
            self.give_money()


class MoneyModel(Model):
    def __init__(self, seed: int) -> None:
        super().__init__()
        self.grid = MultiGrid(10, 10, torus=True)
        self.schedule = RandomActivation(self)
        for number in range(50):
            agent = MoneyAgent(number, self)
            self.schedule.add(agent)
            self.grid.place_agent(agent, (self.random.randrange(10), self.random.randrange(10)))

    def step(self) -> None:
        self.schedule.step()


def make() -> Any:
    return MoneyModel(seed=7)


def play(model: Any) -> None:
    """Some steps."""
    for _ in range(40):
        model.step()
