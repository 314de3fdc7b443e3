"""Plain games for record(): it saves orders, names of one object and positions; of what it cannot save it says so."""

import functools
import itertools
import weakref

import memo_store


class Unit:
    """A unit."""

    made = 0
    alive = weakref.WeakSet()

    def __init__(self, hp):
        self.hp = hp


class Orders:
    """Dicts and sets whose order a step uses, filled and emptied."""

    def __init__(self):
        self.tick, self.total = 0, 0
        self.bag, self.cells = {}, set()

    def step(self):
        self.tick += 1
        self.bag.pop(self.tick % 4, None)
        self.bag[self.tick % 4] = self.tick
        self.cells.add(self.tick * 37 % 101 * 8)
        if len(self.cells) > 7:
            self.cells.discard(max(self.cells))
        for number, cell in zip(itertools.cycle(self.bag.values()), self.cells):
            self.total = (self.total * 31 + number + cell) % 1_000_003


class Names:
    """Objects with several names: in a list, in a dict, as a key, in a cycle of references."""

    def __init__(self):
        self.tick = 0
        self.units = [Unit(100 + number) for number in range(4)]
        self.leader = self.units[2]
        self.by_name = {f"unit {number}": unit for number, unit in enumerate(self.units)}
        self.marked = {self.units[1]: 1}
        self.units[0].friend = self.units[3]
        self.units[3].friend = self.units[0]

    def step(self):
        self.tick += 1
        self.leader.hp -= 3
        self.units[0].friend.hp += self.marked[self.units[1]]
        for unit in self.by_name.values():
            unit.hp += 1


class Positions:
    """Iterators at a position."""

    def __init__(self):
        self.tick, self.total = 0, 0
        self.turns = itertools.cycle([3, 5, 8])
        self.deck = iter([number * 7 % 101 for number in range(5000)])
        self.waves = enumerate([number * 7 % 101 for number in range(5000)])
        self.ids = itertools.count(5)

    def step(self):
        self.tick += 1
        number, strength = next(self.waves)
        self.total = (self.total * 31 + next(self.turns) + next(self.deck) + number + strength + next(self.ids)) % 1009


class RunningGenerator:
    """A generator at a position: it cannot be saved."""

    def __init__(self):
        self.tick = 0
        self.spawns = (number * number for number in range(5000))

    def step(self):
        self.tick += next(self.spawns)


class MapAndZip:
    """An iterator that calls a function: it cannot be saved."""

    def __init__(self):
        self.tick = 0
        self.spawns = map(abs, range(5000))

    def step(self):
        self.tick += next(self.spawns)


class ClassMade:
    """A counter of the class that a step reads."""

    def __init__(self):
        self.total = 0

    def step(self):
        Unit.made += 1
        self.total += Unit.made % 7


class ClassAlive:
    """A WeakSet of the class that a step counts, and that is made before the game."""

    def __init__(self):
        self.total = 0
        self.units = [Unit(3) for _ in range(5)]
        for unit in self.units:
            Unit.alive.add(unit)

    def step(self):
        unit = Unit(4)
        self.units.append(unit)
        Unit.alive.add(unit)
        del self.units[0], unit
        self.total += len(Unit.alive)


class Memo:
    """A memo of another module that a step reads."""

    def __init__(self):
        self.tick, self.total = 0, 0

    def step(self):
        self.tick += 1
        self.total += memo_store.cost(self.tick % 5, self.tick)


class WeakMembers:
    """A WeakSet in the game that a step iterates."""

    def __init__(self):
        self.total = 0
        self.units = [Unit(number * 7 % 11) for number in range(8)]
        self.watched = weakref.WeakSet(self.units)

    def step(self):
        for unit in self.watched:
            self.total = (self.total * 31 + unit.hp) % 1_000_003


class OwnCache:
    """A cache of a method that keeps results of an earlier height."""

    def __init__(self):
        self.tick, self.total = 0, 0

    @functools.lru_cache(maxsize=None)
    def cost(self, cell):
        return cell + self.tick

    def step(self):
        self.tick += 1
        self.total += self.cost(self.tick % 5)
