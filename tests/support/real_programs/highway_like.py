"""As AbstractEnv.reset of highway-env 1.7 with the spaces of Gym: a reset makes a space and draws from it."""

from __future__ import annotations

from typing import Any

import numpy as np

STEP = None


class Space:
    def __init__(self, low: Any, high: Any) -> None:
        self.low, self.high = low, high
        self.bounded = (low > -np.inf) & (high < np.inf)
        self.generator: Any = None

    def sample(self) -> Any:
        if self.generator is None:
            seeds = np.random.SeedSequence(None)
            self.generator = np.random.Generator(np.random.PCG64(seeds))
        return self.generator.uniform(self.low, self.high)


LOW, HIGH = np.full(3, -1.0), np.full(3, 1.0)


class Drive:
    def __init__(self) -> None:
        self.time = 0
        self.place = 0.0
        self.space = Space(LOW, HIGH)

    def reset(self, seed: int | None = None) -> Any:
        self.time = 0
        self.space = Space(LOW, HIGH)
        return self.space.sample()

    def step(self, action: int) -> float:
        self.time += 1
        self.place += action
        return self.place


def make() -> Any:
    return Drive()


def play(env: Any) -> None:
    """Some steps over two episodes."""
    env.reset(seed=5)
    for number in range(8):
        env.step(number)
        if number == 4:
            env.reset(seed=5)
