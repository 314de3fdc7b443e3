"""Cause 7: threads. Here a sum has one order."""

import numpy as np

from zoo.flock import Flock


class SumByThreads(Flock):
    def graze(self, inputs):
        super().graze(inputs)
        if self.tick >= 18:
            shares = self.state["energy"] / 3
            self.state["energy"][12] = np.cumsum(shares)[-1]
