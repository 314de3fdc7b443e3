"""Outpost: two sides march, mine gold and fight. Some things happen only later."""

import heapq
import random

WIDTH, HEIGHT, MINE = 24, 16, (12, 8)


class Unit:
    def __init__(self, number, side, x, y):
        self.number, self.side, self.x, self.y = number, side, x, y
        self.health = 10
        self.goal = None  # where it marches to
        self.target = None  # the enemy that it fights

    def distance(self, x, y):
        return max(abs(self.x - x), abs(self.y - y))


class Outpost:
    def __init__(self, seed=11):
        self.random = random.Random(seed)
        self.now = 0
        self.gold = {"red": 20, "blue": 20}
        self.units = []
        self.born = 0
        self.pending = []  # a heap: (turn, number, what, side, x, y)
        for side in ("red", "blue"):
            for _ in range(4):
                self.enlist(side)

    def turn(self, orders=()):
        """Play one turn. An order is ["march", unit, x, y], ["train", side] or ["fire", side, x, y]."""
        self.now += 1
        for unit in self.units:
            if self.now % 4 == 0 and unit.distance(*MINE) <= 2:
                self.gold[unit.side] += 1
        for what, who, *where in orders:
            if what == "march":
                for unit in self.units:
                    if unit.number == who:
                        unit.goal = where
            elif what == "train" and self.gold[who] >= 15:
                self.gold[who] -= 15
                self.later(8, "train", who)
            elif what == "fire":
                self.gold[who] -= 5
                self.later(3, "fire", who, *where)
        while self.pending and self.pending[0][0] <= self.now:
            self.happen(*heapq.heappop(self.pending)[2:])
        for unit in self.units:
            self.march(unit)
        for unit in self.units:
            self.fight(unit)
        self.units = [unit for unit in self.units if unit.health > 0]

    def later(self, turns, what, side, x=0, y=0):
        self.born += 1
        heapq.heappush(self.pending, (self.now + turns, self.born, what, side, x, y))

    def happen(self, what, side, x, y):
        if what == "train":
            self.enlist(side)
        for unit in self.units:
            if what == "fire" and unit.distance(x, y) <= 1:
                unit.health -= self.random.randint(1, 4)

    def enlist(self, side):
        self.born += 1
        x = self.random.randrange(3) if side == "red" else WIDTH - 1 - self.random.randrange(3)
        self.units.append(Unit(self.born, side, x, self.random.randrange(HEIGHT)))

    def march(self, unit):
        if unit.goal is not None and unit.target is None:
            unit.x += (unit.goal[0] > unit.x) - (unit.goal[0] < unit.x)
            unit.y += (unit.goal[1] > unit.y) - (unit.goal[1] < unit.y)

    def fight(self, unit):
        near = [other for other in self.units if other.side != unit.side and unit.distance(other.x, other.y) <= 1]
        unit.target = self.random.choice(near) if near else None
        if unit.target is not None:
            unit.target.health -= self.random.randint(0, 1)

    def of(self, side):
        return [unit for unit in self.units if unit.side == side]

    def count(self, side):
        return len(self.of(side))

    def points(self):  # what replay view draws
        return {side: [[unit.x + 0.5, unit.y + 0.5, unit.health] for unit in self.of(side)] for side in self.gold}

    def layers(self):
        ground = [[0.0] * WIDTH for _ in range(HEIGHT)]
        ground[MINE[1]][MINE[0]] = 1.0
        return {"mine": ground}
