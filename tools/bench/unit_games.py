"""Games of plain Python objects, as most users write them, for objects.py: units in a dict and in an order list.

Each unit has six attributes and a path. The random generator is ``random.Random``. In a tick a share of the units moves,
in turn; in the games with births and deaths a hundredth of the units also dies, and as many are born.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from typing import Any

PATH_LENGTH_MAX = 8
BIRTHS = "births"  # Instead of a share: a tenth moves, a hundredth dies, a hundredth is born.
CHANGES: dict[str, float] = {"0 %": 0.0, "1 %": 0.01, "10 %": 0.1, "100 %": 1.0, BIRTHS: 0.1}


class Unit:
    """One unit."""

    def __init__(self, number: int, x: float, y: float) -> None:
        self.number = number
        self.x = x
        self.y = y
        self.health = 100
        self.owner = "red" if number % 2 else "blue"
        self.target: int | None = None
        self.path: list[tuple[float, float]] = [(x, y)]

    def move(self, rng: random.Random) -> None:
        """Go a small way; forget the oldest part of the path."""
        self.x += rng.random() - 0.5
        self.y += rng.random() - 0.5
        self.health = self.health - 1 or 100
        self.target = self.number - 1 if self.target is None else None
        self.path.append((self.x, self.y))
        if len(self.path) > PATH_LENGTH_MAX:
            del self.path[0]


class Game:
    """Units that move in turn."""

    def __init__(self, unit_count: int, moving: float, births: float = 0.0) -> None:
        """moving, births: the shares of the units that move, and that die and are born, in a tick."""
        self.rng = random.Random(1)
        self.units: dict[int, Unit] = {}
        self.order: list[Unit] = []
        self.time = 0
        self.next_number = 0
        self.moving_count = max(1, int(unit_count * moving)) if moving else 0
        self.births_count = max(1, int(unit_count * births)) if births else 0
        for _ in range(unit_count):
            self.add_unit()

    def add_unit(self) -> None:
        """Let a unit be born."""
        unit = Unit(self.next_number, self.rng.random() * 100, self.rng.random() * 100)
        self.next_number += 1
        self.units[unit.number] = unit
        self.order.append(unit)

    def step(self, _: Any = None) -> None:
        """One tick."""
        self.time += 1
        count, first = len(self.order), self.time * self.moving_count
        for offset in range(self.moving_count):
            self.order[(first + offset) % count].move(self.rng)
        for _number in range(self.births_count):
            dead = self.order.pop(self.rng.randrange(len(self.order)))
            del self.units[dead.number]
            self.add_unit()


def make_game(unit_count: int, change: str) -> Game:
    """Make a game. change: a key of CHANGES."""
    return Game(unit_count, CHANGES[change], 0.01 if change == BIRTHS else 0.0)


def record_object(subject: Any, path: Any, *what: Any, **options: Any) -> tuple[Any, bool]:
    """Record an object, by pickle only if there is no other way. Return it, and True if pickle was needed."""
    return _without_pickle(partial(_recorder().record, subject, path, *what, quiet=True, **options))


def adapt_object(subject: Any, *what: Any) -> Any:
    """Adapt an object, by pickle only if there is no other way."""
    from sim.adapters import adapt  # noqa: PLC0415

    return _without_pickle(partial(adapt, subject, *what))[0]


def _without_pickle(call: Callable[..., Any]) -> tuple[Any, bool]:
    from sim.adapters import NotCapturedError  # noqa: PLC0415

    try:
        return call(), False
    except NotCapturedError:
        return call(trust=True), True


def _recorder() -> Any:
    import recorder  # noqa: PLC0415 - a plain run imports nothing of it

    return recorder


def verify_world() -> Any:
    """The simulation of the tape that objects.py verifies."""
    from sim.adapters import fields  # noqa: PLC0415

    return adapt_object(make_game(*VERIFIED), fields())


VERIFIED = (2_000, "10 %")
