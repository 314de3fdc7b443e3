"""The states of random generators."""

from __future__ import annotations

import random
from typing import Any

import numpy as np


def generator_state(value: Any) -> dict[str, Any] | None:
    """The complete state of a random generator; None if value is not a generator."""
    match value:
        case random.SystemRandom():
            return {}  # It has no state: each draw asks the system.
        case random.Random():
            return {"state": value.getstate()}
        case np.random.Generator():
            return dict(value.bit_generator.state)
        case np.random.BitGenerator():
            return dict(value.state)
        case np.random.RandomState():
            return dict(value.get_state(legacy=False))
    return None
