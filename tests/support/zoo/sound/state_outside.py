"""Cause 1: hidden state. Here the state is complete."""

from zoo.flock import Flock


class HiddenAttribute(Flock):
    def move(self, inputs):
        super().move(inputs)
        self.state["x"][3] += self.tick // 7


class ModuleGlobal(Flock):
    def graze(self, inputs):
        super().graze(inputs)
        self.state["energy"][4] += self.tick // 5


class ClosureCounter(Flock):
    def age(self, inputs):
        super().age(inputs)
        self.state["grass"][1, 2] += self.tick // 6
