"""Libraries whose threads a forked child lacks, so that it would wait for them forever."""

from __future__ import annotations

import sys


class ForkHazardError(RuntimeError):
    """A library with threads of its own has been used in this process, which can no longer be forked."""


def fork_hazard() -> str | None:
    """The name of a library that was used in this process and does not work in a forked child; None if there is none.

    JAX: its computations wait for threads that the child does not have. An import alone starts none.
    """
    bridge = sys.modules.get("jax._src.xla_bridge")
    if bridge is None:
        return None
    return "JAX" if getattr(bridge, "_backends", True) else None  # True: a version that keeps them elsewhere.
