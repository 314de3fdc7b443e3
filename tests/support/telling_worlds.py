"""Simulations that emit events in their steps."""

from __future__ import annotations

from typing import Any

import numpy as np

from sim import Field, Schema, State, Table


class Nursery:
    """Things are born, age and die; some ticks have no events, others have many, with every kind of value."""

    def __init__(self, seed: int = 1) -> None:
        self.state = State(Schema(Field("n", "i8"), Table("things", Field("age", "i4"), capacity=4)))
        self.state["n"][()] = seed
        self._events: Any = [{"kind": "made", "seed": seed}]

    def step(self, inputs: Any) -> None:
        """Advance by one tick. inputs: the number of births."""
        state = self.state
        events: list[dict[str, Any]] = []
        state["n"][()] += 1
        n = int(state["n"])
        new = state.add_rows("things", inputs)
        of = {"weight": n / 8, "names": ["ö", b"\xff\0"]}
        events += [{"kind": "birth", "thing": row, "of": of} for row in range(new.start, new.stop)]
        ages = state["things.age"]
        ages[:] += 1
        if n % 7 == 3 and len(ages):
            events.append({"kind": "death", "ages": ages.copy(), "last": ages[-1], "pair": (n, None), "big": 2**64 - 1})
            state.truncate_rows("things", len(ages) // 2)
        self._events = tuple(events) if n % 2 else events

    def events(self) -> Any:
        """The events of the last step."""
        return self._events


class Silent(Nursery):
    """A Nursery without events."""

    events = None  # type: ignore[assignment]


class Chest:
    """A save/load simulation, which keeps its state in an attribute."""

    def __init__(self) -> None:
        self._coins = 3

    def save(self) -> dict[str, Any]:
        """Save the coins."""
        return {"coins": np.int64(self._coins)}

    def load(self, saved: Any) -> None:
        """Load the coins."""
        self._coins = int(saved["coins"])

    def step(self, inputs: int) -> None:
        """Add coins."""
        self._coins += inputs

    def events(self) -> list[dict[str, Any]]:
        """An event for an even number of coins."""
        return [{"kind": "even", "coins": self._coins}] if self._coins % 2 == 0 else []


def births(tick: int) -> int:
    """The inputs of a nursery."""
    return (tick * 5) % 4 // 2


def told_live(make: Any, inputs: Any, ticks: int) -> dict[int, list[Any]]:
    """The events of each tick of an unrecorded run, as plain data without tuples."""
    simulation = make()
    by_tick = {0: _listed(simulation.events())}
    for tick in range(1, ticks + 1):
        simulation.step(inputs(tick))
        by_tick[tick] = _listed(simulation.events())
    return by_tick


def _listed(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_listed(item) for item in value]
    return {key: _listed(item) for key, item in value.items()} if isinstance(value, dict) else value
