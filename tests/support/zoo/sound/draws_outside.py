"""Cause 2: random draws outside. Here all draws come from the stream in the state, with the correct number per tick."""

from sim import RandomStream

from zoo.flock import Flock


class GlobalRandom(Flock):
    def graze(self, inputs):
        super().graze(inputs)
        if self.tick == 25:
            self.state["energy"][3] += self.tick * 1_000_003


class NumpyRandom(Flock):
    def age(self, inputs):
        super().age(inputs)
        if self.tick >= 17:
            self.state["energy"][8] += self.tick / 8


class EntropyName(Flock):
    def move(self, inputs):
        super().move(inputs)
        if self.tick >= 21:
            self.state["x"][9] = self.tick * 1_000_003


class OneDrawMore(Flock):
    def move(self, inputs):
        super().move(inputs)
        stream = RandomStream(self.state["rng"])
        if self.tick >= 22:
            stream.words(2)  # HERE: OneDrawMore
