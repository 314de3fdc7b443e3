"""Many runs in processes: results in the order of the jobs, whatever the number of workers, and whoever dies.

Invariant: what a run comes to depends on its job alone; workers share nothing.
"""

from __future__ import annotations

import glob
import multiprocessing
import os
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

import attrs

from recorder.courses import Course, course_of
from recorder.scenarios.running import run_with_scenario
from sim.kernel.registry import Origin, find_world
from sim.scenario.identity import scenario_hash
from sim.scenario.load import FOREIGN, Scenario
from sim.scenario.results import PRODUCTIVE_KINDS, ScenarioResult

ATTEMPTS_MAX = 2  # A worker that dies twice over one job, the second time with nothing else to do, dies of that job.
POPULATION_PREFIXES = ("heads.", "plants.")  # Of figures that say how many of a species are alive.


@attrs.frozen
class Job:
    """One run.

    Attributes:
        index: its place in the batch.
        name: for tables and files.
        world: a registered world's name, and its configuration.
        scenario: what stands under ``scenario``; None is nothing.
        ticks: how far.
        bindings: which parameters this run has that others have not, by path.
        players: policies by player.
        tape: where to record it; None keeps no tape.
    """

    index: int
    name: str
    world: str
    config: Mapping[str, Any]
    scenario: Mapping[str, Any] | None
    ticks: int
    bindings: Mapping[str, Any] = attrs.field(factory=dict)
    players: Mapping[str, str] = attrs.field(factory=dict)
    tape: Path | None = None

    @property
    def run_name(self) -> str:
        """What files of this run are called."""
        return f"run-{self.index:05d}"

    @property
    def scenario_hash(self) -> str:
        """See sim.scenario.identity. Raises UnknownWorldError."""
        origin = Origin(self.world, find_world(self.world).version, self.config)
        return scenario_hash({"world": origin.described(), "scenario": self.scenario})


@attrs.frozen
class RunRecord:
    """What became of a job.

    Attributes:
        index, name, bindings, ticks: the job's.
        scenario_hash, regime, final_tick, final_hash: of the run; empty and 0 if there was none.
        violations: [property, tick, details].
        extinctions: by species, the tick at which it died out; None if it is alive.
        event_counts: by kind.
        productive: how many events were productive.
        tape: its path, as text; None without.
        error: what went wrong; None if nothing did.
        attempts: how often the job was begun.
    """

    index: int
    name: str
    bindings: Mapping[str, Any]
    ticks: int = 0
    scenario_hash: str = ""
    regime: str = ""
    final_tick: int = 0
    final_hash: str = ""
    violations: Sequence[Sequence[Any]] = ()
    extinctions: Mapping[str, int | None] = attrs.field(factory=dict)
    event_counts: Mapping[str, int] = attrs.field(factory=dict)
    productive: int = 0
    tape: str | None = None
    error: str | None = None
    attempts: int = 1


def job_of(loaded: Scenario, index: int, *, ticks: int | None = None, **more: Any) -> Job:
    """The job of a scenario that was read. Raises ValueError for one without a registered world."""
    if loaded.world is FOREIGN:
        raise ValueError(f"{loaded.name}: runs in processes need a registered world")
    goal = ticks if ticks is not None else loaded.ticks
    name = more.pop("name", loaded.name)
    return Job(index, name, loaded.world.name, loaded.config, loaded.provocation, goal, **more)


def course_of_job(job: Job) -> Course:
    """What a job is fed with. Raises as course_of does."""
    return course_of(find_world(job.world), job.config, players=job.players, by_role=job.scenario is not None)


def run_job(job: Job) -> RunRecord:
    """Run one job in this process; whatever goes wrong is in the record."""
    extinct: dict[str, int | None] = {}

    def watch(tick: int, simulation: Any) -> None:
        telemetry = getattr(simulation, "telemetry", None)
        for name, value in (telemetry() if telemetry is not None else {}).items():
            if name.startswith(POPULATION_PREFIXES):
                species = name.partition(".")[2]
                if value > 0:
                    extinct[species] = None
                elif extinct.setdefault(species, tick) is None:
                    extinct[species] = tick

    try:
        world = find_world(job.world)
        course = course_of_job(job)
        result = run_with_scenario(
            world.make(job.config),
            job.scenario or {},
            inputs=course.inputs,
            steps=job.ticks + 1,
            tape=job.tape,
            artifacts=(job.tape.parent if job.tape is not None else Path.cwd()) / "artifacts" / f"run_{job.index}",
            functions=world.properties,
            watch=watch,
        )
    except Exception as error:  # noqa: BLE001 - one bad run must not end a batch; the record says what it was.
        return failed_record(job, error)
    return record_of(job, result, extinct)


def record_of(job: Job, result: ScenarioResult, extinct: Mapping[str, int | None]) -> RunRecord:
    """What a job has come to."""
    return RunRecord(
        job.index,
        job.name,
        job.bindings,
        job.ticks,
        result.scenario_hash,
        result.regime,
        result.final_tick,
        result.final_hash,
        [[one.name, one.tick, one.details] for one in result.violations],
        dict(sorted(extinct.items())),
        dict(result.event_counts),
        sum(result.event_counts.get(kind, 0) for kind in PRODUCTIVE_KINDS),
        str(job.tape) if job.tape is not None else None,
        result.error,
    )


def failed_record(job: Job, error: Exception | str) -> RunRecord:
    """That a job has come to nothing, and why."""
    why = error if isinstance(error, str) else f"{type(error).__name__}: {error}"
    return RunRecord(job.index, job.name, job.bindings, job.ticks, error=why)


def worker_count(wanted: int | None = None) -> int:
    """How many workers: as many as asked for, else one where CI is set, else one for each processor."""
    if wanted is not None:
        return wanted
    return 1 if os.environ.get("CI") else len(os.sched_getaffinity(0))


def run_many(
    jobs: Sequence[Job],
    *,
    workers: int | None = None,
    executor: Executor | None = None,
    finished: Callable[[RunRecord], None] | None = None,
    work: Callable[[Job], RunRecord] = run_job,
) -> list[RunRecord]:
    """Run all jobs; their records, in the order of the jobs.

    workers: see worker_count. executor: any of concurrent.futures instead of processes of our own; it is not shut down.
    finished: called with each record as it comes, in any order. work: what a worker does with a job.
    """
    records: dict[int, RunRecord] = {}

    def keep(record: RunRecord) -> None:
        records[record.index] = record
        if finished is not None:
            finished(record)

    if executor is not None:
        _run_in(executor, jobs, len(jobs), work, keep)
    elif worker_count(workers) == 1:
        for job in jobs:
            keep(work(job))
    else:
        _run_in_processes(jobs, worker_count(workers), work, keep)
    return [records[job.index] for job in jobs]


def _run_in_processes(
    jobs: Iterable[Job], workers: int, work: Callable[[Job], RunRecord], keep: Callable[[RunRecord], None]
) -> None:
    """If a worker dies, those jobs that were under way are suspects, and run again one by one, each in its own process."""
    waiting = deque(jobs)
    # What a suspect has written of its tape goes; what was there before is somebody's, and refused as ever.
    own = {job.index for job in waiting if job.tape is not None and not job.tape.exists()}
    while waiting:
        with _pool(workers) as pool:
            suspects = _run_in(pool, waiting, 2 * workers, work, keep)
        for suspect in suspects:
            if suspect.tape is not None and suspect.index in own:
                clear_unfinished(suspect.tape)
            with _pool(1) as alone:
                broken = _run_in(alone, deque([suspect]), 1, work, lambda record: keep(_again(record)))
            if broken:
                why = f"its worker died {ATTEMPTS_MAX} times, the last time with nothing else to do"
                keep(_again(failed_record(suspect, why)))


def clear_unfinished(tape: Path) -> None:
    """Take away the files of the tape of a run that did not finish: it is run again."""
    for path in tape.parent.glob(f"{glob.escape(tape.name)}*"):
        path.unlink()


def _again(record: RunRecord) -> RunRecord:
    return attrs.evolve(record, attempts=ATTEMPTS_MAX)


def _pool(workers: int) -> ProcessPoolExecutor:
    # Not forked: a fork takes the locks of threads with it, a recorder's writer among them.
    return ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn"))


def _run_in(
    executor: Executor,
    jobs: Iterable[Job],
    at_once: int,
    work: Callable[[Job], RunRecord],
    keep: Callable[[RunRecord], None],
) -> list[Job]:
    """Run jobs until there are none, or a worker has died; then, those that were under way. Takes from a deque."""
    waiting = jobs if isinstance(jobs, deque) else deque(jobs)
    under_way: dict[Future[RunRecord], Job] = {}
    broken: list[Job] = []
    while under_way or (waiting and not broken):
        while waiting and len(under_way) < at_once and not broken:
            job = waiting.popleft()
            try:
                under_way[executor.submit(work, job)] = job
            except BrokenProcessPool:
                broken.append(job)
        for future in wait(under_way, return_when=FIRST_COMPLETED).done if under_way else ():
            job = under_way.pop(future)
            try:
                keep(future.result())
            except BrokenProcessPool:
                broken.append(job)
            except Exception as error:  # noqa: BLE001 - of an executor of the user's: it could not take or give the job.
                keep(failed_record(job, error))
    return sorted(broken, key=lambda job: job.index)
