"""Cause 8: a write without a mark, which keyframes of marked rows miss, and a write to a field of a different phase."""

import numpy as np

from sim import Field, Phase, Schema, State, run_phases

from zoo.flock import Flock


class Unmarked:
    marks_writes = True

    def __init__(self):
        self.state = State(Schema(Field("tick", "i8"), Field("x", "i8", (60,)), Field("energy", "i8", (60,))))
        self.phases = (Phase("move", self.move), Phase("age", self.age))

    def step(self, inputs):
        run_phases(self.phases, inputs)

    def move(self, inputs):
        self.state.set("tick", 0, self.state["tick"] + 1)
        row = int(self.state["tick"]) % 60
        self.state.set("x", row, self.state["x"][row] + 3)

    def age(self, inputs):
        row = int(self.state["tick"]) % 7
        self.state.set("energy", row, self.state["energy"][row] + 1)
        if self.state["tick"] == 23:  # HERE: Unmarked
            self.state["energy"][40] += 5


class AnothersField(Flock):
    def age(self, inputs):
        super().age(inputs)
        if self.tick >= 25:
            np.clip(self.state["x"], -3, 3, out=self.state["x"])  # HERE: AnothersField
