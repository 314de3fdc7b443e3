"""The results of the last call of an environment, which are part of its state."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

OBSERVATION = "observation"
_KEYS = "(keys)"  # Not an identifier: no key that gets a field is like this.
_KEY_CHARS_MAX = 60  # Names of fields are cut at a limit.


class ObservationItems:
    """An observation that is a dict: an attribute for each key, so that each value has a field of its own.

    An environment returns another dict at each step. The graph of objects would number and remove one at each step.
    """

    def take(self, observation: dict[str, Any]) -> None:
        """Hold these values in place of those of the step before."""
        held, keys = vars(self), (*observation,)
        if held.get(_KEYS) != keys:
            held.clear()
            held[_KEYS] = keys
        held.update(observation)

    def has_keys_of(self, observation: dict[Any, Any]) -> bool:
        """Return True for an observation with the same keys, in the same order."""
        return vars(self).get(_KEYS) == (*observation,)

    def given(self) -> dict[str, Any]:
        """The observation, its keys in the environment's order."""
        held = vars(self)
        return {key: held[key] for key in held[_KEYS]}


class LastEnvCall:
    """The results of the last call of step or reset. They are part of the state, so that a seek restores them."""

    def __init__(self) -> None:
        self.reward: Any = 0.0
        self.terminated: Any = False
        self.truncated: Any = False
        self.take(None)

    def take(self, observation: Any) -> None:
        """Hold an observation."""
        held = vars(self)
        if type(observation) is dict:
            items = held[OBSERVATION]
            if type(items) is not ObservationItems:
                items = ObservationItems()
            if items.has_keys_of(observation) or _can_be_names(observation):
                items.take(observation)
                observation = items
        held[OBSERVATION] = observation

    @property
    def observation(self) -> Any:
        """As the environment returned it."""
        held = vars(self)[OBSERVATION]
        return held.given() if type(held) is ObservationItems else held

    def clear(self) -> None:
        """Forget the results of the step before a reset. Those of a vector stay arrays: the state keeps its structure."""
        is_vector = type(self.terminated) is np.ndarray
        for name, start in (("reward", 0.0), ("terminated", False), ("truncated", False)):
            setattr(self, name, np.zeros_like(getattr(self, name)) if is_vector else start)


def _can_be_names(keys: Iterable[Any]) -> bool:
    """Return True if all keys can be names of attributes, and so of fields."""
    return all(type(key) is str and key.isidentifier() and key.isascii() and len(key) <= _KEY_CHARS_MAX for key in keys)
