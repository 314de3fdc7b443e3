"""highway-env 1.7: each reset ignores its seed and draws from a new space, whose generator has no seed."""

from __future__ import annotations

import random
from typing import Any

import gym
import highway_env  # noqa: F401 - it registers its environments

STEP = None


def make() -> Any:
    return gym.make("highway-fast-v0", config={"vehicles_count": 4}, disable_env_checker=True).unwrapped


def play(env: Any) -> None:
    """Some steps at random, over two episodes."""
    actions = random.Random(3)
    env.reset(seed=5)
    for number in range(8):
        env.step(actions.randrange(5))
        if number == 4:
            env.reset(seed=5)
