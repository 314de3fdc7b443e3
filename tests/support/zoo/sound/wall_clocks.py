"""Cause 14: the wall clock. Here time is counted in ticks."""

from zoo.flock import Flock


class WallClock(Flock):
    def age(self, inputs):
        super().age(inputs)
        if self.tick >= 24:
            self.state["energy"][2] += self.tick


class StepTimer(Flock):
    def move(self, inputs):
        super().move(inputs)
        self.state["x"][13] = self.tick % 3
