"""Environments that draw a seed when they are made, before any reset: they begin equal, and get a seed at their reset.

Their first reset must come before any step, and the recorder gives it a seed if the caller does not. What was drawn
before is never used, but it would make two environments differ from the start.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

import gymnasium

from sim.adapters.capture.rng_state import is_generator

_FUNCTIONAL = {"FunctionalJaxEnv", "FunctionalJaxVectorEnv"}


def keeps_generator(env: Any) -> bool:
    """Return True if an environment has a generator of its own, in an attribute or in one of an attribute's object.

    A reset without a seed continues with that one: a seed drawn for it would change the run.
    """
    values = [value for value in vars(env).values() if not isinstance(value, gymnasium.Space)]
    inner = [one for value in values for one in getattr(value, "__dict__", {}).values()]
    return any(map(is_generator, [*values, *inner]))


def settle_unseeded_start(layers: Iterable[tuple[str, Any]]) -> None:
    """Replace the seeds that were drawn in the environments of these layers, in those that had no reset yet."""
    for _, layer in layers:
        names = {kind.__name__ for kind in type(layer).__mro__}
        if names & _FUNCTIONAL and "state" not in vars(layer):
            layer.rng = sys.modules["jax"].random.PRNGKey(0)
        elif "OrderEnforcing" in names and not layer.has_reset:
            inner = layer.unwrapped
            if type(inner).__name__ == "AtariEnv":
                inner.seed_game(0)
                inner.load_game()
                inner._np_random = None  # noqa: SLF001 - so that the first reset has a seed
