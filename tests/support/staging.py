"""Scenarios around small worlds, shown as short lines; a save/load world that takes inputs in each form."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np
from tiny_roles import Ring

from sim.kernel.messages import Event
from sim.scenario.config.scenario import read_scenario_config
from sim.scenario.scenario_simulation import ScenarioSimulation

ADVERSARY, TRIGGER, NETWORK, RECONFIGURATION = 210, 211, 212, 213  # Phases in the keys of random draws.


def staged(plain: Mapping[str, Any], world: Any = None, functions: Any = None) -> ScenarioSimulation:
    """Put a scenario around a world; by default a ring of a and b in which only a sends."""
    world = world if world is not None else Ring("ab", quiet="b")
    return ScenarioSimulation(world, read_scenario_config(plain), plain, functions)


def told(event: Event) -> str:
    """An event as a short line; it omits only the label of Ring's messages and the names of a sample's keys."""
    rest = dict(event)
    kind = rest.pop("kind")
    words = [kind, *([rest.pop("by")] if "by" in rest else [])]
    if "remaining" in rest:
        return " ".join([*words, f"{rest.pop('consumed')}/{rest.pop('remaining')}", rest.pop("detail"), *rest])
    if "diagnostic" in rest:
        return " ".join([*words, rest.pop("diagnostic"), *rest])
    if kind == "sample":
        return f"sample {rest['role']} {[value / (1 << 32) for value in rest['values']]} step={rest['step']}"
    if "message" in rest:
        peer = f">{rest.pop('to')}" if "to" in rest else f"<{rest.pop('from')}"
        words.append(f"{rest.pop('role')}{peer} {rest.pop('message')}")
        if rest.pop("label", "count") != "count":
            words.append(str(event["label"]))
        words += [f"+{rest.pop('ticks')}"] if "ticks" in rest else []
    return " ".join([*words, *(f"{key}={value}" for key, value in rest.items())])


def happened(
    plain: Mapping[str, Any],
    ticks: int,
    world: Any = None,
    *,
    inputs: Callable[[int], Any] = lambda _: None,
    without: Collection[str] = ("sent", "sample"),
) -> tuple[list[str], ScenarioSimulation]:
    """Run a scenario; return a line for each event, with its tick, and the simulation."""
    simulation = staged(plain, world)
    lines = []
    for tick in range(1, ticks + 1):
        simulation.step(inputs(tick))
        lines += [f"{tick} {told(event)}" for event in simulation.events() if event["kind"] not in without]
    return lines, simulation


def totals(simulation: ScenarioSimulation) -> list[int]:
    """The sums of the numbers that the roles of a ring have received."""
    return [int(total) for total in simulation.state["total"]]


class Tally:
    """A save/load simulation that logs the inputs of its step, which must be plain data that JSON can hold."""

    def __init__(self) -> None:
        self.steps, self.log = 0, b""

    def step(self, inputs: Any) -> int:
        self.steps += 1
        self.log = (self.log + json.dumps(inputs, default=_listed).encode() + b"\n")[-400:]
        return self.steps

    def save(self) -> dict[str, Any]:
        return {"steps": np.int64(self.steps), "log": self.log}

    def load(self, saved: dict[str, Any]) -> None:
        self.steps, self.log = int(saved["steps"]), saved["log"]


def _listed(array: Any) -> Any:
    return array.tolist()


def given_to(plain: Mapping[str, Any], inputs: Sequence[Any]) -> list[Any]:
    """The inputs that a Tally with a scenario around it gets at each tick."""
    simulation = staged(plain, Tally())
    received = []
    for tick_inputs in inputs:
        simulation.step(tick_inputs)
        received.append(json.loads(simulation.state.blob("log").splitlines()[-1]))
    return received


class SavedRing:
    """A save/load simulation of a ring of three, with messages of its own."""

    def __init__(self, capacity: int = 100) -> None:
        self._ring = Ring("abc", capacity)
        self.roles, self.step, self.deliver = self._ring.roles, self._ring.step, self._ring.deliver
        self.buffered_count, self.events, self.sample = self._ring.buffered_count, self._ring.events, self._ring.sample

    @property
    def router(self) -> Any:
        return self._ring.router

    @router.setter
    def router(self, router: Any) -> None:
        self._ring.router = router

    @property
    def paused(self) -> frozenset[str]:
        return self._ring.paused

    @paused.setter
    def paused(self, paused: frozenset[str]) -> None:
        self._ring.paused = paused

    def save(self) -> dict[str, Any]:
        numbers = {name: self._ring.state[name].copy() for name in ("count", "total", "number")}
        return {**numbers, "buffers": self._ring.state.blob("buffers")}

    def load(self, saved: dict[str, Any]) -> None:
        for name in ("count", "total", "number"):
            self._ring.state[name][...] = saved[name]
        self._ring.state.set_blob("buffers", saved["buffers"])
