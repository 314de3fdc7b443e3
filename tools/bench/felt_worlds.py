"""Simulations of felt.py, which the commands import by their names: a short step, one that does nothing, and S."""

from __future__ import annotations

from typing import Any

import numpy as np
import workloads

from sim import Field, Schema, State


class Toy:
    """A step of about seven microseconds: a few sums of small arrays."""

    def __init__(self) -> None:
        self.state = State(Schema(Field("x", "i8", (64,)), Field("total", "i8")))

    def step(self, inputs: Any) -> None:
        """Add what arrived, and mix the numbers."""
        x = self.state["x"]
        for one in inputs:
            x[one % 64] += one
        x += np.roll(x, 1) & 0xFF
        self.state["total"][...] += int(x[0])


class Empty:
    """A step that does nothing."""

    def __init__(self) -> None:
        self.state = State(Schema(Field("x", "i8", (8,))))

    def step(self, inputs: Any) -> None:
        """Nothing."""


def small_entities() -> workloads.Entities:
    """The workload S."""
    return workloads.Entities("S")
