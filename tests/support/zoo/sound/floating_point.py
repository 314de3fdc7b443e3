"""Cause 6: floating point. Here results are equal on every processor, in a fixed order and in double precision."""

import numpy as np

from zoo.flock import Flock


class ExpByProcessor(Flock):
    def graze(self, inputs):
        super().graze(inputs)
        if self.tick >= 25:
            age = self.state["x"].reshape(6, 10).astype("f4")
            decay = np.float32(1) / (np.float32(1) + age * age)
            self.state["grass"][:] += decay


class TiesByProcessor(Flock):
    def move(self, inputs):
        super().move(inputs)
        if self.tick >= 26:
            ranks = np.argsort(self.state["x"] % 3, kind="stable")
            self.state["x"][:] = ranks


class SumBackwards(Flock):
    def age(self, inputs):
        super().age(inputs)
        if self.tick >= 23:
            shares = self.state["energy"] / 3
            total = float(np.cumsum(shares)[-1])  # HERE: SumBackwards
            self.state["energy"][7] = total


class SinglePrecision(Flock):
    def age(self, inputs):
        super().age(inputs)
        if self.tick >= 24:
            share = self.state["energy"] / 3  # HERE: SinglePrecision
            self.state["energy"][:] += share
