"""Simulations that tell what happens in their steps."""

from __future__ import annotations

from typing import Any

import numpy as np

from sim import Field, Schema, State, Table


class Nursery:
    """Things are born, age and die; of some ticks there is nothing to tell, of others much, of every kind."""

    def __init__(self, seed: int = 1) -> None:
        self.state = State(Schema(Field("n", "i8"), Table("things", Field("age", "i4"), capacity=4)))
        self.state["n"][()] = seed
        self._told: Any = [{"kind": "made", "seed": seed}]

    def step(self, inputs: Any) -> None:
        """Inputs: how many are born."""
        state = self.state
        told: list[dict[str, Any]] = []
        state["n"][()] += 1
        n = int(state["n"])
        new = state.add_rows("things", inputs)
        of = {"weight": n / 8, "names": ["ö", b"\xff\0"]}
        told += [{"kind": "birth", "thing": row, "of": of} for row in range(new.start, new.stop)]
        ages = state["things.age"]
        ages[:] += 1
        if n % 7 == 3 and len(ages):
            told.append({"kind": "death", "ages": ages.copy(), "last": ages[-1], "pair": (n, None), "big": 2**64 - 1})
            state.truncate_rows("things", len(ages) // 2)
        self._told = tuple(told) if n % 2 else told

    def events(self) -> Any:
        """What happened in the step."""
        return self._told


class Silent(Nursery):
    """The same without a word."""

    events = None  # type: ignore[assignment]


class Chest:
    """Keeps its state elsewhere."""

    def __init__(self) -> None:
        self._coins = 3

    def save(self) -> dict[str, Any]:
        """All of it."""
        return {"coins": np.int64(self._coins)}

    def load(self, saved: Any) -> None:
        """All of it."""
        self._coins = int(saved["coins"])

    def step(self, inputs: int) -> None:
        """Put coins in."""
        self._coins += inputs

    def events(self) -> list[dict[str, Any]]:
        """What happened."""
        return [{"kind": "even", "coins": self._coins}] if self._coins % 2 == 0 else []


def births(tick: int) -> int:
    """Inputs for a nursery."""
    return (tick * 5) % 4 // 2


def told_live(make: Any, inputs: Any, ticks: int) -> dict[int, list[Any]]:
    """The events of each tick in a run that nobody records, as plain data without tuples."""
    simulation = make()
    told = {0: _listed(simulation.events())}
    for tick in range(1, ticks + 1):
        simulation.step(inputs(tick))
        told[tick] = _listed(simulation.events())
    return told


def _listed(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_listed(one) for one in value]
    return {key: _listed(one) for key, one in value.items()} if isinstance(value, dict) else value
