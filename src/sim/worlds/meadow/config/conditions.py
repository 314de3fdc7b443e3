"""When a plant begins a defence: conditions on what is in its cell, and trees of them."""

from __future__ import annotations

from typing import Annotated

import attrs

from sim.kernel.registry import ConfigError
from sim.scenario.config.structure import Decimal, Whole
from sim.worlds.meadow.config.species import POPULATION_MAX

CONCENTRATION_MAX = 1024  # No signal rises above this.
DEPTH_MAX = 8  # Of a tree; far more than anybody can read.
KINDS = ("herbivore", "substance", "signal", "all", "any", "not")


@attrs.frozen
class Condition:
    """One node of a condition tree: exactly one of the first six keys, and what belongs to it.

    Attributes:
        herbivore: a species, of which at least heads heads are in the plant's cell.
        substance: one that the plant has, active.
        signal: a signal, of which there is at least concentration in the plant's cell.
        all, any, not_: of other conditions; in a scenario the key is ``not``.
    """

    herbivore: str | None = None
    substance: str | None = None
    signal: str | None = None
    all: tuple[Condition, ...] | None = None
    any: tuple[Condition, ...] | None = None
    not_: Condition | None = None
    heads: Annotated[int, Whole(1, POPULATION_MAX)] | None = None
    concentration: Annotated[int, Decimal(0, CONCENTRATION_MAX)] | None = None

    def __attrs_post_init__(self) -> None:
        given = [kind for kind in KINDS if getattr(self, _attribute(kind)) is not None]
        if len(given) != 1:
            raise ConfigError(
                "", f"one of the keys {', '.join(KINDS)} was expected, found {', '.join(given) or 'none'}"
            )
        for key, kind in (("heads", "herbivore"), ("concentration", "signal")):
            if (getattr(self, key) is not None) != (given[0] == kind):
                raise ConfigError(key, "this key is missing" if given[0] == kind else f"only with {kind}")

    @property
    def kind(self) -> str:
        """Which of the keys it has."""
        return next(kind for kind in KINDS if getattr(self, _attribute(kind)) is not None)

    @property
    def parts(self) -> tuple[Condition, ...]:
        """The conditions right below."""
        return self.all or self.any or ((self.not_,) if self.not_ is not None else ())

    @property
    def depth(self) -> int:
        """How many levels the tree has."""
        return 1 + max((part.depth for part in self.parts), default=0)


def _attribute(kind: str) -> str:
    return "not_" if kind == "not" else kind
