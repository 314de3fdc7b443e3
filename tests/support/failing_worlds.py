"""Worlds that fail for some of their inputs, and plain loops that say for which."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import recorder
from sim import Field, Schema, State

LEVERS = (100_007, 100_011, 100_013)


class Levers:
    """Breaks once three levers were pulled in order; every other input leaves a trace in the state."""

    def __init__(self) -> None:
        self.state = State(Schema(Field("pulled", "i8"), Field("broken", "i8"), Field("sum", "i8")))

    def step(self, inputs: Any) -> None:
        if inputs is None:
            return
        state = self.state
        state["sum"][()] += inputs
        pulled = int(state["pulled"])
        if pulled < len(LEVERS) and inputs == LEVERS[pulled]:
            state["pulled"][...] = pulled + 1
        if int(state["pulled"]) == len(LEVERS):
            state["broken"][...] = 1


def lever_inputs(ticks: int, places: Sequence[int], seed: int = 5) -> list[int]:
    """Inputs of which those at these places, counted from 0, break the levers."""
    inputs = [random.Random(seed + tick).randrange(90_000) for tick in range(ticks)]
    for place, lever in zip(places, LEVERS, strict=True):
        inputs[place] = lever
    return inputs


class Maze:
    """A machine of a few rooms: an input leads from one to another, by a random table. One room is a trap for ever."""

    rooms, trap = 6, 5

    def __init__(self, seed: int) -> None:
        chance = random.Random(seed)
        self.table = [[chance.randrange(self.rooms) for _ in range(4)] for _ in range(self.rooms)]
        for room in range(self.rooms):
            self.table[room][0] = room if chance.random() < 0.7 else (room + 1) % (self.rooms - 1)
        self.table[self.trap] = [self.trap] * 4
        self.state = State(Schema(Field("room", "i8"), Field("steps", "i8")))

    def step(self, inputs: Any) -> None:
        self.state["steps"][...] += 1
        for move in inputs if isinstance(inputs, list) else [inputs or 0]:
            self.state["room"][...] = self.table[int(self.state["room"])][move]


def trapped_at(seed: int, inputs: Iterable[Any]) -> int | None:
    """The tick at which these inputs lead into the trap, by a loop over a table; None if they do not."""
    table, room = Maze(seed).table, 0
    for tick, given in enumerate(inputs, 1):
        for move in given if isinstance(given, list) else [given or 0]:
            room = table[room][move]
        if room == Maze.trap:
            return tick
    return None


class Till:
    """Takes lists of sales and payouts; raises in two places, one of them for an unknown article."""

    def __init__(self) -> None:
        self.state = State(Schema(Field("cash", "i8"), Field("sold", "i8", (3,)), Field("locked", "i8")))

    def step(self, inputs: Any) -> None:
        for kind, number in inputs:
            if kind == "lock":
                self.state["locked"][...] = 1
            elif kind == "pay":
                self.pay(number)
            else:
                self.sell(number)

    def sell(self, article: int) -> None:
        """Sell one piece; there are three articles."""
        if article >= 3 and int(self.state["locked"]):
            raise KeyError(f"article {article} at {int(self.state['cash'])}")
        self.state["sold"][article % 3] += 1
        self.state["cash"][...] += 2

    def pay(self, amount: int) -> None:
        """Pay out."""
        if amount > int(self.state["cash"]):
            raise KeyError(f"no cash for article {amount}")
        self.state["cash"][...] -= amount


class Robot:
    """A plain object: each second push in a row of one arm counts; the third such raises."""

    def __init__(self) -> None:
        self.arms = {"left": 0, "right": 0}
        self.last = ""
        self.log: list[str] = []

    def push(self, arm: str = "") -> int:
        """Push with an arm."""
        if arm == "neither":
            raise ValueError("a robot has two arms")
        self.log.append(arm)
        if arm and arm == self.last:
            self.arms[arm] += 1
        self.last = arm
        if self.arms["left"] >= 2:
            raise RuntimeError(f"{len(self.log)} pushes were too many")
        return len(self.log)


def record_inputs(path: Path, simulation: Any, inputs: Iterable[Any], **options: Any) -> None:
    """Record these inputs, until one of them raises."""
    with recorder.Recorder(path, simulation, trial_ms=0, **options) as tape:
        for one in inputs:
            tape.step(one)


def with_parts(ticks: int, left: Mapping[int, Any], empty: Any = None) -> list[Any]:
    """The inputs of all ticks from 1 on, those that are left and the empty one elsewhere."""
    return [left.get(tick, empty) for tick in range(1, ticks + 1)]


class Ledger:
    """Three accounts: an input moves money in one of them, and lists move several amounts. Most go to the last one."""

    def __init__(self) -> None:
        self.state = State(Schema(Field("account", "i8", (3,)), Field("doors", "i8"), Field("alarm", "i8")))

    def step(self, inputs: Any) -> None:
        for kind, amount in inputs:
            if kind == "door":  # Any one open door is enough.
                self.state["doors"][...] = 1
            elif kind == "check":
                self.state["alarm"][...] = int(self.state["doors"])
            else:
                self.state["account"][kind] += amount


class Purse:
    """Takes a list of amounts; its only figure is what it holds."""

    def __init__(self) -> None:
        self.state = State(Schema(Field("cash", "i8")))

    def step(self, inputs: Any) -> None:
        for amount in inputs:
            self.state["cash"][()] += amount

    def telemetry(self) -> dict[str, int]:
        """The cash."""
        return {"cash": int(self.state["cash"])}
