"""Re-simulate the intervals of a tape, each in a separate process, and compare every hash.

Intervals are independent, because every keyframe is a starting point. Each one runs in a separate process (see
recorder.processes.fork_pool) with a fresh simulation: the copy of one that this process made and never uses, unless a
copy would lack something (see make_for_copies). Hidden state (an attribute, a module's global, a random
generator) is therefore not carried from one interval into the next, where it would mask that the keyframe does not hold
it. interval_processes.py has what is done where a fork would hang, and where several intervals may share a process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Generic, TypeVar

import attrs

from recorder.errors import CorruptError, MissingTickError, RecordingError, TornError
from recorder.format.recording.cached_blocks import SMALL_BYTES_MAX, SMALL_STATES_KEPT
from recorder.format.segments.block_location import KeyframeLocation
from recorder.location.tape_location import Location
from recorder.processes.fork_hazard import NewThreads, held_by_process
from recorder.processes.fork_pool import ForkPool
from recorder.processes.inline_pool import local_pool
from recorder.processes.lifetimes.stuck_workers import WorkerStuckError
from recorder.processes.pool import Pool, Report, results_in_order
from recorder.processes.seeds.process_generators import generator_states, is_same_state, reseed, set_generator_states
from replayer.playback.cursor import Cursor
from replayer.playback.make_simulation import Factory, make_simulation
from replayer.tape.tape import Tape
from replayer.timeline.keyframe_values import KeyframeValues, prove_keyframe
from sim.kernel.memory.made_code import MadeCode, made_code, make_again
from sim.kernel.simulation import Simulation

READ_AHEAD_BYTES_MAX = 1 << 20  # As stored.
READ_AHEAD_COUNT = SMALL_STATES_KEPT

Result = TypeVar("Result")
IntervalWork = Callable[[Cursor, "Interval", Report], Result]


@attrs.frozen
class Interval:
    """The ticks from one keyframe to the next.

    Attributes:
        place: location of the keyframe.
        final_tick: the last tick to compare: the next keyframe's, or the last of the tape.
    """

    place: KeyframeLocation
    final_tick: int


@attrs.frozen
class IntervalResult:
    """The result of re-simulating one interval.

    Attributes:
        interval: the interval.
        proved: the first and the last of the ticks whose state has the recorded hash; None if there are none.
        bad_tick: the first tick with a different hash; None if there is none.
        actual_hash: the hash of the state at bad_tick.
        problem: reason why some ticks could not be verified; None if all were, or if the recording states the reason.
        keyframe_problem: reason why the keyframe cannot be loaded; None if it can.
        values: the values that the keyframe restores; None if it has no digest of them.
    """

    interval: Interval
    proved: tuple[int, int] | None = None
    bad_tick: int | None = None
    actual_hash: int = 0
    problem: RecordingError | None = None
    keyframe_problem: RecordingError | None = None
    values: KeyframeValues | None = None


def list_intervals(tape: Tape) -> list[Interval]:
    """The intervals of a tape in the order of their ticks; the first one includes the first tick's own state."""
    places = tape.keyframes
    finals = [*(place.tick for place in places[1:]), tape.last_tick]
    return [Interval(place, final) for place, final in zip(places, finals, strict=True)]


def verify_interval(cursor: Cursor, interval: Interval, on_progress: Callable[[int], None]) -> IntervalResult:
    """Re-simulate one interval and compare the hash of each tick.

    on_progress: called with the number of ticks compared. If the interval's keyframe cannot be loaded, the simulation
    starts at the one before it. Raises SimulationFailedError if the simulation raises.
    """
    tape, first_tick = cursor.tape, interval.place.tick
    proved, problem, keyframe_problem, values = None, None, None, None
    try:
        try:
            cursor.put(first_tick, tape.snapshot(interval.place))
            values = prove_keyframe(cursor, interval.place)
        except (CorruptError, TornError) as error:
            keyframe_problem = error
            cursor.place_before(first_tick)
        while cursor.tick != first_tick:
            cursor.advance()
        actual_hash = cursor.state.hash()
        recorded_hash = actual_hash if first_tick == tape.first_tick else _recorded_hash(tape, first_tick)
        if recorded_hash not in (None, actual_hash):
            return IntervalResult(interval, proved, first_tick, actual_hash, None, keyframe_problem, values)
        if recorded_hash is not None:
            proved = (first_tick, first_tick)
        for tick in range(first_tick + 1, interval.final_tick + 1):
            frame = cursor.advance()
            if (hashes := cursor.difference(frame)) is not None:
                return IntervalResult(interval, proved, tick, hashes[1], None, keyframe_problem, values)
            proved = (tick if proved is None else proved[0], tick)
            on_progress(tick - first_tick)
    except (CorruptError, TornError, MissingTickError) as error:
        if not isinstance(error, MissingTickError) or not is_dropped(tape, error.tick):
            problem = error
    return IntervalResult(interval, proved, None, 0, problem, keyframe_problem, values)


def _recorded_hash(tape: Tape, tick: int) -> int | None:
    """The hash in the frame of a tick; None if the frame is lost. The keyframe of that tick makes up for it."""
    try:
        recorded = tape.frame(tick).state_hash
        return recorded if recorded is not None else tape.state_hash(tick)
    except (CorruptError, TornError, MissingTickError):
        return None


def is_dropped(tape: Tape, tick: int) -> bool:
    """Return True if a DROP block of the recording covers this tick."""
    return any(drop.first_tick <= tick <= drop.last_tick for drop in tape.drops)


def run_intervals(
    tape: Tape,
    world: Factory | None,
    intervals: list[Interval],
    jobs: int,
    on_progress: Callable[[int], None],
    pool: Pool | None = None,
    fresh: Simulation | None = None,
) -> Iterator[IntervalResult]:
    """Verify the intervals and yield the results in their order; parameters as in run_each."""
    for result, made in run_each(tape, world, intervals, jobs, on_progress, _verify_and_tell, pool, fresh):
        make_again(made)  # Before the next fork, which need not compile it again.
        yield result


def _verify_and_tell(cursor: Cursor, interval: Interval, report: Report) -> tuple[IntervalResult, list[MadeCode]]:
    """As verify_interval; also what was compiled for it."""
    count = len(made_code())
    result = verify_interval(cursor, interval, report)
    return result, made_code()[count:]


@attrs.frozen
class FreshSimulation:
    """A simulation that was made and is not used.

    Attributes:
        simulation: to be copied by forks; None if copies would not be as good as new ones.
        hazard: what was started when it was made and is missing in a forked copy; None if nothing is.
    """

    simulation: Simulation | None
    hazard: str | None = None


def make_for_copies(tape: Tape, world: Factory | None) -> FreshSimulation:
    """Make a simulation whose copies in forked processes are as good as new ones, if possible.

    They are not if it opened files or started threads, or used a random generator that the process has once: a fork
    reseeds some of those. Raises as make_simulation.
    """
    threads = NewThreads()
    for _ in range(2):  # The first may import libraries, which start threads of their own.
        before, drawn = held_by_process(), generator_states()
        reseed()  # So that it shows if the simulation seeds one, with whatever number.
        seeded = generator_states()
        try:
            simulation = make_simulation(tape, world)
            left = generator_states()
        finally:
            set_generator_states(drawn)
        if (hazard := threads.hazard()) is not None:
            return FreshSimulation(None, hazard)
        if not all(is_same_state(left[name], seeded[name]) for name in seeded):
            return FreshSimulation(None)
        if before is not None and held_by_process() == before and left.keys() == seeded.keys():
            return FreshSimulation(simulation)
    return FreshSimulation(None)


def run_each(
    tape: Tape,
    world: Factory | None,
    intervals: list[Interval],
    jobs: int,
    on_progress: Callable[[int], None],
    work: IntervalWork[Result],
    pool: Pool | None = None,
    fresh: Simulation | None = None,
) -> Iterator[Result]:
    """Call work for each interval in a separate process, at most jobs at a time; yield its results in order.

    work: called with a cursor whose simulation is fresh; its result is pickled.
    on_progress: called with the number of ticks compared in intervals whose results were not yielded yet.
    pool: runs the work instead of forked processes. If a worker runs several intervals, state that a step keeps in
    globals is carried from one to the next.
    fresh: from make_for_copies; each forked process works with its copy.

    Raises SimulationFailedError if the simulation raises; WorkerDiedError; WorkerStuckError.
    """
    pool = pool if pool is not None else local_pool(jobs)
    results = results_in_order(
        pool,
        _WithCursor(tape, world, work, fresh if isinstance(pool, ForkPool) else None),
        intervals,
        name=lambda interval: f"simulated ticks {interval.place.tick} to {interval.final_tick}",
        size=lambda interval: interval.final_tick - interval.place.tick,
        on_progress=on_progress,
        before=_ReadingAhead(tape, intervals) if isinstance(pool, ForkPool) and len(intervals) > 1 else None,
    )
    return _naming_ticks(results, intervals)


class _ReadingAhead:
    """Reads the keyframes of intervals before processes are forked for them, which then have the states.

    In a copy, reading takes several times as long: each page of memory that it writes to is copied first. That is so for
    a while after a fork in this process, too, so that many small ones are read at once. Nothing of the simulation is
    touched. A large state is read by each copy for itself, side by side.
    """

    def __init__(self, tape: Tape, intervals: Sequence[Interval]) -> None:
        self._tape, self._intervals = tape, intervals
        self._given = 0

    def __call__(self, interval: Interval) -> None:
        """Called with each interval, in order."""
        if self._given % READ_AHEAD_COUNT == 0:
            with suppress(RecordingError):
                self._tape.frame(interval.place.tick + 1)
            for one in self._intervals[self._given : self._given + READ_AHEAD_COUNT]:
                with suppress(RecordingError):  # The copy says it, for the ticks that it concerns.
                    if one.place.end_offset - one.place.entry.offset <= READ_AHEAD_BYTES_MAX:
                        size_bytes = self._tape.snapshot(one.place).layout.size_bytes
                        if size_bytes > SMALL_BYTES_MAX:
                            break  # It is not kept.
        self._given += 1


def _naming_ticks(results: Iterator[Result], intervals: list[Interval]) -> Iterator[Result]:
    """Yield the results; the error of a process that hangs names the last tick that it has compared."""
    for interval in intervals:
        try:
            yield next(results)
        except WorkerStuckError as error:
            tick = interval.place.tick + (error.progress or 0)
            raise WorkerStuckError(error.what, error.progress, error.waited_s, f"tick {tick:,}") from None


@attrs.frozen
class _WithCursor(Generic[Result]):
    """Work on intervals of an open tape; unpickling opens the tape again by its path."""

    tape: Tape
    world: Factory | None
    work: IntervalWork[Result]
    fresh: Simulation | None

    def __call__(self, interval: Interval, report: Report, /) -> Result:
        simulation = self.fresh if self.fresh is not None else make_simulation(self.tape, self.world)
        return self.work(Cursor(self.tape, simulation), interval, report)

    def __reduce__(self) -> tuple[Any, ...]:
        opened_by = _with_cursor if self.tape.has_proved_index else _with_checked_cursor
        return opened_by, (self.tape.path.absolute(), self.world, self.work)


def _with_cursor(path: Location, world: Factory | None, work: IntervalWork[Result]) -> _WithCursor[Result]:
    """For a tape whose index is proved: each process reads its intervals, and not the whole tape again."""
    return _WithCursor(Tape(path), world, work, None)


def _with_checked_cursor(path: Location, world: Factory | None, work: IntervalWork[Result]) -> _WithCursor[Result]:
    tape = Tape(path)
    tape.check_blocks()  # As in the process that pickled it: no index is trusted.
    return _WithCursor(tape, world, work, None)
