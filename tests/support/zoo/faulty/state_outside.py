"""Cause 1: hidden state: an attribute, a module global, a closure."""

from zoo.flock import Flock

STEPS = 0


class HiddenAttribute(Flock):
    def __init__(self):
        super().__init__()
        self._memo = 0

    def move(self, inputs):
        super().move(inputs)
        self._memo += 1
        self.state["x"][3] += self._memo // 7  # HERE: HiddenAttribute


def bonus():
    global STEPS
    STEPS += 1
    return STEPS // 5  # HERE: ModuleGlobal


class ModuleGlobal(Flock):
    def graze(self, inputs):
        super().graze(inputs)
        extra = bonus()
        self.state["energy"][4] += extra


def _make_winter():
    seen = 0

    def winter():
        nonlocal seen
        seen += 1
        return seen // 6  # HERE: ClosureCounter

    return winter


class ClosureCounter(Flock):
    winter = staticmethod(_make_winter())

    def age(self, inputs):
        super().age(inputs)
        snow = self.winter()
        self.state["grass"][1, 2] += snow
