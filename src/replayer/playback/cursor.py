"""A simulation placed at a tick of a tape, and moved along the tape by its own step.

No other module of the replayer moves a simulation: seek, verify and dumps all use a cursor, and a cursor uses the same
``step`` as the live run.

Invariants:
    1. After seek the simulation is in the state that the run had at ``tick``, verified by the recorded hash.
    2. After a call that raised, ``tick`` is the tick of the simulation's state, or None if that is not a state of the
       run.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import attrs

from recorder.errors import CorruptError, MissingTickError, RecordingError, SimulationFailedError, TornError
from recorder.exception_text import raised_text
from recorder.format.blocks.frame import Frame
from recorder.format.recording.change_replay import ChangeLog
from recorder.format.recording.recording import Recording
from recorder.reopen.state_check import StateCheck
from replayer.playback.inert_simulation import StatesOnly
from replayer.playback.near_states import NEAR_BYTES_MAX, NearStates
from replayer.playback.rebuild_adapted import why_not_taken
from replayer.tape.tape import Tape
from sim.kernel.exactness import Level
from sim.kernel.registry import UnknownWorldError
from sim.kernel.simulation import ArenaOfSaved, Simulation, inner_of, restore
from sim.kernel.state import Snapshot, State
from sim.user_warning import warn_user

NEAR_STATES_MAX = 64  # A seek to at most this many ticks back keeps all states on its way, see near_states.py.
TELL_S = 0.1  # Interval between two progress reports of a seek.

Progress = Callable[[int, int], None]  # Ticks simulated so far, ticks in all.
Cancelled = Callable[[], bool]  # Asked before each step: True ends the seek.


class SeekCancelledError(RecordingError):
    """A seek was ended on its way, as its caller wished.

    Attributes:
        tick: the tick that the seek was going to.
        reached: the tick where it ended, whose state was compared with the recording; None if its hash cannot be read.
    """

    def __init__(self, tick: int, reached: int | None) -> None:
        super().__init__(tick, reached)
        self.tick = tick
        self.reached = reached

    def __str__(self) -> str:
        where = f" at tick {self.reached}" if self.reached is not None else ""
        return f"the seek to tick {self.tick} was cancelled{where}"


class MismatchError(Exception):
    """The state at a tick does not have the recorded hash.

    Attributes:
        tick: the tick of the state; not necessarily the first such tick.
        expected_hash, actual_hash: recorded and replayed.
    """

    def __init__(self, tick: int, expected_hash: int, actual_hash: int) -> None:
        super().__init__(tick, expected_hash, actual_hash)
        self.tick = tick
        self.expected_hash = expected_hash
        self.actual_hash = actual_hash


@attrs.frozen
class Arrival:
    """The result of a seek.

    Attributes:
        tick, state_hash: the tick, and the hash of its state, which equals the recorded one.
        keyframe_tick: tick of the keyframe or remembered state that the seek started from.
        simulated_ticks: steps run from there.
        applied_ticks: ticks whose recorded changes were applied instead of a step.
    """

    tick: int
    state_hash: int
    keyframe_tick: int
    simulated_ticks: int
    applied_ticks: int = 0


class Cursor:
    """A simulation that follows a tape.

    Attributes:
        compares: False where the states of the steps have no meaning, see sim.kernel.hooks.SkipsCapture.
        steps_differ: True once a step gave a state that differs from the recorded one, and recorded changes took its place.
    """

    def __init__(self, tape: Tape, simulation: Simulation, near_bytes: int = NEAR_BYTES_MAX) -> None:
        """near_bytes: what the states that are kept near the last seek may take together."""
        self.tape = tape
        self.simulation = simulation
        self.tick: int | None = None
        self._near = NearStates(near_bytes)
        self._changes: ChangeLog | None = None
        self._check: StateCheck | None = None
        self.compares = True
        self.steps_differ = False
        self._is_canonical = tape.meta.get("level") == Level.CANONICAL.value
        self._recording = tape.recording  # That the remembered states and the check belong to.
        self._loads_at = self._ticks_of_loads()

    def _ticks_of_loads(self) -> frozenset[int]:
        """The ticks at which the live run loaded its state, see recorder.session.canonical_reload."""
        return frozenset(place.tick for place in self.tape.keyframes) if self._is_canonical else frozenset()

    @property
    def state(self) -> State:
        """The simulation's state."""
        return self.simulation.state

    def seek(self, tick: int, progress: Progress | None = None, cancelled: Cancelled | None = None) -> Arrival:
        """Go to tick: load the nearest known state before it, then step; the recorded hash is checked on arrival.

        If the tape has the changes of each tick, these are applied instead of steps; a seek to the next tick is a step
        even then.

        Raises MissingTickError if the tick cannot be reached, MismatchError if the state does not have the recorded
        hash, SimulationFailedError if the simulation raises on the way, SeekCancelledError if cancelled() became True
        before a step.
        """
        self.follow_tape()
        arrival = self._seek_by_changes(tick) if self.tape.logs_changes else None
        if arrival is not None:
            return arrival
        goes_back = self.tick is not None and self.tick - NEAR_STATES_MAX <= tick < self.tick
        start = self._nearest(tick)
        if not self._run_to(tick, progress, cancelled, remembers_all=goes_back):
            raise SeekCancelledError(tick, self._reached(start))
        return self._arrive(tick, start)

    def _reached(self, start: int) -> int | None:
        """The tick where a seek was cancelled, once its state was compared; None if it cannot be. Raises MismatchError."""
        try:
            return self._arrive(self._current_tick(), start).tick
        except (CorruptError, MissingTickError, TornError):
            self.leave()  # The target's hash would have been compared, which was not reached.
            return None

    def _seek_by_changes(self, tick: int) -> Arrival | None:
        """Go to tick without a step; None if the tape's changes do not lead there, or a step is preferred."""
        can_step = not isinstance(inner_of(self.simulation), StatesOnly)
        is_near = self.tick is not None and self.tick <= tick <= self.tick + 1 and not self.steps_differ
        if can_step and (is_near or self._is_canonical):  # A load would change how a canonical run continues.
            return None
        if self._changes is None or self._changes.recording is not self.tape.recording:
            self._changes = ChangeLog(self.tape.recording)
        reached = self._changes.reach(tick)
        if reached is None:
            return None
        self.put(tick, reached.snapshot)
        return Arrival(tick, reached.state_hash, reached.start_tick, 0, reached.applied_ticks)

    def take_recorded(self, tick: int, *, tells: bool = False) -> Arrival | None:
        """Go to tick by its recorded changes, after steps led elsewhere; None if there are none. Later seeks take no step.

        tells: warn, once, that what is shown is not what the steps give.
        """
        if not self.tape.logs_changes or self._is_canonical:
            return None
        was_told, self.steps_differ = self.steps_differ, True
        arrival = self._seek_by_changes(tick)
        if tells and not was_told and arrival is not None:
            warn_user(
                f"{self.tape.path}: the steps to tick {tick:,} give another state than the recorded one; "
                "the recorded changes are shown from here on, and replay verify tells what differs",
                UserWarning,
            )
        return arrival

    def place_before(self, tick: int) -> int:
        """Load the nearest readable keyframe at or before tick, and return its tick.

        A damaged keyframe loses no tick: an earlier one is loaded, and more steps are needed.
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
        """Load a state that is known to be that of tick into the simulation.

        Raises SimulationFailedError if the simulation raises.
        """
        self.tick = None
        try:
            restore(self.simulation, snapshot)
        except Exception as error:
            what = "load" if isinstance(self.simulation, ArenaOfSaved) else "after_restore"
            why = why_not_taken(self.tape.meta, error) or raised_text(what, error)
            raise SimulationFailedError(tick, why) from error
        self.tick = tick
        self._begin_check()

    def begin(self) -> None:
        """Begin with the new simulation as it was made: no state is loaded.

        Raises MismatchError if its state is not that of the first tick.
        """
        self.tick = self.tape.first_tick
        difference = self.difference()
        if difference is not None:
            raise MismatchError(self.tick, *difference)
        self._begin_check()

    def _begin_check(self) -> None:
        if self._check is not None:
            self._check.close()
        self._check = None
        if self.compares and self.tape.recording.recorded_hashes.has_hash_chain:
            check = StateCheck(self.tape.recording, self.simulation)
            try:
                check.begin(self._current_tick())
            except BaseException:
                check.close()
                raise
            self._check = check

    def advance(self) -> Frame:
        """Run one step with the recorded inputs and return their frame; the hash of the state is not compared.

        Raises MissingTickError or CorruptError if there is no frame, SimulationFailedError if the simulation raises.
        """
        tick = (self.tick if self.tick is not None else self._current_tick()) + 1
        frame = self.tape.recording.frame(tick)
        self.tick = None
        try:
            self.simulation.step(frame.inputs)
            if self._loads_at and tick in self._loads_at:
                # As the live run did, see recorder.session.canonical_reload.
                restore(self.simulation, self.state.snapshot())
        except UnknownWorldError:
            raise  # There is no simulation to step, only one that holds states.
        except Exception as error:
            raise SimulationFailedError(tick, raised_text("the step", error)) from error
        self.tick = tick
        if self._check is not None:
            self._check.stepped(frame)
        return frame

    def difference(self, frame: Frame | None = None) -> tuple[int, int] | None:
        """The recorded and the actual hash of the state at tick; None if they are equal.

        frame: that of tick, if advance has just returned it: it is not looked for again. If only a chained hash is recorded, it takes the place of the recorded hash, as a number. Raises
        MissingTickError or CorruptError if no hash of the state is recorded.
        """
        if frame is not None and self._check is None and frame.state_hash is not None:
            actual = self.simulation.state.hash()
            return None if frame.state_hash == actual else (frame.state_hash, actual)
        tick = self._current_tick()
        if self._check is None or not self.tape.recording.recorded_hashes.is_chained(tick):
            expected, actual = self.tape.state_hash(tick), self.state.hash()
            return None if expected == actual else (expected, actual)
        return self._check.difference(self.tape.frame(tick))

    def reclaim(self) -> None:
        """Make sure that the simulation is in the state of tick, after its user may have stepped or changed it.

        The arena is compared by its hash, and the objects that are made from it are restored. Where that is not
        possible, the next seek loads a state.
        """
        self.follow_tape()
        if self.tick is None:
            return
        snapshot = self._near.get(self.tick)
        if snapshot is None and not self._is_canonical and not self.tape.recording.recorded_hashes.has_hash_chain:
            snapshot = self._intact_snapshot()
        if snapshot is None:
            self.tick = None  # A canonical run continues from its keyframes only.
        else:
            self.put(self.tick, snapshot)

    def follow_tape(self) -> None:
        """Forget states that are not those of the tape, if it was read again since.

        It may have been resumed at an earlier tick, with other inputs from there on. A state that is remembered is kept
        if its tick has the same hash in both; if that cannot be read, it is loaded again.
        """
        recording = self.tape.recording
        if recording is self._recording:
            return
        before, self._recording = self._recording, recording
        self._loads_at = self._ticks_of_loads()
        for tick in [tick for tick in self._near if not _is_same(tick, before, recording)]:
            del self._near[tick]
        if self._check is not None:
            self._check.close()
            self._check = None
        if self.tick is not None:
            if _is_same(self.tick, before, recording):
                self._begin_check()
            else:
                self.tick = None

    def _intact_snapshot(self) -> Snapshot | None:
        """The state at tick; None if it is not the run's any more, or no hash of it is recorded."""
        try:
            return None if self.difference() is not None else self.state.snapshot()
        except (CorruptError, MissingTickError, TornError):
            return None

    def leave(self) -> None:
        """Forget the tick and the remembered states: what was simulated last may not be the run's."""
        self.tick = None
        self._near.clear()
        if self._check is not None:
            self._check.close()
            self._check = None

    def _current_tick(self) -> int:
        if self.tick is None:
            raise ValueError("the timeline is not at any tick: seek first")
        return self.tick

    def _nearest(self, tick: int) -> int:
        """Load the nearest known state at or before tick; return its tick."""
        candidates = [near for near in self._near if near <= tick]
        if self.tick is not None and self.tick <= tick:
            candidates.append(self.tick)
        best = max(candidates, default=None)
        keyframe = next(self.tape.keyframes_at_or_before(tick), None)
        if best is None or (keyframe is not None and keyframe.tick > best):
            return self.place_before(tick)
        if best != self.tick:
            self.put(best, self._near[best])
        return best

    def _run_to(
        self, tick: int, progress: Progress | None, cancelled: Cancelled | None, *, remembers_all: bool
    ) -> bool:
        """Step to tick; False if cancelled() became True before that.

        remembers_all: keep the states on the way for going back, see near_states.py.
        """
        start, reported_s = self._current_tick(), time.monotonic()
        kept = self._near.plan(self.state.layout.size_bytes, tick - start, goes_back=remembers_all)
        while self._current_tick() < tick:
            if cancelled is not None and cancelled():
                return False
            at = self._current_tick()
            if kept.has(at - start, tick - at):
                self._remember(kept.states_max, tick if remembers_all else None)
            self.advance()
            if progress is not None and (self._current_tick() == tick or time.monotonic() - reported_s > TELL_S):
                reported_s = time.monotonic()
                progress(self._current_tick() - start, tick - start)
        return True

    def _remember(self, states_max: int, target: int | None) -> None:
        """Keep a copy of the state. target: of who goes back, and asks for no state after it again; None for others."""
        tick = self._current_tick()
        if self._check is not None and not self._check.is_matching:
            return  # A state that is loaded from memory counts as matching the recording.
        if tick not in self._near and not self._is_canonical:  # A load anywhere but at a keyframe would change the run.
            self._near.keep(tick, self.state.snapshot(), states_max, target)

    def _arrive(self, tick: int, start: int) -> Arrival:
        hashes = self.difference()
        if hashes is not None:
            self.leave()
            raise MismatchError(tick, *hashes)
        recorded = self.tape.recording.recorded_hashes.recorded_hash(tick)  # Equals the state's: it was just compared.
        return Arrival(tick, self.state.hash() if recorded is None else recorded, start, tick - start)


def _is_same(tick: int, before: Recording, now: Recording) -> bool:
    """Return True if a tick has the same recorded hash in two readings of a tape."""
    try:
        return before.recorded_hashes.identity(tick) == now.recorded_hashes.identity(tick)
    except (CorruptError, MissingTickError, TornError):
        return False
