"""Dicts that a restore brings back with equal items in a different order; the last two classes are sound."""

import json
from collections import OrderedDict

KINDS = ("ore", "wood", "salt", "clay", "fish")


class SortedBag:
    """A save that sorts keys, for a stable text; the step takes what was put in last."""

    def __init__(self):
        self.tick, self.worth = 0, 0
        self.bag = {}

    def step(self, inputs):
        self.tick += 1
        self.bag[KINDS[self.tick * 3 % 5]] = self.tick  # HERE: SortedByLoad
        if self.tick % 3 == 0:
            name, amount = self.bag.popitem()  # HERE: SortedBag
            self.worth = self.worth * 31 % 100_003 + amount + len(name)

    def save(self):
        return json.dumps({"tick": self.tick, "worth": self.worth, "bag": self.bag}, sort_keys=True).encode()

    def load(self, saved):
        state = json.loads(saved)
        self.tick, self.worth, self.bag = state["tick"], state["worth"], state["bag"]


class SortedByLoad(SortedBag):
    """The save keeps the order; the load loses it."""

    def save(self):
        return json.dumps({"tick": self.tick, "worth": self.worth, "bag": self.bag}).encode()

    def load(self, saved):
        super().load(saved)
        self.bag = dict(sorted(self.bag.items()))


class SortedQueue(SortedBag):
    """An OrderedDict has an order of its own: what was used last moves to its end, and the first one is thrown away."""

    def __init__(self):
        super().__init__()
        self.bag = OrderedDict.fromkeys(KINDS, 1)

    def step(self, inputs):
        self.tick += 1
        self.bag.move_to_end(KINDS[self.tick * 3 % 5])
        if self.tick % 3 == 0:
            name, amount = self.bag.popitem(last=False)  # HERE: SortedQueue
            self.worth = self.worth * 31 % 100_003 + amount + len(name)
            self.bag[name] = self.tick

    def load(self, saved):
        super().load(saved)
        self.bag = OrderedDict(self.bag)


class KeptBag(SortedBag):
    """The order is kept."""

    def save(self):
        return json.dumps({"tick": self.tick, "worth": self.worth, "bag": self.bag}).encode()


class SummedBag(SortedBag):
    """The order is lost, and no step reads it."""

    def step(self, inputs):
        self.tick += 1
        self.bag[KINDS[self.tick * 3 % 5]] = self.tick
        if self.tick % 3 == 0:
            name = max(self.bag)
            self.worth = self.worth * 31 % 100_003 + self.bag.pop(name) + sum(self.bag.values())
