"""A cursor that counts its steps: the cost of a question is told with its answer."""

from __future__ import annotations

from recorder.format.blocks.frame import Frame
from replayer.playback.cursor import Cursor
from replayer.tape.tape import Tape
from sim.kernel.simulation import Simulation


class CountedCursor(Cursor):
    """A cursor with the number of steps that it has run.

    Attributes:
        steps: of the simulation, since the cursor was made.
    """

    def __init__(self, tape: Tape, simulation: Simulation) -> None:
        super().__init__(tape, simulation)
        self.steps = 0

    def advance(self) -> Frame:
        """Count the step and run it. Raises as Cursor.advance does."""
        self.steps += 1
        return super().advance()
