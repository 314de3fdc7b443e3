"""As crafter.Env._balance_object of Crafter 1.8: a step picks from the creatures of a chunk, a set of objects."""

from __future__ import annotations

import collections
from typing import Any

import numpy as np

STEP = None


class Creature:
    def __init__(self, world: World, place: int) -> None:
        self.world, self.place = world, place
        self.near: set[Creature] = set()


class Cow(Creature):
    pass


class World:
    def __init__(self, seed: int) -> None:
        self.random = np.random.RandomState(seed)
        self.chunks: dict[Any, set[Creature]] = collections.defaultdict(set)
        self.objects: list[Creature] = []
        for number in range(8):
            self.objects.append((Cow if number % 2 else Creature)(self, number))
            self.chunks[np.int64(number // 4), np.int64(0)].add(self.objects[-1])
        for one in self.objects[:3]:
            one.near = set(self.objects[:3])  # Sets in sets: a digest of their contents must end.


class Game:
    def __init__(self, seed: int = 7) -> None:
        self.world = World(seed)

    def step(self, action: int) -> int:
        for objects in self.world.chunks.values():
            self.balance(objects, Cow if action else Creature)
        return sum(one.place for one in self.world.objects[:3])

    def balance(self, objects: set[Creature], cls: type) -> None:
        creatures = [obj for obj in objects if isinstance(obj, cls)]
        creatures[self.world.random.randint(0, len(creatures))].place += 1


def make() -> Any:
    return Game()


def play(game: Any) -> None:
    """Some steps."""
    for number in range(20):
        game.step(number % 2)
