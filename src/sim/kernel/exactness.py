"""How exactly a simulation can be saved and loaded, as it declares it itself."""

from __future__ import annotations

import enum
from typing import Any

from sim.kernel.hooks import HasLevel, hook


class Level(enum.StrEnum):
    """What can be relied upon when a state is loaded."""

    EXACT = "exact"  # Going on after a load equals never having saved.
    CANONICAL = (
        "canonical"  # A load changes what follows, always in the same way: the live run loads at keyframes, too.
    )
    INPUTS_ONLY = "inputs_only"  # There is no usable save: a load repeats the inputs since the last reset.


def level_of(simulation: Any) -> Level:
    """What a simulation, or what it is around, declares as its ``level``; EXACT if it says nothing.

    Raises ValueError for what is no level.
    """
    for one in (simulation, getattr(simulation, "inner", None)):
        found = hook(one, HasLevel)
        if found is not None and found.level:
            return level_from(found.level)
    return Level.EXACT


def level_from(declared: Any) -> Level:
    """The level of this name; EXACT for None. Raises ValueError for what is no level."""
    try:
        return Level(declared) if declared is not None else Level.EXACT
    except ValueError:
        levels = ", ".join(level.value for level in Level)
        raise ValueError(f"level={declared!r}: one of {levels} was expected") from None
