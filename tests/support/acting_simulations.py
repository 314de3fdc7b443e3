"""Simulations with methods that give the data of their agents, and plain loops that collect the same data beside them."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import recorder
from recorder import Recorder
from sim import Field, Schema, State

TICKS = 150
Row = dict[str, Any]


class Pond:
    """Fish that hatch and leave, with actions of several types, until it has frozen."""

    size = 5

    def __init__(self) -> None:
        fields = (
            Field("x", "f8", (self.size, 2)),
            Field("energy", "i2", (self.size,)),
            Field("gain", "f4", (self.size,)),
        )
        self.state = State(Schema(*fields, Field("tick", "i8")))
        self.state["energy"][:2] = 9

    def step(self, inputs: dict[str, Any]) -> None:
        """Move the fish, let one hatch now and then, and take energy."""
        state = self.state
        state["tick"][()] += 1
        before = state["energy"].copy()
        for number, (dx, dy, eats) in inputs.get("moves", {}).items():
            state["x"][int(number)] += (dx, dy)
            state["energy"][int(number)] += 3 if eats else -2
        state["energy"][state["energy"] > 0] -= 1
        state["energy"][state["energy"] < 0] = 0
        tick = int(state["tick"])
        if tick % 4 == 0:
            state["energy"][tick // 4 % self.size] += 7
        state["gain"][:] = (state["energy"] - before) / np.float32(3)

    def ended(self) -> tuple[str, str] | None:
        """The pond freezes."""
        return ("frozen", "the pond has frozen") if self.state["tick"] >= TICKS else None

    def agent_names(self) -> list[str]:
        """The living fish."""
        return [f"fish{number}" for number in range(self.size) if self.state["energy"][number] > 0]

    def agent_observation(self, agent: str) -> Any:
        """A view of the state, which the next step writes to, and values of other kinds."""
        number = int(agent[4:])
        near = np.flatnonzero(np.abs(self.state["x"] - self.state["x"][number]).sum(1) < 3).astype(np.int32)
        hunger = "hungry" if self.state["energy"][number] < 4 else "fed"
        return {"me": (self.state["x"][number], self.state["energy"][number]), "near": near, "hunger": hunger}

    def agent_actions(self, inputs: dict[str, Any]) -> dict[str, Any]:
        """The moves of the fish that live."""
        names = self.agent_names()
        moves = {f"fish{number}": move for number, move in inputs.get("moves", {}).items()}
        return {
            name: {"go": np.array(move[:2], np.float32), "eats": bool(move[2])}
            for name, move in moves.items()
            if name in names
        }

    def agent_reward(self, agent: str) -> Any:
        """The gain of energy in the last step."""
        return self.state["gain"][int(agent[4:])]


class Draws(Pond):
    """Its observation draws from the state, and so changes it."""

    def agent_observation(self, agent: str) -> Any:
        """Write to what the next step reads."""
        self.state["x"][int(agent[4:])] += 0.5
        return 1.0


class Cart:
    """A plain object with a dict action, resets, and a second method that makes ticks."""

    def __init__(self) -> None:
        self.random = np.random.default_rng(4)
        self.place = np.zeros(2, np.float32)
        self.last: dict[str, Any] = {}

    def reset(self) -> None:
        """Begin again."""
        self.place[:] = self.random.normal(size=2)

    def jolt(self, by: float) -> None:
        """No step of an agent."""
        self.place += np.float32(by)

    def drive(self, force: float, *, gear: dict[str, Any] | None = None) -> None:
        """A step, with a keyword."""
        if force > 2:
            raise ValueError("too much")
        self.last = {"force": force, **(gear or {})}
        self.place[1] += np.float32(force) * (gear or {}).get("ratio", 1)
        self.place[0] += self.place[1]

    def agent_names(self) -> tuple[str, ...]:
        """The only agent."""
        return ("driver",)

    def agent_observation(self, agent: str) -> Any:
        """The place itself, not a copy."""
        assert agent == "driver"
        return self.place

    def agent_actions(self, force: float, *, gear: dict[str, Any] | None = None) -> dict[str, Any]:
        """A dict action."""
        return {"driver": {"force": force, "gear": {"ratio": (gear or {}).get("ratio", 1), "low": bool(gear)}}}

    def agent_reward(self, _: str) -> float:
        """Near the middle."""
        return -abs(float(self.place[0]))


class SavingPond:
    """The pond as a simulation that keeps its state elsewhere."""

    def __init__(self) -> None:
        self.pond = Pond()
        self.step, self.ended = self.pond.step, self.pond.ended
        for name in ("agent_names", "agent_observation", "agent_actions", "agent_reward"):
            setattr(self, name, getattr(self.pond, name))

    def save(self) -> dict[str, Any]:
        """All fields."""
        return {name: self.pond.state[name].copy() for name in ("x", "energy", "gain", "tick")}

    def load(self, saved: dict[str, Any]) -> None:
        """Take them."""
        for name, array in saved.items():
            self.pond.state[name][...] = array


def moves_of(rng: np.random.Generator, pond: Any) -> dict[str, Any]:
    """The inputs of a tick: most fish move, also one that is dead."""
    numbers = [name[4:] for name in pond.agent_names() if rng.random() < 0.7] + ["0"]
    return {"moves": {n: [float(rng.normal()), float(rng.normal()), int(rng.random() < 0.6)] for n in numbers}}


def recorded_pond(path: Path, make: Callable[[], Any]) -> list[Row]:
    """Record a pond; the loop asks a second one, which is stepped without a recorder."""
    rng, beside, rows = np.random.default_rng(7), make(), []
    with Recorder(path, make(), keyframe_interval_ticks=10, durability="none") as tape:
        for tick in range(TICKS):
            inputs = moves_of(rng, beside)
            names = beside.agent_names()
            seen = {name: copy.deepcopy(beside.agent_observation(name)) for name in names}
            done = copy.deepcopy(beside.agent_actions(inputs))
            tape.step(inputs)
            beside.step(inputs)
            for name in names:
                is_there = name in beside.agent_names()
                rows.append(
                    {
                        "episode": 0,
                        "step": tick,
                        "tick": tick,
                        "agent": name,
                        "obs": seen[name],
                        "action": done.get(name),
                        "reward": copy.deepcopy(beside.agent_reward(name)),
                        "next": copy.deepcopy(beside.agent_observation(name)) if is_there else None,
                        "terminated": not is_there or beside.ended() is not None,
                        "truncated": False,
                        "seed": None,
                    }
                )
        assert beside.ended() is not None
    return rows


def recorded_cart(path: Path) -> list[Row]:
    """Record an object whose episodes begin with a reset; the loop reads a second object."""
    cart = recorder.record(
        Cart(), path, step=("drive", "reset", "jolt"), keyframe_interval_ticks=10, durability="none", quiet=True
    )
    beside, rows, rng = Cart(), [], np.random.default_rng(2)
    tick = episode = 0
    for round_number in range(6):
        if round_number:  # The first episode begins with the recording.
            cart.reset()
            beside.reset()
            tick, episode = tick + 1, episode + 1
        step = 0
        for number in range(14):
            if number == 5:
                cart.jolt(0.25)
                beside.jolt(0.25)
                tick += 1
            if number == 8:
                for one in (cart, beside):
                    with pytest.raises(ValueError, match="too much"):
                        one.drive(3.0)
                tick += 1
            force, gear = float(rng.normal()), {"ratio": 2} if number % 3 else None
            seen = beside.place.copy()
            for one in (cart, beside):
                one.drive(min(force, 2.0), gear=gear)
            action = {"force": min(force, 2.0), "gear": {"ratio": 2 if gear else 1, "low": gear is not None}}
            rows.append(
                {
                    "episode": episode,
                    "step": step,
                    "tick": tick,
                    "agent": "driver",
                    "obs": seen,
                    "action": action,
                    "reward": beside.agent_reward("driver"),
                    "next": beside.place.copy(),
                    "terminated": False,
                    "truncated": False,
                    "seed": None,
                }
            )
            tick, step = tick + 1, step + 1
    cart.close()
    return rows
