"""Detect an environment that draws from its spaces in a step: the generators of spaces are not saved.

They cannot be saved: the caller draws from the same action space between the steps (``env.action_space.sample()``), and
a replay does not repeat this. A step that draws from a space therefore does not replay, and a warning is issued at
once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from gymnasium import spaces

from sim.adapters.capture.captured_state import CapturedWarning
from sim.user_warning import warn_user

FIRST_CALLS = 8  # Each of this many steps is checked, and then one of many.
CALLS_BETWEEN = 256


class SpacesWatch:
    """The generators of all spaces of an environment and of its wrappers.

    Attributes:
        left: the number of steps until one is to be checked, with it: the caller counts them.
    """

    def __init__(self, layers: Iterable[tuple[str, Any]]) -> None:
        """layers: the wrappers and the environment by their names; read at each checked step."""
        self._layers = list(layers)
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
                f"a step draws from {', '.join(drawn)}, whose random generator is not saved, since the caller draws "
                "from it, too: a replay can draw other values; draw from np_random instead",
                CapturedWarning,
            )

    def _generator_states(self) -> dict[str, str]:
        states: dict[str, str] = {}
        for layer, holder in self._layers:
            for name, value in vars(holder).items():
                if isinstance(value, spaces.Space):
                    for inner, space in _spaces_in(f"{layer}.{name}", value):
                        generator = space._np_random  # noqa: SLF001 - the property makes one if there is none
                        if generator is not None:
                            states[inner] = repr(generator.bit_generator.state)
        return states


def _spaces_in(name: str, space: Any) -> Iterator[tuple[str, Any]]:
    """A space and the spaces inside it."""
    yield name, space
    inner = getattr(space, "spaces", ())
    for key, part in inner.items() if isinstance(inner, dict) else enumerate(inner):
        yield from _spaces_in(f"{name}[{key!r}]", part)
    for attribute in ("feature_space", "node_space", "edge_space"):
        if getattr(space, attribute, None) is not None:
            yield from _spaces_in(f"{name}.{attribute}", getattr(space, attribute))
