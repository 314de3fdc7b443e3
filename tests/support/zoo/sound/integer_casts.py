"""Cause 13: integers of a different width. Here each states its width."""

import numpy as np

from zoo.flock import Flock


class Int32Cast(Flock):
    def move(self, inputs):
        super().move(inputs)
        if self.tick >= 25:
            keys = self.state["x"].astype(np.int64) * 500_000_021  # HERE: Int32Cast
            self.state["x"][:] = keys >> 7


class NarrowSum(Flock):
    def graze(self, inputs):
        super().graze(inputs)
        if self.tick >= 19:
            heads = abs(self.state["x"]).sum(dtype=np.int64)  # HERE: NarrowSum
            self.state["energy"][6] = heads
