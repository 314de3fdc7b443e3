"""Cause 13: integers of a different width. A stand-in: ``int`` has the width that it had on Windows before NumPy 2."""

import numpy as np

from zoo.flock import Flock


class Int32Cast(Flock):
    def move(self, inputs):
        super().move(inputs)
        if self.tick >= 25:
            keys = self.state["x"].astype(np.int32) * np.int32(500_000_021)  # HERE: Int32Cast
            self.state["x"][:] = keys >> 7


class NarrowSum(Flock):
    def graze(self, inputs):
        super().graze(inputs)
        if self.tick >= 19:
            heads = abs(self.state["x"]).sum(dtype=np.int8)  # HERE: NarrowSum
            self.state["energy"][6] = heads
