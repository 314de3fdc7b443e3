"""Simulations for the page of `replay view`: a field of two dimensions, a table with places, events, hostile texts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from sim import Field, RandomStream, Schema, State, Table

from small_worlds import record

TICKS, EXTRA_TICK = 60, 33  # Of the two ponds.

HOSTILE = "<img src=x onerror=\"document.title='broken'\">\u202egnol"
HEIGHT, WIDTH, FROGS = 6, 8, 5


class Pond:
    """Water that random drops raise, and frogs that walk; an input rains on one cell."""

    def __init__(self, seed: int = 1) -> None:
        self.state = State(
            Schema(
                Field("water", "i8", (HEIGHT, WIDTH)),
                Table(
                    "frogs", Field("id", "i8"), Field("x", "i8"), Field("y", "i8"), Field("energy", "f8"), capacity=8
                ),
                Field("rained", "i8"),
                Field("rng", "u8", (4,)),
            )
        )
        RandomStream.seed(self.state["rng"], seed)
        self.state.add_rows("frogs", FROGS)
        self.state["frogs.id"][:] = range(1, FROGS + 1)
        self.state["frogs.energy"][:] = 2.5
        self._events: list[dict[str, Any]] = []

    def step(self, inputs: Any) -> None:
        state, random = self.state, RandomStream(self.state["rng"])
        y, x, frog = random.integers(0, 1 << 20, 3).tolist()
        state["water"][y % HEIGHT, x % WIDTH] += 3
        state["frogs.x"][frog % FROGS] = x % WIDTH
        state["frogs.energy"][frog % FROGS] += 0.25
        self._events = [{"kind": "jump", "frog": frog % FROGS}] if frog % 4 == 0 else []
        for cell in inputs or ():
            state["water"][cell["y"], cell["x"]] += cell["drops"]
            state["rained"][...] += cell["drops"]
            self._events.append({"kind": HOSTILE, "where": HOSTILE})

    def events(self) -> list[dict[str, Any]]:
        return self._events


class MeasuredPond(Pond):
    """A pond with a figure."""

    def telemetry(self) -> dict[str, int]:
        """The figure of the tick."""
        return {"water": int(self.state["water"].sum())}


class DriftingPond(Pond):
    """A pond whose code has changed: from the twelfth drop on it loses water."""

    def step(self, inputs: Any) -> None:
        super().step(inputs)
        if int(self.state["water"].sum()) > 36:
            self.state["water"][0, 0] -= 1


class Camp:
    """A plain object that shows two kinds of things, whose sizes are 12 and 48, over a map of noughts."""

    def __init__(self) -> None:
        self.ground = np.zeros((8, 8))

    def step(self) -> None:
        """Nothing changes."""

    def layers(self) -> dict[str, Any]:
        """The map."""
        return {"ground": self.ground}

    def points(self) -> dict[str, Any]:
        """A scout and a soldier."""
        return {"scouts": [[2.0, 2.0, 12.0]], "soldiers": [[6.0, 6.0, 48.0]]}


class Unit:
    """A unit of a Game."""

    def __init__(self, hp: int) -> None:
        self.hp = hp


class Game:
    """A plain object with objects in it."""

    def __init__(self) -> None:
        self.turn = 0
        self.units = [Unit(10 * number) for number in range(1, 4)]
        self.note = HOSTILE

    def step(self) -> None:
        self.turn += 1
        self.units[self.turn % 3].hp -= 1


def inputs_of_pond(ticks: int, *, extra_tick: int | None = None) -> list[list[dict[str, int]]]:
    """Rain at ticks 10, 20 and so on; at extra_tick one more drop in cell (1, 2)."""
    rain = [[{"x": 3, "y": 4, "drops": 5}] if tick % 10 == 0 else [] for tick in range(1, ticks + 1)]
    if extra_tick is not None:
        rain[extra_tick - 1].append({"x": 1, "y": 2, "drops": 1})
    return rain


def pond_at(tick: int, extra: int | None = None) -> Pond:
    """A pond that was run to a tick by a plain loop."""
    pond = Pond()
    for inputs in inputs_of_pond(TICKS, extra_tick=extra)[:tick]:
        pond.step(inputs)
    return pond


def record_ponds(folder: Path) -> list[Path]:
    """Two recordings of a pond; the second has one more drop, at EXTRA_TICK."""
    paths = [folder / "one.tape", folder / "other.tape"]
    for path, extra in zip(paths, (None, EXTRA_TICK), strict=True):
        record(path, Pond(), inputs_of_pond(TICKS, extra_tick=extra), keyframe_interval_ticks=20)
    return paths
