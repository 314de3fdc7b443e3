"""Choose where intervals are re-simulated: in forked copies of this process, in fresh processes, or in this one.

A forked copy for each interval is best: no interval can see what another one left behind. It hangs if the simulation
needs threads that this process has started. That is seen beforehand if they were started when the simulation was made;
otherwise the hanging copy is ended, and its interval is repeated elsewhere.

A fork takes as long as some hundred short steps. Intervals that take less share a copy, each with a new simulation, where
everything outside of a simulation can be read and is found untouched after each of them (recorder.ambient.untouched). On
the first difference, change or error, this interval and all after it are verified in copies of their own.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from multiprocessing.reduction import ForkingPickler

import attrs

from recorder.ambient.untouched import ReadableOutside, import_libraries, read_outside
from recorder.processes.fork_hazard import fork_hazard
from recorder.processes.fork_pool import ForkPool
from recorder.processes.inline_pool import InlinePool
from recorder.processes.lifetimes.stuck_workers import PATIENCE_S, WorkerStuckError
from recorder.processes.pool import Pool, Report, WorkerDiedError, results_in_order
from recorder.processes.spawn_pool import SpawnPool
from replayer.playback.cursor import Cursor
from replayer.playback.make_simulation import Factory, import_adapters, make_simulation
from replayer.tape.tape import Tape
from replayer.timeline.intervals import (
    FreshSimulation,
    Interval,
    IntervalResult,
    run_each,
    run_intervals,
    verify_interval,
)
from sim.kernel.simulation import Simulation

SHARED_S = 0.4  # Processor time of the intervals that share a process: a fork then takes a thirtieth of it.
SHARED_MIN = 4  # Intervals of a tape.
SHARED_MAX = 32  # Intervals that share one.
FORK_PATIENCE_S = (
    10.0  # Short: a copy that hangs, or only seems to, is replaced by a process in which nothing is missing.
)


@attrs.define
class IntervalProcesses:
    """The processes of one verification.

    Attributes:
        tape, world: the recording, and the factory of its simulation; None for a registered world.
        jobs: the number of processes.
        pool: given by the caller, and used as it is; None to choose one.
        fresh: the simulation to copy, and what its making started.
        patience_s: a process that does nothing for longer is ended.
        hazard: what forked copies would miss, as fork_hazard names it; None if nothing is known.
        note: what this verification cannot find, because it could not fork; None if it could.
    """

    tape: Tape
    world: Factory | None
    jobs: int
    pool: Pool | None
    fresh: FreshSimulation
    patience_s: float = PATIENCE_S
    hazard: str | None = None
    note: str | None = None
    _why: str = ""

    def __attrs_post_init__(self) -> None:
        self.hazard = self.fresh.hazard or fork_hazard()
        self._why = f"{self.hazard} was used"

    def verify(self, intervals: list[Interval], on_progress: Callable[[int], None]) -> Iterator[IntervalResult]:
        """Yield the results of the intervals in order; parameters as in run_intervals.

        Raises as run_intervals; WorkerStuckError only if a process hangs in which no thread was missing.
        """
        done = 0
        while True:
            pool = self._choose()
            copied = self.fresh.simulation if isinstance(pool, ForkPool) else None
            try:
                shared = self._shared(intervals, on_progress, pool, copied) if not done else iter(())
                for result in shared:
                    done += 1
                    yield result
                for result in run_intervals(
                    self.tape, self.world, intervals[done:], self.jobs, on_progress, pool, copied
                ):
                    done += 1
                    yield result
            except WorkerStuckError as error:
                if self.pool is not None or not isinstance(pool, ForkPool):
                    raise
                self.hazard = "something that a forked copy waited for"
                self._why = f"a forked copy did nothing for {error.waited_s:g} s after {error.reached}"
            else:
                return

    def _shared(
        self, intervals: list[Interval], on_progress: Callable[[int], None], pool: Pool, fresh: Simulation | None
    ) -> Iterator[IntervalResult]:
        """Yield the results of the first intervals, as far as they could share processes and none was remarkable.

        The first interval has a process of its own, which tells how long one takes.
        """
        if self.pool is not None or not isinstance(pool, ForkPool) or fresh is None or len(intervals) < SHARED_MIN:
            return
        if self.world is None or self.tape.meta.get("scenario") is not None:
            return  # Worlds and scenarios are packages of their own, which are not walked.
        outside, modules = read_outside(self.world), list(sys.modules.items())
        if outside is None:
            return
        [trial] = run_each(self.tape, self.world, intervals[:1], 1, on_progress, _tried, pool, fresh)
        yield trial.result
        start_s = time.process_time()
        if not _is_usual(trial.result) or not import_libraries(trial.imported):
            return
        imports_s = time.process_time() - start_s  # They were a part of the first interval, and are not of the others.
        each = -(-(len(intervals) - 1) // self.jobs)  # All processes have work.
        count = min(SHARED_MAX, each, int(SHARED_S / max(trial.cpu_s - imports_s, 1e-9)))
        if count < 2:
            return
        if list(sys.modules.items()) != modules:  # Otherwise this process has done nothing since then.
            outside = read_outside(self.world)
            if outside is None:
                return
        rest = intervals[1:]
        groups = [rest[start : start + count] for start in range(0, len(rest), count)]
        results = results_in_order(
            pool,
            _SharedProcess(self.tape, self.world, outside),
            groups,
            name=lambda group: f"simulated ticks {group[0].place.tick} to {group[-1].final_tick}",
            size=_tick_count,
            on_progress=on_progress,
        )
        try:
            for group in results:
                if group is None:
                    return
                yield from group
        except (WorkerDiedError, WorkerStuckError):
            return  # A process for one interval says which.

    def _choose(self) -> Pool:
        if self.pool is not None:
            return self.pool
        if self.hazard is None:
            return ForkPool(self.jobs, min(FORK_PATIENCE_S, self.patience_s))
        if can_be_imported(self.world):
            self.note = (
                "simulated in a fresh process for several intervals each, and not in a forked copy for each interval, "
                f"because {self._why}: what a step keeps in globals of modules may stay unnoticed"
            )
            return SpawnPool(self.jobs, patience_s=self.patience_s, imports_main=False)
        self.note = (
            f"simulated in this process, because {self._why} and a new process cannot import the simulation: "
            "what a step keeps in globals of modules, or what this process has in them, stays unnoticed; a simulation in "
            "a module, given as module:factory, is checked better"
        )
        return InlinePool()


def _tick_count(group: list[Interval]) -> int:
    return sum(interval.final_tick - interval.place.tick for interval in group)


@attrs.frozen
class _Trial:
    """An interval in a process of its own: its result, its processor time, and the modules that it imported."""

    result: IntervalResult
    cpu_s: float
    imported: list[str]


def _tried(cursor: Cursor, interval: Interval, report: Report) -> _Trial:
    before, start_s = set(sys.modules), time.process_time()
    result = verify_interval(cursor, interval, report)
    return _Trial(result, time.process_time() - start_s, [name for name in sys.modules if name not in before])


def _counted_on(report: Report, done: int) -> Callable[[int], None]:
    return lambda ticks: report(done + ticks)


def _is_usual(result: IntervalResult) -> bool:
    """Return True if all ticks have the recorded hash, and nothing else is to be told."""
    wrong_values = result.values is not None and not result.values.proved
    return result.bad_tick is None and result.problem is None and result.keyframe_problem is None and not wrong_values


@attrs.frozen
class _SharedProcess:
    """Verifies several intervals in one process; None unless each is usual and leaves everything untouched.

    The last one comes first: what a step counts in hidden state is then behind, and not as it was when
    the tape was recorded.
    """

    tape: Tape
    world: Factory | None
    outside: ReadableOutside

    def __call__(self, group: list[Interval], report: Report, /) -> list[IntervalResult] | None:
        outside, results, done = self.outside.begin(), list[IntervalResult](), 0
        for interval in reversed(group):
            try:
                cursor = Cursor(self.tape, make_simulation(self.tape, self.world))
                result = verify_interval(cursor, interval, _counted_on(report, done))
            except Exception:  # noqa: BLE001 - a process of its own raises it again, for the first such interval
                return None
            if not _is_usual(result) or not outside.are_untouched():
                return None
            results.append(result)
            done += interval.final_tick - interval.place.tick
        return results[::-1]


def verify_each(
    tape: Tape,
    world: Factory | None,
    intervals: list[Interval],
    on_progress: Callable[[int], None],
    hazard: str | None = None,
) -> Iterator[IntervalResult]:
    """Yield the results of intervals, one after another, in a process that has not made the simulation.

    hazard: what forked copies would miss. Raises as IntervalProcesses.verify.
    """
    import_adapters(tape)
    return IntervalProcesses(tape, world, 1, None, FreshSimulation(None, hazard)).verify(intervals, on_progress)


def can_be_imported(world: Factory | None) -> bool:
    """Return True if a new process can get the factory by its name, without running the main program again."""
    if world is None:
        return True
    try:
        pickled = bytes(ForkingPickler.dumps(world))
    except Exception:  # noqa: BLE001 - a class of the user's may raise anything; it cannot be sent then
        return False
    return b"__main__" not in pickled
