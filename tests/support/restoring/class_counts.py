"""Counters that live in a class; the last two classes are sound."""

import itertools
import json


class Unit:
    """A unit with a number from its class."""

    count = 0
    _ids = itertools.count(1)

    def __init__(self):
        self.number = next(Unit._ids)  # HERE: ClassIds


class _Camp:
    def __init__(self):
        self.tick, self.total = 0, 0

    def save(self):
        return json.dumps([self.tick, self.total]).encode()

    def load(self, saved):
        self.tick, self.total = json.loads(saved)


class ClassCount(_Camp):
    """The number of units made so far, in the class."""

    def step(self, inputs):
        self.tick += 1
        Unit.count += 1
        self.total += Unit.count % 7  # HERE: ClassCount


class ClassIds(_Camp):
    """Numbers from a counter in the class."""

    def step(self, inputs):
        self.tick += 1
        unit = Unit()
        self.total += unit.number % 7


class OnlyCounted(_Camp):
    """A counter in a class that no step reads."""

    def step(self, inputs):
        self.tick += 1
        Unit.count += 1
        self.total += self.tick % 7


class SavedCount(_Camp):
    """A counter in a class that is saved, and that a new instance begins again."""

    def __init__(self):
        super().__init__()
        Unit.count = 0

    def step(self, inputs):
        self.tick += 1
        Unit.count += 1
        self.total += Unit.count % 7

    def save(self):
        return json.dumps([self.tick, self.total, Unit.count]).encode()

    def load(self, saved):
        self.tick, self.total, Unit.count = json.loads(saved)
