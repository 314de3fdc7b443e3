"""What if the caravan had not gone to the desert? A trading game is recorded, and left again in the middle.

Run it in an empty folder: python branch_caravan.py. The game knows nothing of recorders. Each branch is compared with a
plain loop that plays the same turns without a recorder.
"""

from __future__ import annotations

import random
from typing import Any

import recorder
import replayer

GOODS = {"salt": 4, "silk": 30, "dates": 9, "tea": 15}


class Town:
    """A market with prices that follow supply."""

    def __init__(self, name: str, taste: str, danger: float) -> None:
        self.name, self.taste, self.danger = name, taste, danger
        self.stock = dict.fromkeys(GOODS, 20)

    def price(self, good: str) -> int:
        """Gold for one: scarce goods cost more."""
        scarcity = max(0.4, 2.0 - self.stock[good] / 20)
        return max(1, round(GOODS[good] * scarcity * (1.5 if good == self.taste else 1.0)))

    def restock(self, rng: random.Random) -> None:
        """A day of supply."""
        for good in GOODS:
            self.stock[good] = max(0, self.stock[good] + rng.randint(-2, 3))


class Camel:
    """An animal with a load."""

    def __init__(self, name: str) -> None:
        self.name, self.strength = name, 10
        self.load: dict[str, int] = {}

    @property
    def free(self) -> int:
        """What it can carry in addition."""
        return self.strength - sum(self.load.values())


class Caravan:
    """The game: towns in a ring, camels that carry goods, bandits, and a diary."""

    def __init__(self, seed: int = 1) -> None:
        self.rng = random.Random(seed)  # noqa: S311 - a game
        self.towns = [
            Town("Aleppo", "silk", 0.01),
            Town("Palmyra", "tea", 0.02),
            Town("Desert", "salt", 0.06),
            Town("Basra", "dates", 0.02),
        ]
        self.camels = [Camel(f"camel {number}") for number in range(4)]
        self.gold, self.day, self.here = 120, 0, 0
        self.diary: list[str] = []

    @property
    def town(self) -> Town:
        """Where the caravan is."""
        return self.towns[self.here]

    def play(self, order: str = "walk") -> None:
        """A day: "walk" to the next town, "back" to the one before, or "rest" here."""
        self.day += 1
        for town in self.towns:
            town.restock(self.rng)
        if order == "rest":
            self.recover()
        else:
            self.travel(1 if order == "walk" else -1)
        self.trade()

    def travel(self, direction: int) -> None:
        """Go to a neighbour, past the bandits."""
        self.here = (self.here + direction) % len(self.towns)
        for camel in list(self.camels):
            camel.strength = max(3, camel.strength - self.rng.randint(0, 1))
            if self.rng.random() < self.town.danger:
                self.rob(camel)

    def rob(self, camel: Camel) -> None:
        """Lose a load, or the camel."""
        if camel.load and self.rng.random() < 0.8:
            good = self.rng.choice(sorted(camel.load))
            lost = camel.load.pop(good)
            self.diary.append(f"day {self.day}: bandits took {lost} {good} from {camel.name}")
        elif len(self.camels) > 1 and self.rng.random() < 0.3:
            self.camels.remove(camel)
            self.diary.append(f"day {self.day}: {camel.name} ran away")

    def recover(self) -> None:
        """Rest makes strong."""
        for camel in self.camels:
            camel.strength = min(12, camel.strength + 2)

    def trade(self) -> None:
        """Sell, buy what is cheap here, and buy a camel from time to time."""
        self.sell()
        good = min(GOODS, key=lambda name: (self.town.price(name) / GOODS[name], name))
        for camel in self.camels:
            price = self.town.price(good)
            amount = min(camel.free, self.town.stock[good], self.gold // price)
            if amount > 0:
                camel.load[good] = camel.load.get(good, 0) + amount
                self.town.stock[good] -= amount
                self.gold -= amount * price
        if self.gold > 300:
            self.gold -= 150
            self.camels.append(Camel(f"camel {self.day}"))

    def sell(self) -> None:
        """Sell what is dear here."""
        for camel in self.camels:
            for good in sorted(camel.load):
                if self.town.price(good) > GOODS[good]:
                    amount = camel.load.pop(good)
                    self.gold += amount * self.town.price(good)
                    self.town.stock[good] += amount

    def wealth(self) -> int:
        """Gold and goods."""
        return self.gold + sum(GOODS[good] * n for camel in self.camels for good, n in camel.load.items())


def values(game: Caravan) -> Any:
    """All that the game is, to compare two of it."""
    camels = [(camel.name, camel.strength, camel.load) for camel in game.camels]
    towns = [town.stock for town in game.towns]
    return camels, towns, game.gold, game.day, game.here, game.diary, game.rng.getstate()


def played(orders: list[str]) -> Caravan:
    """The game after these orders, without a recorder."""
    game = Caravan()
    for order in orders:
        game.play(order)
    return game


def main() -> None:
    """Record, and leave the run in three ways."""
    orders = ["rest" if day % 7 == 6 else "walk" for day in range(200)]
    game = recorder.record(Caravan(), "caravan.tape", step="play", quiet=True)
    with recorder.tape_of(game):
        for order in orders:
            game.play(order)

    run = replayer.open("caravan.tape", Caravan)
    first_loss = run.first("len(diary) > 0") or 0
    run.seek(first_loss)
    print(run.subject.diary[0])

    # The other way: turn round before the first loss, and go on as before.
    fork = first_loss - 1
    with run.branch("careful.tape", at=fork) as branch:
        branch.run(instead={first_loss: "back", first_loss + 1: "rest"})
    plain = played([*orders[:fork], "back", "rest", *orders[fork + 2 :]])
    careful = replayer.open("careful.tape", Caravan)
    careful.seek(-1)
    assert values(careful.subject) == values(plain)
    print(f"careful: {careful.subject.wealth()} gold, as in a plain loop")

    # The game itself, from day 100 on: the branch records its calls.
    with run.branch("lazy.tape", at=100) as branch, branch.object as game:
        for _ in range(20):
            game.play("rest")
    assert values(end_of("lazy.tape")) == values(played(orders[:100] + ["rest"] * 20))

    # A search: of 100 ways that begin in the same state, which is the best? Nothing is written.
    run.seek(100)
    dice = random.Random(5)  # noqa: S311 - a game
    best: tuple[int, list[str]] = (0, [])
    for _ in range(100):
        way = [dice.choice(["walk", "back", "rest"]) for _ in range(10)]
        with run.fork() as other:
            for order in way:
                other.subject.play(order)
            best = max(best, (other.subject.wealth(), way))
    assert played(orders[:100] + best[1]).wealth() == best[0]
    print(f"best of 100: {best[0]} gold with {' '.join(best[1])}, as in a plain loop")


def end_of(path: str) -> Caravan:
    """The game at the end of a tape."""
    run = replayer.open(path, Caravan)
    run.seek(-1)
    return run.subject


if __name__ == "__main__":
    main()
