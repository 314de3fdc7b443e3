"""Runs of a simulation that marks its writes, and the last change of each value by a plain loop."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import recorder
from replayer.search.watched_value import ABSENT, are_same
from sim import Field, Schema, State, Table

TICKS, INTERVAL = 240, 20


class Marking:
    """Marks each write, but for one if it is told to forget it."""

    marks_writes = True

    def __init__(self, forgets_at: int = 0) -> None:
        self.state = State(
            Schema(Field("steps", "i8"), Field("cells", "i8", (40,)), Table("units", Field("hp", "i8"), capacity=2))
        )
        self.state["steps"][...] = 0
        self.forgets_at = forgets_at

    def step(self, inputs: Any) -> None:
        """Write a few cells, and add or remove a unit."""
        state = self.state
        tick = int(state["steps"]) + 1
        state.set("steps", 0, tick)
        for cell, value in inputs["cells"]:
            state.set("cells", cell, value)
        if tick == self.forgets_at:
            state["cells"][39] = tick
        if inputs["born"]:
            row = state.add_rows("units", 1)
            state.set("units.hp", row, tick)
        elif inputs["dies"] and state.count("units"):
            state.truncate_rows("units", state.count("units") - 1)


def recorded(path: Path, seed: int, forgets_at: int = 0, **options: Any) -> list[dict[str, Any]]:
    """Record a run; return the states of a plain loop."""
    chance = random.Random(seed)
    inputs = [
        {
            "cells": [[chance.randrange(8), chance.randrange(3)]] if chance.random() < 0.2 else [],
            "born": chance.random() < 0.03,
            "dies": chance.random() < 0.02,
        }
        for _ in range(TICKS)
    ]
    options = {"keyframe_interval_ticks": INTERVAL, "writes": True, "trial_ms": 0, **options}
    with recorder.Recorder(path, Marking(forgets_at), **options) as tape:
        for one in inputs:
            tape.step(one)
    plain = Marking(forgets_at)
    states = [{name: plain.state[name].copy() for name in plain.state}]
    for one in inputs:
        plain.step(one)
        states.append({name: plain.state[name].copy() for name in plain.state})
    return states


def last_change(states: list[dict[str, Any]], field: str, row: int, at: int) -> int | None:
    """The last tick up to at whose value is not that of the tick before."""
    values = [state[field][row].item() if row < len(state[field]) else ABSENT for state in states]
    changed = [tick for tick in range(1, at + 1) if not are_same(values[tick - 1], values[tick])]
    return changed[-1] if changed else None


def random_questions(states: list[dict[str, Any]], seed: int, count: int = 30) -> Iterator[tuple[str, int, int]]:
    """Field, row and tick of up to so many questions: cells, and rows that are there at that tick."""
    chance = random.Random(seed)
    for _ in range(count):
        field, row = chance.choice([("cells", chance.randrange(10)), ("units.hp", chance.randrange(4))])
        at = chance.randrange(1, TICKS + 1)
        if field == "cells" or row < len(states[at][field]):
            yield field, row, at
