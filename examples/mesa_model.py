"""Record a Mesa model, go back into it, and ask what would have happened: an epidemic on a grid.

Mesa's agents can only be saved by pickle, so the recording and the replay say trust=True. Needs mesa 3.3.

Run it in an empty folder: python mesa_model.py
"""

from __future__ import annotations

from typing import Any

import mesa

import recorder
import replayer
from sim.adapters import adapt


class Person(mesa.Agent):  # type: ignore[misc]
    """Someone who walks, and may be ill for some days."""

    def __init__(self, model: Epidemic) -> None:
        super().__init__(model)
        self.ill_days = 0
        self.is_immune = False

    def walk(self) -> None:
        """Go to a cell next to this one."""
        x, y = self.pos
        cell = (x + self.random.randint(-1, 1), y + self.random.randint(-1, 1))
        self.model.grid.move_agent(self, self.model.grid.torus_adj(cell))

    def infect(self) -> None:
        """Make others in the same cell ill, by chance, and get well in the end."""
        if self.ill_days == 0:
            return
        for other in self.model.grid.get_cell_list_contents([self.pos]):
            if other.ill_days == 0 and not other.is_immune and self.random.random() < self.model.risk:
                other.ill_days = 1
        self.ill_days += 1
        if self.ill_days > 10:
            self.ill_days, self.is_immune = 0, True


class Epidemic(mesa.Model):  # type: ignore[misc]
    """People on a torus. One of them is ill at first."""

    def __init__(self, people: int = 60, risk: float = 0.5, seed: int = 7) -> None:
        super().__init__(seed=seed)
        self.grid = mesa.space.MultiGrid(12, 12, torus=True)
        self.risk = risk
        for person in Person.create_agents(self, people):
            self.grid.place_agent(person, (self.random.randrange(12), self.random.randrange(12)))
        self.agents[0].ill_days = 1

    def step(self) -> None:
        """A day."""
        self.agents.shuffle_do("walk")
        self.agents.do("infect")

    @property
    def ill(self) -> int:
        """The number of people who are ill."""
        return sum(person.ill_days > 0 for person in self.agents)


def trusted() -> Any:
    """Make the model for a replay."""
    return adapt(Epidemic(), trust=True)


def main() -> None:
    """Record 60 days, find the worst one, and leave the run ten days before it with another risk."""
    live = []
    with recorder.record(Epidemic(), "epidemic.tape", trust=True, quiet=True) as model:
        for _ in range(60):
            model.step()
            live.append(model.ill)

    run = replayer.open("epidemic.tape", world=trusted)
    worst = 1 + live.index(max(live))
    run.seek(worst)
    assert run.subject.ill == max(live)
    print(f"day {worst}: {run.subject.ill} ill, as in the live run; all days the same: {run.verify().ok}")

    plain = Epidemic()  # The same in a loop without a recorder.
    for day in range(worst):
        plain.risk = 0.5 if day < worst - 10 else 0.2
        plain.step()
    run.seek(worst - 10)
    with run.fork() as fork:
        fork.subject.risk = 0.2
        for _ in range(10):
            fork.step(None)  # Inputs as they are recorded: a step without arguments.
        assert fork.subject.ill == plain.ill
        print(f"with a risk of 20 % in the ten days before: {fork.subject.ill} ill, as in a plain loop")


if __name__ == "__main__":
    main()
