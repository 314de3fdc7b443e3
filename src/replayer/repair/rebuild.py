"""Rebuild lost keyframes by simulating; a rebuilt state counts only if its hash is the recorded one."""

from __future__ import annotations

from typing import Any

from recorder.errors import MissingTickError, RecordingError, SimulationFailedError
from replayer.playback.cursor import Cursor, MismatchError
from replayer.playback.make_simulation import Factory, UnfitSimulationError, make_simulation
from replayer.tape.tape import Tape
from sim.kernel.registry import ConfigError, UnknownWorldError
from sim.kernel.simulation import Simulation
from sim.kernel.state import Snapshot

# What a step raises when it meets a state or inputs that are not those of its own world.
STEP_ERRORS = (ArithmeticError, LookupError, ValueError, TypeError, AttributeError)
_OTHER_HASH = "re-simulating gives another hash than the recorded one"


class Rebuilder:
    """Makes states of a tape that its keyframes do not give.

    Attributes:
        why_none: why there is no simulation, so that nothing is rebuilt; empty if there is one.
    """

    def __init__(self, tape: Tape, world: Factory | None) -> None:
        self._tape = tape
        self._simulation, self.why_none = _simulation_of(tape, world)
        self._make = (lambda: make_simulation(tape, world)) if self._simulation is not None else None
        self._last_rebuilt: tuple[int, Snapshot] | None = None

    def start(self, first_frame: int, last: int) -> Snapshot | None:
        """The state before the first frame, if a fresh simulation in that state steps to the recorded hashes up to last.

        last: the first keyframe's tick that can be read: from there on the tape proves itself.
        """
        if self._make is None:
            return None
        simulation = self._make()
        start = simulation.state.snapshot()
        proved = 0
        try:
            for tick in range(first_frame, last + 1):
                frame = self._tape.frame(tick)
                simulation.step(frame.inputs)
                if simulation.state.hash() != frame.state_hash:
                    return None
                proved += 1
        except RecordingError:
            pass  # As far as there are frames; one that agrees is proof.
        except STEP_ERRORS:
            return None  # The step does not take this state: it is another one.
        if not proved:
            return None
        self._last_rebuilt = (first_frame - 1, start)
        return start

    def keyframe(self, tick: int) -> tuple[Snapshot | None, str]:
        """The state at tick, re-simulated and proved by the hash in its frame; or why not."""
        if self._simulation is None:
            return None, self.why_none
        cursor = Cursor(self._tape, self._simulation)
        try:
            try:
                cursor.seek(tick)
            except MissingTickError:
                if self._last_rebuilt is None:
                    raise
                cursor.put(*self._last_rebuilt)  # No keyframe of the tape leads here, but one that was rebuilt may.
                while cursor.tick != tick:
                    cursor.advance()
                if cursor.difference() is not None:
                    return None, _OTHER_HASH
        except MismatchError:
            return None, _OTHER_HASH
        except SimulationFailedError as error:
            return None, f"re-simulating raised {type(error.__cause__).__name__}: {error.__cause__}"
        except RecordingError as error:
            return None, str(error)
        self._last_rebuilt = (tick, cursor.state.snapshot())
        return self._last_rebuilt[1], ""


def _simulation_of(tape: Tape, world: Factory | None) -> tuple[Simulation | None, str]:
    try:
        return make_simulation(tape, world), ""
    except (UnknownWorldError, ConfigError, UnfitSimulationError) as error:
        if world is not None:
            raise
        why: Any = error.args[0] if error.args else error
        return None, str(why)
