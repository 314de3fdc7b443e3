"""Small simulations of three forms, and the same rules as plain loops over Python numbers: the truth."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Protocol

import numpy as np

from sim import Blob, Field, Schema, State, Table
from sim.kernel.state import Snapshot

MASK = (1 << 64) - 1
CELLS = 12
ANTS_MAX = 9
RAISES = -1  # Inputs at which the step of each simulation raises, halfway.

Plain = Mapping[str, Any]  # Lists of numbers and bytes, by field.


class StepRefusedError(Exception):
    """The simulation was given the inputs at which it raises."""


class Cells:
    """A total and some cells; writes without marking."""

    def __init__(self) -> None:
        self.state = State(Schema(Field("total", "u8"), Field("cells", "u8", (CELLS,))))

    def step(self, inputs: int) -> None:
        """Add to the total, and change one cell."""
        total = self.state["total"]
        total[...] = (int(total) * 5 + inputs) & MASK
        if inputs == RAISES:
            raise StepRefusedError
        self.state["cells"][inputs % CELLS] ^= int(total)


class Ants:
    """A table that grows and shrinks, and a blob; marks every write, and emits events."""

    marks_writes = True

    def __init__(self) -> None:
        table = Table("ants", Field("age", "i4"), capacity=2)
        self.state = State(Schema(Field("steps", "i8", hot=True), table, Blob("diary", capacity=4)))
        self._events: list[dict[str, Any]] = []

    def step(self, inputs: int) -> None:
        """Add ants and age them; too many of them leave."""
        state = self.state
        state.set("steps", 0, int(state["steps"]) + 1)
        if inputs == RAISES:
            raise StepRefusedError
        new = state.add_rows("ants", inputs % 4)
        if inputs % 4:
            state.set("ants.age", new, inputs % 7)
        state.set("ants.age", slice(None), state["ants.age"] + 1)
        if state.count("ants") > ANTS_MAX:
            state.truncate_rows("ants", inputs % 5)
        if inputs % 3 == 0:
            state.set_blob("diary", bytes([inputs % 256]) * (inputs % 11))
        self._events = [{"kind": "many", "count": state.count("ants")}] if inputs % 2 else []

    def events(self) -> list[dict[str, Any]]:
        """The events of the last step."""
        return self._events


class Trail:
    """A simulation in the save/load form: a total, and a blob whose length changes."""

    def __init__(self) -> None:
        self.total, self.trail = 0, b""

    def step(self, inputs: int) -> int:
        """Add to the total and to the trail."""
        self.total = (self.total * 3 + inputs) % 9973
        if inputs == RAISES:
            raise StepRefusedError
        self.trail = (self.trail + bytes([inputs % 256]))[-(self.total % 40) or None :]
        return self.total

    def save(self) -> dict[str, Any]:
        """The complete state."""
        return {"total": np.int64(self.total), "trail": self.trail}

    def load(self, saved: Mapping[str, Any]) -> None:
        """Replace the complete state."""
        self.total, self.trail = int(saved["total"]), saved["trail"]


class Rules(Protocol):
    """A simulation by name: how it is made, and its rules as a plain loop."""

    make: ClassVar[Any]
    start: ClassVar[Plain]

    def advance(self, plain: Plain, inputs: int) -> Plain:
        """The state after a step."""

    def read(self, state: State | Snapshot) -> Plain:
        """The values in a state, in the form of the truth."""


class CellRules:
    """The rules of Cells."""

    make = Cells
    start: ClassVar[Plain] = {"total": 0, "cells": [0] * CELLS}

    def advance(self, plain: Plain, inputs: int) -> Plain:
        """See Rules."""
        total = (plain["total"] * 5 + inputs) & MASK
        cells = list(plain["cells"])
        cells[inputs % CELLS] ^= total
        return {"total": total, "cells": cells}

    def read(self, state: State | Snapshot) -> Plain:
        """See Rules."""
        return {"total": int(state["total"]), "cells": state["cells"].tolist()}


class AntRules:
    """The rules of Ants."""

    make = Ants
    start: ClassVar[Plain] = {"steps": 0, "ages": [], "diary": b""}

    def advance(self, plain: Plain, inputs: int) -> Plain:
        """See Rules."""
        ages = [age + 1 for age in [*plain["ages"], *[inputs % 7] * (inputs % 4)]]
        if len(ages) > ANTS_MAX:
            ages = ages[: inputs % 5]
        diary = plain["diary"] if inputs % 3 else bytes([inputs % 256]) * (inputs % 11)
        return {"steps": plain["steps"] + 1, "ages": ages, "diary": diary}

    def read(self, state: State | Snapshot) -> Plain:
        """See Rules."""
        ages = state["ants.age"].tolist()
        return {"steps": int(state["steps"]), "ages": ages, "diary": bytes(state.blob("diary"))}


class TrailRules:
    """The rules of Trail."""

    make = Trail
    start: ClassVar[Plain] = {"total": 0, "trail": b""}

    def advance(self, plain: Plain, inputs: int) -> Plain:
        """See Rules."""
        total = (plain["total"] * 3 + inputs) % 9973
        return {"total": total, "trail": (plain["trail"] + bytes([inputs % 256]))[-(total % 40) or None :]}

    def read(self, state: State | Snapshot) -> Plain:
        """See Rules."""
        return {"total": int(state["total"]), "trail": bytes(state.blob("trail"))}


RULES: Mapping[str, Rules] = {"cells": CellRules(), "ants": AntRules(), "trail": TrailRules()}
