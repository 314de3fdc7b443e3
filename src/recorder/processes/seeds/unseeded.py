"""Generators of random numbers that are made or seeded without a seed: C code draws one from the system for them.

Also by code that no file holds, such as the __init__ that a dataclass gets. A copy of a generator, or one that is loaded, is made
without a seed as well, and gets a state at once, and one that is made may get a seed later: that is no such draw.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

UNSEEDED = "random.Random() without a seed"
RESEEDED = "random.seed() without a seed"
_original_seed: Any = random.Random.seed
_original_setstate: Any = random.Random.setstate
SHARED_SEED: Any = random.seed  # Of the generator that a process has once.


def replace_seeding(seeded: Callable[[Any], None], restated: Callable[[Any], None]) -> Callable[[], None]:
    """Report each generator that is seeded by the system, and each that is given a seed or a state; return what ends that."""

    def seed(generator: Any, a: Any = None, version: int = 2) -> None:
        _original_seed(generator, a, version)
        (seeded if a is None else restated)(generator)

    def setstate(generator: Any, state: Any) -> None:
        _original_setstate(generator, state)
        restated(generator)

    return _replaced(seed, setstate)


def draw_seeds(draw: Callable[[], int | None], give_back: Callable[[int], None]) -> Callable[[], None]:
    """Let generators without a seed have one that draw() gives, unless that is None; return what ends that.

    give_back: gets the seed of a generator that is given another seed or a state, and so needed none.
    """
    drawn: dict[int, tuple[Any, int]] = {}

    def seed(generator: Any, a: Any = None, version: int = 2) -> None:
        value = draw() if a is None else None
        _original_seed(generator, a if value is None else value, version)
        if value is not None:
            drawn[id(generator)] = generator, value
        else:
            forget(generator)

    def setstate(generator: Any, state: Any) -> None:
        _original_setstate(generator, state)
        forget(generator)

    def forget(generator: Any) -> None:
        if id(generator) in drawn:
            give_back(drawn.pop(id(generator))[1])

    return _replaced(seed, setstate)


def _replaced(seed: Any, setstate: Any) -> Callable[[], None]:
    """Let all generators have these two methods; return what gives them their own back."""
    kind: Any = random.Random

    def restore() -> None:
        kind.seed, kind.setstate = _original_seed, _original_setstate

    kind.seed, kind.setstate = seed, setstate
    return restore


def shared_seed(called: Callable[[], Any]) -> Callable[..., None]:
    """A substitute for random.seed that reports a call without a seed."""

    def seed(a: Any = None, version: int = 2) -> None:
        SHARED_SEED(a, version)
        if a is None:
            called()

    return seed


def seed_alike(chance: random.Random) -> Callable[..., None]:
    """Let generators without a seed have one that another generator draws, until the process ends. Only in a copy.

    Returns a substitute for random.seed that does so, too.
    """
    kind: Any = random.Random

    def seed(generator: Any, a: Any = None, version: int = 2) -> None:
        _original_seed(generator, chance.getrandbits(64) if a is None else a, version)

    kind.seed = seed
    return lambda a=None, version=2: SHARED_SEED(chance.getrandbits(64) if a is None else a, version)
