"""The players: each sees the game and gives orders. They are not recorded; their orders are."""

import random

from outpost import MINE


class Captain:
    def __init__(self, side, seed):
        self.side, self.random = side, random.Random(f"{side} {seed}")

    def orders(self, game):
        if self.random.random() < 0.5:
            return []
        enemies = [unit for unit in game.units if unit.side != self.side and unit.distance(*MINE) <= 3]
        idle = [unit for unit in game.units if unit.side == self.side and unit.goal is None]
        if idle:
            x, y = MINE[0] + self.random.randint(-4, 4), MINE[1] + self.random.randint(-4, 4)
            return [["march", idle[0].number, x, y]]
        if game.gold[self.side] >= 15:
            return [["train", self.side]]
        if len(enemies) >= 4 and game.gold[self.side] >= 5:
            return [["fire", self.side, unit.x, unit.y] for unit in enemies[::3]]
        return []
