"""Choose where intervals are re-simulated: in forked copies of this process, in fresh processes, or in this one.

A forked copy for each interval is best: it is fast, and no interval can see what another one left behind. It hangs if
the simulation needs threads that this process has started. That is seen beforehand if they were started when the
simulation was made; otherwise the hanging copy is ended, and its interval is repeated elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from multiprocessing.reduction import ForkingPickler

import attrs

from recorder.processes.fork_hazard import fork_hazard
from recorder.processes.fork_pool import ForkPool
from recorder.processes.inline_pool import InlinePool
from recorder.processes.pool import Pool
from recorder.processes.spawn_pool import SpawnPool
from recorder.processes.stuck_workers import PATIENCE_S, WorkerStuckError
from replayer.playback.make_simulation import Factory
from replayer.tape.tape import Tape
from replayer.timeline.intervals import FreshSimulation, Interval, IntervalResult, run_intervals

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
