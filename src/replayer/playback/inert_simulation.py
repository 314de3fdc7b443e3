"""A stand-in for a simulation that cannot be made here: the states on a tape can be read without it."""

from __future__ import annotations

from typing import Any

from sim.kernel.registry import UnknownWorldError
from sim.kernel.schema import Layout
from sim.kernel.state import State

KEYFRAMES_ONLY = (
    "without it only the states that are on the tape can be shown, those of ticks with a keyframe: replay seek TAPE "
    "--tick TICK; as a rule the first tick has one"
)


class StatesOnly:
    """Stand-in for a simulation that cannot be made here: it holds states of the tape, and cannot step."""

    def __init__(self, layout: Layout, why: str) -> None:
        self.state = State(layout.schema, layout.capacities)
        self.why = why

    def step(self, _: Any) -> None:
        """Raise UnknownWorldError, whose message names what is missing."""
        raise UnknownWorldError(f"{self.why}; {KEYFRAMES_ONLY}")
