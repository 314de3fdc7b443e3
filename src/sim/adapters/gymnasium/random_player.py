"""Play an environment by random actions, to try it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gymnasium.vector import VectorEnv

from sim.adapters.gymnasium.inputs import encode_action, encode_reset
from sim.adapters.gymnasium.vector import must_reset


def random_player(simulation: Any, seed: int) -> Callable[[], Any]:
    """Random actions from a seed, and a reset when an episode is over; a vector resets itself, or not at all."""
    env, last, begun = simulation.env, simulation.last, False
    env.action_space.seed(seed)

    def play() -> Any:
        nonlocal begun
        is_over = last.terminated or last.truncated if not isinstance(env, VectorEnv) else must_reset(env, last)
        if not begun or is_over:
            call = encode_reset(None if begun else seed, None, None)
            begun = True
            return call
        return encode_action(env.action_space.sample())

    return play
