"""What stands for a simulation that cannot be made here: the states on a tape can be looked at without it."""

from __future__ import annotations

from typing import Any

from sim.kernel.registry import UnknownWorldError
from sim.kernel.schema import Layout
from sim.kernel.state import State


class StatesOnly:
    """Stands for a simulation that cannot be made here: it holds the states that are on the tape, and takes no step."""

    def __init__(self, layout: Layout, why: str) -> None:
        self.state = State(layout.schema, layout.capacities)
        self.why = why

    def step(self, _: Any) -> None:
        """Raises UnknownWorldError, saying what is missing."""
        raise UnknownWorldError(f"{self.why}; without it only the states that are on the tape can be shown")
