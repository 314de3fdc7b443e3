"""The base simulation of the zoo, which the others change in one place: sixty animals that walk, graze and age."""

from __future__ import annotations

from typing import Any

import numpy as np

from sim import Field, Phase, RandomStream, Schema, State, run_phases


class Flock:
    """Three phases, no hidden state; floats are only added, multiplied and divided."""

    def __init__(self) -> None:
        self.state = State(
            Schema(
                Field("tick", "i8"),
                Field("x", "i8", (60,)),
                Field("energy", "f8", (60,)),
                Field("grass", "f4", (6, 10)),
                Field("rng", "u8", (4,)),
            )
        )
        RandomStream.seed(self.state["rng"], 5)
        self.state["grass"][:] = np.arange(60).reshape(6, 10) / 16
        self.phases = (
            Phase("move", self.move, writes={"tick", "x", "rng"}),
            Phase("graze", self.graze, writes={"energy", "grass"}),
            Phase("age", self.age, writes={"energy", "grass"}),
        )

    @property
    def tick(self) -> int:
        return int(self.state["tick"])

    def step(self, inputs: Any) -> None:
        run_phases(self.phases, inputs)

    def move(self, inputs: Any) -> None:  # noqa: ARG002
        self.state["tick"][()] += 1
        self.state["x"][:] += RandomStream(self.state["rng"]).integers(-2, 3, 60)

    def graze(self, inputs: Any) -> None:  # noqa: ARG002
        eaten = self.state["grass"] / 8
        self.state["grass"][:] -= eaten - np.float32(0.25)
        self.state["energy"][:] += eaten.reshape(-1)

    def age(self, inputs: Any) -> None:  # noqa: ARG002
        self.state["energy"][:] *= 0.9375
