"""Runs to ask questions about: each is kept by a plain loop beside its recording, which the answers are compared with."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np

import recorder
from sim import Field, Phase, Schema, State, Table, run_phases

ROWS = 6
TICKS, INTERVAL = 150, 20  # Of the runs that questions are asked of.


class Garden:
    """A table whose rows are born, change, come back to an old value, and die; and a small grid."""

    def __init__(self, seed: int = 0) -> None:
        self.state = State(
            Schema(
                Table("plants", Field("id", "i8"), Field("energy", "i8")),
                Field("heat", "f8", (3, 4)),
                Field("seed", "i8"),
                Field("steps", "i8"),
            )
        )
        self.state["seed"][...] = seed
        rows = self.state.add_rows("plants", ROWS)  # Before the column is read: its rows are counted then.
        self.state["plants.id"][rows] = range(1, ROWS + 1)
        self.phases = [Phase("grow", self._grow), Phase("weather", self._weather)]

    def step(self, inputs: Any) -> None:
        """Run both phases."""
        self.state["steps"][...] += 1
        run_phases(self.phases, inputs)

    def _chance(self) -> random.Random:
        return random.Random(int(self.state["seed"]) * 100_003 + int(self.state["steps"]))

    def _grow(self, inputs: Any) -> None:
        chance, state = self._chance(), self.state
        for row in range(state.count("plants")):
            if chance.random() < 0.05:
                state["plants.energy"][row] += chance.choice([-3, 2, 1000])
                if chance.random() < 0.3:
                    state["plants.energy"][row] = 5
        if chance.random() < 0.03:
            row = chance.randrange(ROWS)
            state["plants.id"][row] = int(state["plants.id"].max()) + 1
            state["plants.energy"][row] = 5
        if inputs is not None:
            state["plants.energy"][inputs["row"]] += inputs["food"]

    def _weather(self, inputs: Any) -> None:  # noqa: ARG002 - the signature of a phase
        chance = self._chance()
        if chance.random() < 0.1:
            self.state["heat"][chance.randrange(3), chance.randrange(4)] = chance.choice([0.0, 0.5, float("nan")])

    def telemetry(self) -> dict[str, int]:
        """One figure a tick."""
        return {"energy": int(self.state["plants.energy"].sum())}


class Knight:
    """A member of a plain game."""

    def __init__(self, number: int) -> None:
        self.number, self.hp, self.mood = number, 10, "calm"


class Battle:
    """A plain game of objects: members are hurt, healed, removed and added."""

    def __init__(self, seed: int = 0) -> None:
        self.rng = random.Random(seed)
        self.knights = [Knight(number) for number in range(ROWS)]
        self.gold = {"red": 0, "blue": 0}

    def hurt(self, knight: Knight, damage: int) -> None:
        """Change a value in a function of its own."""
        knight.hp -= damage

    def step(self, bonus: int | None = None) -> None:
        """One round."""
        if bonus is not None:
            self.gold["red"] += bonus
        for knight in list(self.knights):
            if self.rng.random() < 0.1:
                self.hurt(knight, self.rng.choice([1, 4, -2]))
                knight.mood = "angry" if knight.hp < 5 else "calm"
            if knight.hp <= 0:
                self.knights.remove(knight)
        if self.rng.random() < 0.05:
            self.knights.append(Knight(len(self.knights)))


def garden_run(path: Path, seed: int, ticks: int, interval: int) -> list[dict[str, np.ndarray[Any, Any]]]:
    """Record a garden; return copies of its fields at each tick, taken by a loop without a recorder."""
    chance = random.Random(seed)
    inputs = [{"row": chance.randrange(ROWS), "food": 1} if chance.random() < 0.05 else None for _ in range(ticks)]
    with recorder.Recorder(path, Garden(seed), keyframe_interval_ticks=interval) as tape:
        for one in inputs:
            tape.step(one)
    plain = Garden(seed)
    states = [{name: plain.state[name].copy() for name in plain.state}]
    for one in inputs:
        plain.step(one)
        states.append({name: plain.state[name].copy() for name in plain.state})
    return states


def battle_run(path: Path, seed: int, ticks: int, interval: int) -> list[dict[str, Any]]:
    """Record a battle; return plain copies of its values at each tick, taken by a loop without a recorder."""
    inputs = [3 if tick % 11 == 0 else None for tick in range(ticks)]
    with recorder.record(Battle(seed), path, keyframe_interval_ticks=interval, trial_ms=0, quiet=True) as game:
        for one in inputs:
            game.step(one)
    plain = Battle(seed)
    states = [_copied(plain)]
    for one in inputs:
        plain.step(one)
        states.append(_copied(plain))
    return states


def _copied(battle: Battle) -> dict[str, Any]:
    return {
        "hp": [knight.hp for knight in battle.knights],
        "mood": [knight.mood for knight in battle.knights],
        "gold": dict(battle.gold),
    }
