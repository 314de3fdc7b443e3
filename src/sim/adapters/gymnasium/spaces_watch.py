"""Detect an environment that draws from its action or observation space in a step: their generators are not saved.

They cannot be saved: the caller may draw from the same action space between the steps (``env.action_space.sample()``),
and a replay does not repeat this. A step that draws from such a space therefore does not replay, and a warning is
issued at once.
"""

from __future__ import annotations

from typing import Any

from sim.adapters.capture.captured_state import CapturedWarning
from sim.adapters.gymnasium.callers_spaces import callers_spaces
from sim.user_warning import warn_user

FIRST_CALLS = 8  # Each of this many steps is checked, and then one of many.
CALLS_BETWEEN = 256


class SpacesWatch:
    """The generators of the spaces that an environment and its wrappers share with the caller.

    Attributes:
        left: the number of steps until one is to be checked, with it: the caller counts them.
    """

    def __init__(self, env: Any) -> None:
        """env: the outermost layer, whose spaces are read at each checked step."""
        self._env = env
        self._checked = 0
        self.left = 1

    def before(self) -> dict[str, str]:
        """The states of the generators before a step that is checked."""
        self._checked += 1
        self.left = 1 if self._checked < FIRST_CALLS else CALLS_BETWEEN
        return self._generator_states()

    def after(self, before: dict[str, str]) -> None:
        """Warn, after a checked step, if a generator has been used. before: the states before the step."""
        states = self._generator_states()
        drawn = sorted(name for name, state in states.items() if name not in before or before[name] != state)
        if drawn:
            self._checked, self.left = FIRST_CALLS, CALLS_BETWEEN  # Once is enough for a while.
            warn_user(
                f"a step draws from {', '.join(drawn)}, whose random generator is not saved, since the caller may draw "
                "from it, too: a replay can draw other values; draw from np_random instead",
                CapturedWarning,
            )

    def _generator_states(self) -> dict[str, str]:
        generators = ((name, space._np_random) for name, space in callers_spaces(self._env).values())  # noqa: SLF001 - the property makes one if there is none
        return {name: repr(one.bit_generator.state) for name, one in generators if one is not None}
