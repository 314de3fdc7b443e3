"""Trigger conditions: trees of conditions on a plant and its cell that decide when it begins a defence."""

from __future__ import annotations

from typing import Annotated

import attrs

from sim.kernel.registry import ConfigError
from sim.scenario.config.structure import Decimal, Whole
from sim.worlds.meadow.config.species import POPULATION_MAX

CONCENTRATION_MAX = 1024  # No signal rises above this.
DEPTH_MAX = 8  # Of a tree; far more than a reader can follow.
KINDS = ("herbivore", "substance", "signal", "all", "any", "not")


@attrs.frozen
class Condition:
    """One node of a condition tree: exactly one of the first six keys, with the keys that go with it.

    Attributes:
        herbivore: a species; it holds if at least ``heads`` of its heads are in the plant's cell.
        substance: a substance; it holds if the plant has it and it is active.
        signal: a signal; it holds if the plant's cell has at least ``concentration`` of it.
        all, any, not_: combine other conditions; the scenario's key for not_ is ``not``.
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
        kinds = [kind for kind in KINDS if getattr(self, _attribute(kind)) is not None]
        if len(kinds) != 1:
            raise ConfigError("", f"expected one of the keys {', '.join(KINDS)}, got {', '.join(kinds) or 'none'}")
        for key, kind in (("heads", "herbivore"), ("concentration", "signal")):
            if (getattr(self, key) is not None) != (kinds[0] == kind):
                raise ConfigError(key, "this key is missing" if kinds[0] == kind else f"only with {kind}")

    @property
    def kind(self) -> str:
        """The one key of KINDS that is set."""
        return next(kind for kind in KINDS if getattr(self, _attribute(kind)) is not None)

    @property
    def children(self) -> tuple[Condition, ...]:
        """The conditions directly below this one."""
        return self.all or self.any or ((self.not_,) if self.not_ is not None else ())

    @property
    def depth(self) -> int:
        """The number of levels of the tree."""
        return 1 + max((child.depth for child in self.children), default=0)


def _attribute(kind: str) -> str:
    return "not_" if kind == "not" else kind
