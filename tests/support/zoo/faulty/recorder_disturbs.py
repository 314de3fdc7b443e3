"""Cause 12: the recorder disturbs the run: a save empties a list, and the writer is an additional thread."""

import threading

import numpy as np

from zoo.flock import Flock


class SavingForgets:
    def __init__(self):
        self.x, self.pending = np.arange(8), []

    def step(self, inputs):
        self.pending = [*self.pending, int(self.x.sum()) % 5][-3:]
        self.x[1:] += self.x[:-1] % 3
        self.x[0] += sum(self.pending)

    def save(self):
        saved = {"x": self.x, "pending": np.array(self.pending, "i8")}
        self.pending = []  # HERE: SavingForgets
        return saved

    def load(self, saved):
        self.x, self.pending = saved["x"].copy(), saved["pending"].tolist()


class CountsThreads(Flock):
    def move(self, inputs):
        super().move(inputs)
        self.state["x"][30] += threading.active_count()  # HERE: CountsThreads
