"""Memos in another module; the last two classes are sound."""

import functools
import json

import memo_store


class _March:
    def __init__(self):
        self.tick, self.total = 0, 0

    def save(self):
        return json.dumps([self.tick, self.total]).encode()

    def load(self, saved):
        self.tick, self.total = json.loads(saved)


class Unit:
    """One that marches."""

    def __init__(self, place):
        self.place = place


class MemoOfModule(_March):
    """A dict in a helper module keeps what was first computed."""

    def step(self, inputs):
        self.tick += 1
        self.total += memo_store.cost(self.tick % 5, self.tick)


class CacheOfModule(_March):
    """A cache of a function of a helper module keeps results of an earlier height."""

    def step(self, inputs):
        self.tick += 1
        memo_store.Terrain.height = self.tick
        self.total += memo_store.path_cost(self.tick % 5)  # HERE: CacheOfModule


class MemoById(_March):
    """A memo with addresses as keys."""

    def __init__(self):
        super().__init__()
        self.units = [Unit(place) for place in range(3)]

    def step(self, inputs):
        self.tick += 1
        self.total += memo_store.number_of(self.units[self.tick % 3], self.tick)


class MemoByUnit(MemoById):
    """A memo with objects as keys."""

    def step(self, inputs):
        self.tick += 1
        self.total += memo_store.first_seen(self.units[self.tick % 3], self.tick)


class CacheOfMethod(_March):
    """A cache of a method, whose keys are the objects themselves; it is not emptied when the slope changes."""

    def __init__(self):
        super().__init__()
        self.slope = 1

    @functools.lru_cache(maxsize=64)
    def way(self, place):
        return [place + self.slope]

    def step(self, inputs):
        self.tick += 1
        self.slope = self.tick // 10
        self.total += self.way(self.tick % 5)[0]  # HERE: CacheOfMethod

    def save(self):
        return json.dumps([self.tick, self.total, self.slope]).encode()

    def load(self, saved):
        self.tick, self.total, self.slope = json.loads(saved)


class PureCache(_March):
    """A cache of a pure function."""

    def step(self, inputs):
        self.tick += 1
        self.total += memo_store.square(self.tick % 5)


class WrittenMemo(_March):
    """A memo that is written, and read only where it is what would be computed."""

    def step(self, inputs):
        self.tick += 1
        kind = self.tick % 5
        self.total += memo_store.COSTS.setdefault(("square", kind), kind * kind)
