"""Crafter 1.8.3: a step picks from a set of objects, whose order is that of their memory addresses."""

from __future__ import annotations

import random
from typing import Any

STEP = None


def make() -> Any:
    import crafter

    return crafter.Env(seed=7, size=(36, 36))


def play(env: Any) -> None:
    """A random game."""
    actions = random.Random(3)
    env.reset()
    for _ in range(120):
        *_, done, _ = env.step(actions.randrange(17))
        if done:
            env.reset()
