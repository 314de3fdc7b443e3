"""The level of exactness with which a simulation can be saved and loaded, as the simulation declares it."""

from __future__ import annotations

import enum
from typing import Any

from sim.kernel.hooks import HasLevel, hook


class Level(enum.StrEnum):
    """The guarantee that a load of a state gives.

    Attributes:
        EXACT: continuing after a load equals never having saved.
        CANONICAL: a load changes what follows, always in the same way: the live run also loads at keyframes.
        INPUTS_ONLY: there is no usable save: a load repeats the inputs since the last reset.
    """

    EXACT = "exact"
    CANONICAL = "canonical"
    INPUTS_ONLY = "inputs_only"


def level_of(simulation: Any) -> Level:
    """The ``level`` that a simulation, or the simulation inside it, declares; EXACT if neither declares one.

    Only a text declares one: that of a game may be a number, or an array. Raises ValueError for an unknown level.
    """
    for candidate in (simulation, getattr(simulation, "inner", None)):
        has_level = hook(candidate, HasLevel)
        if has_level is not None and isinstance(has_level.level, str) and has_level.level:
            return level_from(has_level.level)
    return Level.EXACT


def level_from(declared: Any) -> Level:
    """The level of this name; EXACT for None. Raises ValueError for an unknown name."""
    try:
        return Level(declared) if declared is not None else Level.EXACT
    except ValueError:
        levels = ", ".join(level.value for level in Level)
        raise ValueError(f"level: expected one of {levels}, got {declared!r}") from None
