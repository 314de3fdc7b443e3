"""Cause 4: caches and warm starts. Here they hold constants, or do not exist."""

import functools

from zoo.flock import Flock


@functools.lru_cache(maxsize=None)
def square(number):
    return number * number


class StaleTable(Flock):
    def __init__(self):
        super().__init__()
        self._table = {}

    def graze(self, inputs):
        super().graze(inputs)
        if "row" not in self._table:
            self._table["row"] = 3  # Constant.
        self.state["grass"][:] += self._table["row"]


class CachedCrowd(Flock):
    def move(self, inputs):
        super().move(inputs)
        self.state["x"][11] += square(self.tick)


class WarmStart(Flock):
    def age(self, inputs):
        super().age(inputs)
        wanted, guess = float(self.state["energy"][20]) + 2, 1.0
        for _ in range(3):
            guess = (guess + wanted / guess) / 2
        self.state["energy"][21] = guess
