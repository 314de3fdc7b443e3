"""Cause 14: the wall clock: the time of day, and a measured duration."""

import time

from zoo.flock import Flock


class WallClock(Flock):
    def age(self, inputs):
        super().age(inputs)
        if self.tick >= 24:
            now = time.time()  # HERE: WallClock
            self.state["energy"][2] += now


class StepTimer(Flock):
    def move(self, inputs):
        super().move(inputs)
        now = time.perf_counter_ns()  # HERE: StepTimer
        self.state["x"][13] = now
