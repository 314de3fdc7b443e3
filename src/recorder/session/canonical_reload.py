"""Simulations whose load changes what follows, always in the same way: the live run loads at each keyframe, too.

So the run goes on, live, from what a replay will start from. Replay does the same at the same ticks.
"""

from __future__ import annotations

from collections.abc import Callable

from sim.kernel.exactness import Level, level_of
from sim.kernel.simulation import Simulation, restore


def loads_at_keyframes(simulation: Simulation) -> Callable[[], None] | None:
    """What is called behind each keyframe; None for a simulation that goes on as if nothing had been saved.

    Raises ValueError for a level that there is not.
    """
    if level_of(simulation) is not Level.CANONICAL:
        return None

    def load() -> None:
        restore(simulation, simulation.state.snapshot())

    return load
