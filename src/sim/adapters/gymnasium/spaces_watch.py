"""Notice an environment that draws from its spaces in a step: their generators are no part of what is saved.

They cannot be: whoever plays draws from the same action space between the steps (``env.action_space.sample()``), which no
replay does again. So a step that draws from one does not replay, and that is said as soon as it is seen.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from typing import Any

from gymnasium import spaces

from sim.adapters.capture.captured_state import CapturedWarning

FIRST_CALLS = 8  # Each of so many steps is looked at, and then one of many.
CALLS_BETWEEN_MASK = 255


class SpacesWatch:
    """The generators of all spaces of an environment and of its wrappers."""

    def __init__(self, layers: Iterable[tuple[str, Any]]) -> None:
        """layers: the wrappers and the environment by their names; looked at when a step is."""
        self._layers = list(layers)
        self._calls = 0

    def before(self) -> dict[str, str] | None:
        """Before a step: where the generators stand; None for a step that is not looked at."""
        self._calls = calls = self._calls + 1
        return None if calls > FIRST_CALLS and calls & CALLS_BETWEEN_MASK else self._standing()

    def after(self, before: dict[str, str]) -> None:
        """After a step that is looked at: warn if one has been drawn from."""
        standing = self._standing()
        drawn = sorted(
            name for name, where in standing.items() if before.get(name, where) != where or name not in before
        )
        if drawn:
            self._calls = FIRST_CALLS  # Once is enough for a while.
            warnings.warn(
                f"a step draws from {', '.join(drawn)}, whose random generator is not saved, since whoever plays draws "
                "from it, too: the recording will not replay exactly; draw from np_random instead",
                CapturedWarning,
                stacklevel=2,
            )

    def _standing(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for layer, one in self._layers:
            for name, value in vars(one).items():
                if isinstance(value, spaces.Space):
                    for inner, space in _spaces_in(f"{layer}.{name}", value):
                        generator = space._np_random  # noqa: SLF001 - the property makes one if there is none
                        if generator is not None:
                            found[inner] = repr(generator.bit_generator.state)
        return found


def _spaces_in(name: str, space: Any) -> Iterator[tuple[str, Any]]:
    """A space and those that it is made of."""
    yield name, space
    inner = getattr(space, "spaces", ())
    for key, one in inner.items() if isinstance(inner, dict) else enumerate(inner):
        yield from _spaces_in(f"{name}[{key!r}]", one)
    for part in ("feature_space", "node_space", "edge_space"):
        if getattr(space, part, None) is not None:
            yield from _spaces_in(f"{name}.{part}", getattr(space, part))
