"""Cause 2: random draws outside: ``random``, ``np.random``, ``uuid``; and an additional draw from the stream in the state."""

import random
import uuid

import numpy as np

from sim import RandomStream

from zoo.flock import Flock


class GlobalRandom(Flock):
    def graze(self, inputs):
        super().graze(inputs)
        if self.tick == 25:
            luck = random.randrange(10**9)  # HERE: GlobalRandom
            self.state["energy"][3] += luck


class NumpyRandom(Flock):
    def age(self, inputs):
        super().age(inputs)
        if self.tick >= 17:
            luck = np.random.random()  # HERE: NumpyRandom
            self.state["energy"][8] += luck


class EntropyName(Flock):
    def move(self, inputs):
        super().move(inputs)
        if self.tick >= 21:
            name = uuid.uuid4().int  # HERE: EntropyName
            self.state["x"][9] = name % 1_000_000_007


class OneDrawMore(Flock):
    def move(self, inputs):
        super().move(inputs)
        stream = RandomStream(self.state["rng"])
        if self.tick >= 22:
            stream.words(3)  # HERE: OneDrawMore
