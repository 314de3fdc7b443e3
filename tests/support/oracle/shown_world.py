"""A simulation with a field of each kind that viewers take, and telemetry and events that are not valid JSON."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sim import Blob, Field, RandomStream, Schema, State, Table


class Shapes:
    """Fields of many shapes and dtypes, with telemetry and events of which some are not valid JSON."""

    def __init__(self, seed: int = 0) -> None:
        self.state = State(
            Schema(
                Field("tick", "i8"),
                Field("flag", "?"),
                Field("pair", "f4", (2,)),
                Field("map", "i8", (5, 7)),
                Field("mask", "?", (6, 4)),
                Field("half", "f2", (4, 8)),
                Field("long", "u8", (40,)),
                Field("wave", "c16", (20,)),
                Field("cube", "u8", (2, 3, 4)),
                Table("ants", Field("age", "i4"), Field("place", "i2", (2,)), Field("carries", "?"), capacity=2),
                Blob("diary", capacity=8),
                Field("rng", "u8", (4,)),
            )
        )
        RandomStream.seed(self.state["rng"], seed)

    def step(self, inputs: Any) -> None:
        state = self.state
        drawn = RandomStream(state["rng"]).integers(0, 1000, 80)
        state["tick"][...] += 1
        state["flag"][...] = drawn[0] % 2
        state["pair"][:] = np.float32([drawn[1] / 7, np.nan])
        state["map"][:] = drawn[:35].reshape(5, 7) - (1 << 60) + int(inputs or 0)
        state["mask"][:] = drawn[:24].reshape(6, 4) % 2
        state["half"][:] = drawn[:32].reshape(4, 8) / 8
        state["long"][:] = (1 << 63) + drawn[:40].astype(np.uint64)
        state["wave"][:] = drawn[:20] / 3 - 1j * drawn[20:40]
        state["cube"][:] = drawn[:24].reshape(2, 3, 4)
        state.truncate_rows("ants", 0)
        count = int(drawn[60]) % 4
        if count:
            new = state.add_rows("ants", count)
            state.set("ants.age", new, drawn[:count])
            state.set("ants.place", new, drawn[:8].reshape(4, 2)[:count])
            state.set("ants.carries", new, drawn[:count] % 2 == 0)
        state.set_blob("diary", f"tick {state['tick']}".encode())

    def telemetry(self) -> dict[str, int | float]:
        tick = int(self.state["tick"])
        return {"sum": int(self.state["map"].sum()), "part": math.nan if tick % 3 else tick / 7, "far/<b>": math.inf}

    def events(self) -> list[dict[str, Any]]:
        tick = int(self.state["tick"])
        return [{"kind": "<script>", "share": math.nan, "who": b"\x00\xff", "at": tick}] if tick % 4 == 0 else []
