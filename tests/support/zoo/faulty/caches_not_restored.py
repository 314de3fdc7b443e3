"""Cause 4: caches of earlier states, and the warm start of an iteration, which keyframes do not hold."""

import functools

from zoo.flock import Flock


class StaleTable(Flock):
    def __init__(self):
        super().__init__()
        self._table = None

    def graze(self, inputs):
        super().graze(inputs)
        if self._table is None:
            self._table = self.state["x"].reshape(6, 10) * 2
        self.state["grass"][:] += self._table  # HERE: StaleTable


class CachedCrowd(Flock):
    @functools.lru_cache(maxsize=None)
    def crowd(self, decade):
        return int(self.state["x"].max())

    def move(self, inputs):
        super().move(inputs)
        crowd = self.crowd(self.tick // 100)  # HERE: CachedCrowd
        self.state["x"][11] += crowd


class WarmStart(Flock):
    def __init__(self):
        super().__init__()
        self._guess = 1.0

    def age(self, inputs):
        super().age(inputs)
        wanted, guess = float(self.state["energy"][20]) + 2, self._guess  # HERE: WarmStart
        for _ in range(3):
            guess = (guess + wanted / guess) / 2
        self._guess = guess
        self.state["energy"][21] = guess
