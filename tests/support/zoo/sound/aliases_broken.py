"""Cause 5: aliases. Here ``load`` restores them."""

import numpy as np


class SplitAlias:
    def __init__(self):
        self.places = np.arange(4)
        self.seen = self.places

    def step(self, inputs):
        self.places += 1
        self.places[0] = self.seen.sum() % 1009

    def save(self):
        return {"places": self.places, "seen": self.seen}

    def load(self, saved):
        self.places = saved["places"].copy()
        self.seen = self.places


class LostView(SplitAlias):
    def __init__(self):
        super().__init__()
        self.seen = self.places[1:3]

    def load(self, saved):
        super().load(saved)
        self.seen = self.places[1:3]
