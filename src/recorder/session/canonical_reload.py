"""Simulations whose load changes the following run, always in the same way: the live run also loads at keyframes.

The live run then continues from the same state as a replay. A replay loads at the same ticks.
"""

from __future__ import annotations

from collections.abc import Callable

from sim.kernel.exactness import Level, level_of
from sim.kernel.simulation import Simulation, restore


def loads_at_keyframes(simulation: Simulation) -> Callable[[], None] | None:
    """Return a function to call after each keyframe; None for a simulation whose load changes nothing.

    Raises ValueError for an unknown level.
    """
    if level_of(simulation) is not Level.CANONICAL:
        return None

    def load() -> None:
        restore(simulation, simulation.state.snapshot())

    return load
