"""Small simulations that tests record, in both forms, with and without marks."""

from __future__ import annotations

from typing import Any

import numpy as np

from sim import Blob, Field, RandomStream, Schema, State, Table


class Walkers:
    """Random walkers; writes without marking."""

    def __init__(self, seed: int = 0, n: int = 20) -> None:
        self.state = State(Schema(Field("x", "i8", (n,)), Field("y", "i8", (n,)), Field("rng", "u8", (4,))))
        RandomStream.seed(self.state["rng"], seed)

    def step(self, inputs: Any) -> None:
        random = RandomStream(self.state["rng"])
        for name in ("x", "y"):
            self.state[name][:] += random.integers(-1, 2, len(self.state[name]))
        for walker, distance in inputs or ():
            self.state["x"][walker] += distance


class CountedWalkers(Walkers):
    """Counts the steps of all its objects."""

    steps = 0

    def step(self, inputs: Any) -> None:
        CountedWalkers.steps += 1
        super().step(inputs)


class Herd:
    """A table that grows and shrinks, a grid and a blob; marks every write."""

    marks_writes = True

    def __init__(self, seed: int = 0) -> None:
        self.state = State(
            Schema(
                Field("tick", "i8", hot=True),
                Table("animals", Field("age", "i4"), Field("place", "i2", (2,)), capacity=2),
                Field("grass", "f4", (4, 6), row_axes=1),
                Blob("diary", capacity=8),
                Field("rng", "u8", (4,)),
            )
        )
        RandomStream.seed(self.state["rng"], seed)

    def step(self, inputs: Any) -> None:  # noqa: ARG002 - it has no inputs
        state = self.state
        tick = int(state["tick"]) + 1
        state.set("tick", 0, tick)
        random = RandomStream(state["rng"])
        draws = random.integers(0, 100, 3).tolist()
        state.mark("rng")
        if tick % 7 == 0 and state.count("animals"):
            state.truncate_rows("animals", state.count("animals") // 2)
        if draws[0] < 40:
            new = state.add_rows("animals", 1 + draws[1] % 3)
            state.set("animals.place", new, (draws[1], draws[2]))
        state.set("animals.age", slice(None), state["animals.age"] + 1)
        state.set("grass", draws[2] % 4, np.float32(draws[1]) / 8)
        if tick % 5 == 0:
            state.set_blob("diary", f"tick {tick}; ".encode() * (draws[0] % 9))


class Kinds:
    """Fields of many dtypes and shapes, booleans among them, and a table that is often empty; inputs are numbers."""

    def __init__(self, seed: int = 0) -> None:
        self.state = State(
            Schema(
                Field("tick", "i8"),
                Field("flag", "?"),
                Field("mask", "?", (2, 3)),
                Field("half", "f2", (4,)),
                Field("byte", "u1", (2, 2, 2)),
                Field("wide", "u8"),
                Field("real", "f8", (3,)),
                Table("ants", Field("place", "i2", (2,)), Field("carries", "?"), capacity=2),
                Field("rng", "u8", (4,)),
            )
        )
        RandomStream.seed(self.state["rng"], seed)
        self._events: list[dict[str, Any]] = []

    def step(self, inputs: Any) -> None:
        state = self.state
        drawn = RandomStream(state["rng"]).integers(0, 1000, 34)
        state["tick"][...] += 1
        state["flag"][...] = inputs % 3 == 0
        state["mask"][:] = drawn[:6].reshape(2, 3) % 2
        state["half"][:] = drawn[6:10] / 8
        state["byte"][:] = drawn[10:18].reshape(2, 2, 2) % 256
        state["wide"][...] = (1 << 63) + inputs
        state["real"][:] = drawn[18:21] / 7
        count = int(drawn[21]) % 6 - 2
        state.truncate_rows("ants", 0)
        if count > 0:
            new = state.add_rows("ants", count)
            state.set("ants.place", new, drawn[22:28].reshape(3, 2)[:count] - 500)
            state.set("ants.carries", new, drawn[28 : 28 + count] % 2 == 0)
        tick = int(state["tick"])
        self._events = [{"kind": "came", "count": count}] if count > 0 else []
        if tick % 10 == 0:
            self._events.append({"kind": "bell", "loud": tick % 20 == 0, "share": tick / 8, "note": "déjà"})

    def events(self) -> list[dict[str, Any]]:
        return self._events


class Saved:
    """A simulation in the save/load form, with a blob whose length changes and plain attributes."""

    def __init__(self) -> None:
        self.total = 0
        self.trail = b""
        self.grid = np.zeros((3, 2))

    def step(self, inputs: Any) -> int:
        self.total += int(inputs)
        self.trail = (self.trail + bytes([inputs % 256]))[-(self.total % 400) or None :]
        self.grid[self.total % 3] += 0.5
        return self.total

    def save(self) -> dict[str, Any]:
        return {"total": np.int64(self.total), "trail": self.trail, "grid": self.grid}

    def load(self, saved: dict[str, Any]) -> None:
        self.total, self.trail, self.grid = int(saved["total"]), saved["trail"], saved["grid"].copy()


def record(path: Any, simulation: Any, inputs: list[Any], **settings: Any) -> dict[int, bytes]:
    """Record a run and return the live state's arena at every tick."""
    from recorder import Recorder

    live: dict[int, bytes] = {}
    with Recorder(path, simulation, **settings) as tape:
        live[0] = tape.simulation.state.arena.tobytes()
        for tick, tick_inputs in enumerate(inputs, start=1):
            tape.step(tick_inputs)
            live[tick] = tape.simulation.state.arena.tobytes()
    return live
