"""One simulation, placed at a tick of a tape and moved along it by its own step.

The only place where replay moves a simulation: seek, verify and dumps all use a cursor, and a cursor uses the same
``step`` as the live run.

Invariants:
    1. After seek the simulation is in the state that the run had at ``tick``, proved by the recorded hash.
    2. After a call that raised, ``tick`` is where the simulation still stands, or None if that is no tick of the run.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable

import attrs

from recorder.errors import CorruptError, MissingTickError, SimulationFailedError, TornError
from recorder.exception_text import raised_text
from recorder.format.blocks.frame import Frame
from recorder.format.recording.change_replay import ChangeLog
from recorder.reopen.state_check import StateCheck
from replayer.playback.inert_simulation import StatesOnly
from replayer.tape.tape import Tape
from sim.kernel.exactness import Level
from sim.kernel.registry import UnknownWorldError
from sim.kernel.simulation import ArenaOfSaved, Simulation, inner_of, restore
from sim.kernel.state import Snapshot, State

NEAR_STATES_MAX = 64  # How many ticks back step_back is a copy instead of a seek.
NEAR_BYTES_MAX = 256 << 20  # Fewer of them when the state is large.
TELL_S = 0.1  # A seek says that often how far it is.

Progress = Callable[[int, int], None]  # Ticks simulated so far, ticks in all.


class MismatchError(Exception):
    """The state at a tick does not have the recorded hash.

    Attributes:
        tick: where that was seen; not necessarily the first such tick.
        expected_hash, actual_hash: recorded and replayed.
    """

    def __init__(self, tick: int, expected_hash: int, actual_hash: int) -> None:
        super().__init__(tick, expected_hash, actual_hash)
        self.tick = tick
        self.expected_hash = expected_hash
        self.actual_hash = actual_hash


@attrs.frozen
class Arrival:
    """How a seek got where it is.

    Attributes:
        tick, state_hash: where; the hash is the recorded one and the state's.
        keyframe_tick: the keyframe or remembered state that was the start.
        simulated_ticks: how many steps were run from there.
        applied_ticks: of how many ticks the changes were taken from the tape instead.
    """

    tick: int
    state_hash: int
    keyframe_tick: int
    simulated_ticks: int
    applied_ticks: int = 0


class Cursor:
    """A simulation that follows a tape."""

    def __init__(self, tape: Tape, simulation: Simulation) -> None:
        self.tape = tape
        self.simulation = simulation
        self.tick: int | None = None
        self._near: OrderedDict[int, Snapshot] = OrderedDict()
        self._log: ChangeLog | None = None
        self._prover: StateCheck | None = None
        self._is_canonical = tape.meta.get("level") == Level.CANONICAL.value
        self._loads_at = frozenset(place.tick for place in tape.keyframes) if self._is_canonical else frozenset()

    @property
    def state(self) -> State:
        """The simulation's state."""
        return self.simulation.state

    def seek(self, tick: int, progress: Progress | None = None) -> Arrival:
        """Go to tick: nearest known state before it, then steps; the recorded hash is checked on arrival.

        Where the tape has the changes of each tick, these lead there; the next tick is a step all the same.

        Raises MissingTickError if the tick cannot be reached, MismatchError if the state there is another one,
        SimulationFailedError if the simulation raises on the way.
        """
        arrival = self._seek_by_log(tick) if self.tape.logs_changes else None
        if arrival is not None:
            return arrival
        start = self._nearest(tick)
        self._run_to(tick, progress)
        return self._arrive(tick, start)

    def _seek_by_log(self, tick: int) -> Arrival | None:
        """Go to tick without a step; None if the tape's changes do not lead there, or should not."""
        can_step = not isinstance(inner_of(self.simulation), StatesOnly)
        is_near = self.tick is not None and self.tick <= tick <= self.tick + 1
        if can_step and (is_near or self._is_canonical):  # A load would change how a canonical run goes on.
            return None
        if self._log is None or self._log.recording is not self.tape.recording:
            self._log = ChangeLog(self.tape.recording)
        reached = self._log.reach(tick)
        if reached is None:
            return None
        self.put(tick, reached.snapshot)
        return Arrival(tick, reached.state_hash, reached.start_tick, 0, reached.applied_ticks)

    def place_before(self, tick: int) -> int:
        """Stand at the nearest keyframe at or before tick that can be read, and return its tick.

        A damaged keyframe loses no tick: the one before it is further away, that is all.
        Raises MissingTickError if there is none.
        """
        why = "there is no keyframe before it"
        for keyframe in self.tape.keyframes_at_or_before(tick):
            try:
                self.put(keyframe.tick, self.tape.snapshot(keyframe))
            except (CorruptError, TornError) as error:
                why = str(error)
                continue
            return keyframe.tick
        raise MissingTickError(tick, why, damaged=True)

    def put(self, tick: int, snapshot: Snapshot) -> None:
        """Put the simulation into a state that is known to be that of tick.

        Raises SimulationFailedError if the simulation does not take it.
        """
        self.tick = None
        try:
            restore(self.simulation, snapshot)
        except Exception as error:
            what = "load" if isinstance(self.simulation, ArenaOfSaved) else "after_restore"
            raise SimulationFailedError(tick, raised_text(what, error)) from error
        self.tick = tick
        self._begin_to_prove()

    def _begin_to_prove(self) -> None:
        if self._prover is not None:
            self._prover.close()
        self._prover = None
        if self.tape.recording.recorded_hashes.has_hash_chain:
            self._prover = StateCheck(self.tape.recording, self.simulation)
            self._prover.begin(self._here())

    def advance(self) -> Frame:
        """Run one step with the recorded inputs, without looking at the result's hash; the frame that led there.

        Raises MissingTickError or CorruptError if there is no frame, SimulationFailedError if the simulation raises.
        """
        tick = self._here() + 1
        frame = self.tape.frame(tick)
        self.tick = None
        try:
            self.simulation.step(frame.inputs)
            if tick in self._loads_at:
                restore(
                    self.simulation, self.state.snapshot()
                )  # As the live run did, see recorder.session.canonical_reload.
        except UnknownWorldError:
            raise  # There is no simulation to step, only one that holds states.
        except Exception as error:
            raise SimulationFailedError(tick, raised_text("the step", error)) from error
        self.tick = tick
        if self._prover is not None:
            self._prover.stepped(frame)
        return frame

    def difference(self) -> tuple[int, int] | None:
        """The recorded and the actual hash of the state at tick, if they differ.

        Where nothing but a link is recorded, that stands for the recorded hash, as a number. Raises MissingTickError or
        CorruptError if nothing is recorded of the state.
        """
        tick = self._here()
        if self._prover is None or not self.tape.recording.recorded_hashes.is_chained(tick):
            expected, actual = self.tape.state_hash(tick), self.state.hash()
            return None if expected == actual else (expected, actual)
        return self._prover.difference(self.tape.frame(tick))

    def leave(self) -> None:
        """Stand at no tick and drop the remembered states: what was simulated last may not be the run's."""
        self.tick = None
        self._near.clear()
        if self._prover is not None:
            self._prover.close()
            self._prover = None

    def _here(self) -> int:
        if self.tick is None:
            raise ValueError("the timeline stands at no tick: seek first")
        return self.tick

    def _nearest(self, tick: int) -> int:
        """Stand at the nearest tick at or before tick from which there are frames all the way; return it."""
        known = [near for near in self._near if near <= tick]
        if self.tick is not None and self.tick <= tick:
            known.append(self.tick)
        best = max(known, default=None)
        keyframe = next(self.tape.keyframes_at_or_before(tick), None)
        if best is None or (keyframe is not None and keyframe.tick > best):
            return self.place_before(tick)
        if best != self.tick:
            self.put(best, self._near[best])
        return best

    def _run_to(self, tick: int, progress: Progress | None = None) -> None:
        start, told_s = self._here(), time.monotonic()
        room = min(NEAR_STATES_MAX, NEAR_BYTES_MAX // max(1, self.state.layout.size_bytes))
        while self._here() < tick:
            if tick - self._here() <= room:
                self._remember(room)
            self.advance()
            if progress is not None and (self._here() == tick or time.monotonic() - told_s > TELL_S):
                told_s = time.monotonic()
                progress(self._here() - start, tick - start)

    def _remember(self, room: int) -> None:
        now = self._here()
        if self._prover is not None and not self._prover.is_matching:
            return  # A state that comes back from memory counts as right.
        if now not in self._near and not self._is_canonical:  # A load anywhere but at a keyframe would change the run.
            while len(self._near) >= room:
                self._near.popitem(last=False)
            self._near[now] = self.state.snapshot()

    def _arrive(self, tick: int, start: int) -> Arrival:
        found = self.difference()
        if found is not None:
            self.leave()
            raise MismatchError(tick, *found)
        recorded = self.tape.recording.recorded_hashes.recorded_hash(tick)  # The state's, as was found just now.
        return Arrival(tick, self.state.hash() if recorded is None else recorded, start, tick - start)
