"""Sets that a restore brings back with equal elements in a different order; the last two classes are sound."""

import json


class RebuiltSet:
    """A set made from a sorted list iterates in another order than the one that grew and shrank."""

    def __init__(self):
        self.tick, self.trail = 0, 0
        self.cells = {8 * number for number in range(6)}

    def step(self, inputs):
        self.tick += 1
        self.cells.add(self.tick * 37 % 101 * 8)
        if len(self.cells) > 7:
            self.cells.discard(max(self.cells))
        first = next(iter(self.cells))  # HERE: RebuiltSet
        for cell in self.cells:
            self.trail = (self.trail * 31 + cell + first) % 1_000_003

    def save(self):
        return json.dumps({"tick": self.tick, "trail": self.trail, "cells": sorted(self.cells)}).encode()

    def load(self, saved):
        state = json.loads(saved)
        self.tick, self.trail, self.cells = state["tick"], state["trail"], set(state["cells"])


class SortedSteps(RebuiltSet):
    """The step sorts the set before it uses an order."""

    def step(self, inputs):
        self.tick += 1
        self.cells.add(self.tick * 37 % 101 * 8)
        if len(self.cells) > 7:
            self.cells.discard(max(self.cells))
        for cell in sorted(self.cells):
            self.trail = (self.trail * 31 + cell) % 1_000_003


class AskedSet(RebuiltSet):
    """The set is only asked whether it holds a cell."""

    def step(self, inputs):
        self.tick += 1
        cell = self.tick * 37 % 101 * 8
        self.trail = (self.trail * 31 + (cell in self.cells)) % 1_000_003
        self.cells.add(cell)
        if len(self.cells) > 7:
            self.cells.discard(max(self.cells))
