"""Vectors of environments as one simulation: a tick is one call of their step or reset, with all their actions.

The state is that of the vector, of its wrappers, and of each environment that it steps in this process. Environments
that the vector resets by itself are part of a step: no tick of their own begins there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import VectorWrapper

from sim.adapters.gymnasium.inputs import encode_action, encode_reset
from sim.adapters.gymnasium.layers import being_recorded, sub_environments


class RecordedVectorEnv(VectorWrapper):  # In Gymnasium 1.0 it is not generic.
    """A vector whose calls of step and reset are recorded; closing it closes the tape."""

    def __init__(self, simulation: Any, tape: Any) -> None:
        """simulation: of a vector. tape: its recorder, with step(inputs) and close(outcome)."""
        super().__init__(simulation.env)
        being_recorded[id(self.env.unwrapped)] = self
        self.tape = tape
        self._call: Callable[[Any], Any] = tape.step
        self._lacks_seed = not has_seed(self.env)
        self._lacks_reset = self._lacks_seed
        running = simulation.running_at(tape.tick)
        # The tick of the last reset. None if the rewards since then are not known: in a branch, or resumed after too many.
        self._begun_at: int | None = None if running is None else running.begun_at
        self._return = 0.0 if running is None else float(np.sum(running.total))

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Call the vector's step, recorded. Raises TypeError, before the call, if actions cannot be recorded.

        Raises ResetNeeded before the first reset.
        """
        if self._lacks_reset:
            raise gymnasium.error.ResetNeeded(
                "expected reset() before the first step(): a replay needs its seed; call reset() first"
            )
        result = self._call(encode_action(actions))
        self._return += float(np.sum(np.asarray(result[1])))
        return result  # type: ignore[no-any-return]

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Call the vector's reset, recorded. Seeds that were never passed are drawn and recorded."""
        if self._lacks_seed and not _is_complete(seed):
            start = int(np.random.SeedSequence().entropy) & 0x3FFF_FFFF  # type: ignore[arg-type]
            seed = [start + number if one is None else one for number, one in enumerate(seed)] if seed else start
        result = self._call(encode_reset(seed, options, self._ended()))
        self._begun_at, self._return, self._lacks_seed, self._lacks_reset = self.tape.tick, 0.0, False, False
        return result  # type: ignore[no-any-return]

    def _ended(self) -> dict[str, Any] | None:
        """The totals since the last reset, over all environments; None if they are not known, or without a step.

        A step that raised counts.
        """
        steps = self.tape.tick - self._begun_at if self._begun_at is not None else 0
        return {"steps": steps, "return": self._return, "over": False} if steps else None

    def close(self, **arguments: Any) -> None:
        """Close the tape, then the vector."""
        ended = self._ended()
        being_recorded.pop(id(self.env.unwrapped), None)
        self.tape.close({"reason": "closed", "episode": ended} if ended else None)
        super().close(**arguments)

    @property
    def subject(self) -> Any:
        """The vector itself, with its wrappers."""
        return self.env

    def __getattr__(self, name: str) -> Any:
        if name == "env":  # Before __init__ has set it.
            raise AttributeError(name)
        return getattr(self.env, name)


def has_seed(env: Any) -> bool:
    """Return True if the generator of the environment, or those of all environments of the vector, were made."""
    inner = env.unwrapped
    envs = sub_environments(inner)
    if envs:
        return all(map(has_seed, envs))
    return getattr(inner, "_np_random", env) is not None


def must_reset(env: Any, last: Any) -> bool:
    """Return True if environments of the vector are over and nothing but its reset begins them again."""
    is_over = bool(np.any(np.asarray(last.terminated)) or np.any(np.asarray(last.truncated)))
    mode = (env.metadata or {}).get("autoreset_mode")  # Gymnasium 1.0 has none: there each vector resets by itself.
    return is_over and getattr(mode, "value", mode) == "Disabled"


def _is_complete(seed: Any) -> bool:
    return seed is not None and (not isinstance(seed, list | tuple) or None not in seed)
