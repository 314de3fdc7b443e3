"""Cause 8: unmarked and undeclared writes. Here every write is marked, and each phase writes its own fields."""

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


class AnothersField(Flock):
    def age(self, inputs):
        super().age(inputs)
        if self.tick >= 25:
            np.clip(self.state["energy"], 0, 9, out=self.state["energy"])  # HERE: AnothersField
