"""Iterators and generators that a restore begins again; CountedCycle, ConstantGenerator and the Unread ones are sound."""

import functools
import itertools
import json


class _Turns:
    """A tick and a sum in the state."""

    def __init__(self):
        self.tick, self.total = 0, 0

    def add(self, value):
        """Take a value into the sum."""
        self.tick += 1
        self.total = (self.total * 31 + value) % 1_000_003

    def save(self):
        return json.dumps([self.tick, self.total]).encode()

    def load(self, saved):
        self.tick, self.total = json.loads(saved)


class RestartedCycle(_Turns):
    """A cycle over three players."""

    def __init__(self):
        super().__init__()
        self.turns = itertools.cycle([3, 5, 8])

    def step(self, inputs):
        self.add(next(self.turns))  # HERE: RestartedCycle

    def load(self, saved):
        super().load(saved)
        self.turns = itertools.cycle([3, 5, 8])


class ForgottenCycle(RestartedCycle):
    """A cycle that the load does not touch."""

    def step(self, inputs):
        self.add(next(self.turns))  # HERE: ForgottenCycle

    def load(self, saved):
        self.tick, self.total = json.loads(saved)


class RestartedIterator(_Turns):
    """An iterator of a list."""

    def __init__(self):
        super().__init__()
        self.deck = iter([number * 7 % 101 for number in range(500)])

    def step(self, inputs):
        self.add(next(self.deck))  # HERE: RestartedIterator

    def load(self, saved):
        super().load(saved)
        self.deck = iter([number * 7 % 101 for number in range(500)])


class RestartedEnumerate(_Turns):
    """The position of an enumeration."""

    def __init__(self):
        super().__init__()
        self.waves = enumerate([number * 7 % 101 for number in range(500)])

    def step(self, inputs):
        number, strength = next(self.waves)  # HERE: RestartedEnumerate
        self.add(number + strength)

    def load(self, saved):
        super().load(saved)
        self.waves = enumerate([number * 7 % 101 for number in range(500)])


class RestartedGenerator(_Turns):
    """A generator that draws the spawns of a level."""

    def __init__(self):
        super().__init__()
        self.spawns = self.spawning()

    def spawning(self):
        """Yield the strength of each next spawn."""
        strength = 2
        while True:
            yield strength
            strength = strength * 5 % 97

    def step(self, inputs):
        self.add(next(self.spawns))  # HERE: RestartedGenerator

    def load(self, saved):
        super().load(saved)
        self.spawns = self.spawning()


class CountedCycle(_Turns):
    """The load forwards a new cycle to the position."""

    def __init__(self):
        super().__init__()
        self.turns = itertools.cycle([3, 5, 8])

    def step(self, inputs):
        self.add(next(self.turns))

    def load(self, saved):
        super().load(saved)
        self.turns = itertools.islice(itertools.cycle([3, 5, 8]), self.tick % 3, None)


class ConstantGenerator(_Turns):
    """A generator whose values do not depend on its position."""

    def __init__(self):
        super().__init__()
        self.spawns = self.spawning()

    def spawning(self):
        """Yield the strength of each next spawn."""
        while True:
            yield 4

    def step(self, inputs):
        self.add(next(self.spawns))

    def load(self, saved):
        super().load(saved)
        self.spawns = self.spawning()


class UnreadIterator(RestartedIterator):
    """An iterator that a step advances, and whose values no step uses."""

    def step(self, inputs):
        next(self.deck)
        self.add(self.tick)


def _signs():
    signs = itertools.cycle("|/-")
    return lambda: next(signs)


spin = _signs()
KEPT = (itertools.cycle([2, 7, 1]), 3)
draw = functools.partial(next, itertools.cycle([4, 9, 6, 5]))


class UnreadSpinner(_Turns):
    """A spinner turns, as one of a terminal: no step uses its sign."""

    def step(self, inputs):
        spin()
        self.add(self.tick)


class CycleInTuple(_Turns):
    """A cycle in a tuple of the module."""

    def step(self, inputs):
        self.add(next(KEPT[0]))  # HERE: CycleInTuple


class CycleInPartial(_Turns):
    """A cycle in a function that is called."""

    def step(self, inputs):
        self.add(draw())  # HERE: CycleInPartial
