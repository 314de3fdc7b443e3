"""Rebuild lost keyframes by re-simulating; a rebuilt state counts only if its hash is the recorded one."""

from __future__ import annotations

from typing import Any

from recorder.errors import MemoryBudgetError, MissingTickError, RecordingError, SimulationFailedError
from replayer.playback.cursor import Cursor, MismatchError
from replayer.playback.make_simulation import Factory, UnfitSimulationError, make_simulation
from replayer.tape.tape import Tape
from sim.kernel.registry import ConfigError, UnknownWorldError
from sim.kernel.simulation import Simulation
from sim.kernel.state import Snapshot

# Raised by a step for a state or inputs that do not belong to its world.
STEP_ERRORS = (ArithmeticError, LookupError, ValueError, TypeError, AttributeError)
_DIFFERENT_HASH = "re-simulating gives a hash that differs from the recorded one"


class Rebuilder:
    """Rebuilds states of a tape whose keyframes are lost.

    Attributes:
        why_none: reason why there is no simulation, and nothing is rebuilt; empty if there is one.
    """

    def __init__(self, tape: Tape, world: Factory | None) -> None:
        self._tape = tape
        self._simulation, self.why_none = _simulation_of(tape, world)
        self._make = (lambda: make_simulation(tape, world)) if self._simulation is not None else None
        self._last_rebuilt: tuple[int, Snapshot] | None = None

    def start(self, first_frame: int, last: int) -> Snapshot | None:
        """The start state of a fresh simulation, if its steps from first_frame to last give the recorded hashes.

        last: the tick of the first readable keyframe.
        """
        if self._make is None:
            return None
        simulation = self._make()
        start = simulation.state.snapshot()
        verified_count = 0
        try:
            for tick in range(first_frame, last + 1):
                frame = self._tape.frame(tick)
                simulation.step(frame.inputs)
                if simulation.state.hash() != frame.state_hash:
                    return None
                verified_count += 1
        except MemoryBudgetError:
            raise  # Nothing is lost: the reader lacks memory.
        except RecordingError:
            pass  # The frames end here; a single matching hash is enough.
        except STEP_ERRORS:
            return None  # The step fails: the run did not begin in this state.
        if not verified_count:
            return None
        self._last_rebuilt = (first_frame - 1, start)
        return start

    def keyframe(self, tick: int) -> tuple[Snapshot | None, str]:
        """The state at tick, re-simulated and verified by the hash in its frame; or None and the reason."""
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
                    return None, _DIFFERENT_HASH
        except MismatchError:
            return None, _DIFFERENT_HASH
        except SimulationFailedError as error:
            return None, f"re-simulating raised {type(error.__cause__).__name__}: {error.__cause__}"
        except MemoryBudgetError:
            raise
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
