"""Environments that draw a seed when they are made, before any reset: they begin equal, and get a seed at their reset.

Their first reset must come before any step, and the recorder gives it a seed if the caller does not. What was drawn
before is never used, but it would make two environments differ from the start.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

_FUNCTIONAL = {"FunctionalJaxEnv", "FunctionalJaxVectorEnv"}


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
