"""Cause 7: threads. A stand-in: the sum is combined from one part per thread, as in BLAS and numba, but in one thread.

On a machine with two processors, real threads would give the same bits most of the time; a test needs a certain difference.
"""

import os

import numpy as np

from zoo.flock import Flock


class SumByThreads(Flock):
    def graze(self, inputs):
        super().graze(inputs)
        if self.tick >= 18:
            shares = self.state["energy"] / 3
            threads = int(os.environ.get("OMP_NUM_THREADS") or 1)  # HERE: SumByThreads
            parts = [np.cumsum(part)[-1] for part in np.array_split(shares, threads)]
            self.state["energy"][12] = sum(parts)
