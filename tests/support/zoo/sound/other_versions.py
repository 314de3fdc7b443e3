"""Cause 9: a different version of the world: this is the recorded version."""

from zoo.flock import Flock

LIMIT = 4  # HERE: ChangedConstant


class ChangedConstant(Flock):
    def move(self, inputs):
        super().move(inputs)
        if self.tick >= 25:
            x = self.state["x"]
            x[x > LIMIT] -= LIMIT


class OffByOne(Flock):
    def graze(self, inputs):
        super().graze(inputs)
        if self.tick >= 28:
            part = self.state["x"][3:9]  # HERE: OffByOne
            total = int(part.sum())
            self.state["grass"][0, 0] = total


class ChangedComparison(Flock):
    def age(self, inputs):
        super().age(inputs)
        for row in range(60 if self.tick >= 25 else 0):
            self.feed(row)

    def feed(self, row):
        hunger = int(self.state["x"][row]) % 4
        if hunger < 2:  # HERE: ChangedComparison
            self.state["energy"][row] += 10
