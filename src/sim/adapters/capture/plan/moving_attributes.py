"""Which attributes are other objects in many steps: learned from the steps, for the plans to come."""

from __future__ import annotations

from collections.abc import Iterable

import attrs

CLOSE_LOOKS = 8  # Until the second plan is made.


@attrs.define(eq=False)
class MovingAttributes:
    """The attributes that are known to move. It decides how quick a step is taken, not what is written.

    Attributes:
        close_looks_max: how many close looks a plan may need until the next one is made.
    """

    close_looks_max: int = CLOSE_LOOKS
    _names: set[tuple[str, str]] = attrs.field(factory=set, init=False)

    def names_in(self, layer: str) -> set[str]:
        """The names of those in a layer."""
        return {name for where, name in self._names if where == layer}

    def learn(self, names: Iterable[tuple[str, str]]) -> None:
        """Add attributes, by layer and name. The next plan is given twice as many close looks: few plans are made."""
        self._names.update(names)
        self.close_looks_max *= 2
