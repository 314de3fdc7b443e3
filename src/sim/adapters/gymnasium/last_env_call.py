"""The results of the last call of an environment, which are part of its state."""

from __future__ import annotations

from typing import Any

import numpy as np


class LastEnvCall:
    """The results of the last call of step or reset. They are part of the state, so that a seek restores them."""

    def __init__(self) -> None:
        self.observation: Any = None
        self.reward: Any = 0.0
        self.terminated: Any = False
        self.truncated: Any = False

    def clear(self) -> None:
        """Forget the results of the step before a reset. Those of a vector stay arrays: the state keeps its structure."""
        is_vector = type(self.terminated) is np.ndarray
        for name, start in (("reward", 0.0), ("terminated", False), ("truncated", False)):
            setattr(self, name, np.zeros_like(getattr(self, name)) if is_vector else start)
