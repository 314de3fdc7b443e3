"""Many runs in processes: results in the order of the jobs, whatever the number of workers, and whoever dies.

Invariant: what a run comes to depends on its job alone; workers share nothing.
"""

from __future__ import annotations

import errno
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from functools import partial
from pathlib import Path
from typing import Any

import attrs

from recorder.errors import RecordingWarning, WriterFailedError
from recorder.processes.deferred_interrupts import interrupts_held_back
from recorder.processes.executor_pool import ExecutorPool
from recorder.processes.pool import Outcome, Pool, Report, WorkerDiedError
from recorder.processes.spawn_pool import SpawnPool
from recorder.runs.input_source import InputSource, input_source_of
from recorder.scenarios.run_scenario import run_with_scenario
from recorder.settings import TICKS_MAX
from recorder.storage.file_names import following_segments, journal_path, segment_path, unfinished_paths
from sim.kernel.hooks import HasTelemetry, hook
from sim.kernel.registry import ConfigError, Origin, find_world
from sim.scenario.config.identity import scenario_hash
from sim.scenario.results.result import PRODUCTIVE_KINDS, ScenarioResult
from sim.scenario.scenario_file import FOREIGN, Scenario

ATTEMPTS_MAX = 2  # A worker that dies twice over one job, the second time with nothing else to do, dies of that job.
POPULATION_PREFIXES = ("heads.", "plants.")  # Of figures that say how many of a species are alive.
# What a system says that has no more room, or lets nobody write: all that comes after would meet the same.
DISK_ERRORS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO})

# A run that was stopped is run again: its last ticks need no journal, and a tape with gaps must not count as finished.
TAPE_SETTINGS: Mapping[str, Any] = {"durability": "block", "on_error": "raise"}


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
        """See sim.scenario.config.identity. Raises UnknownWorldError."""
        origin = Origin(self.world, find_world(self.world).version, self.config)
        return scenario_hash({"world": origin.described(), "scenario": self.scenario})


@attrs.frozen
class RunRecord:
    """What became of a job.

    Attributes:
        index, name, bindings, ticks: the job's.
        scenario_hash, regime, final_tick, final_hash: of the run; empty and 0 if there was none.
        violations: [property, tick, details].
        extinctions: by species that was ever there, the tick at which it died out; None if it is alive.
        event_counts: by kind.
        productive: how many events were productive.
        tape: its path, as text; None without.
        error: what went wrong; None if nothing did.
        attempts: how often the job was begun.
        disk_error: the system's number of why the disk took no more of the tape, whose rest is taken away; else None.
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
    disk_error: int | None = None


def ensure_registered(loaded: Scenario) -> None:
    """Raise ValueError for a scenario that names no world: a process of ours could not make it."""
    if loaded.world is FOREIGN:
        raise ValueError(
            f"{loaded.name}: runs in processes need a registered world, and this scenario names none; "
            "record run --sim runs it, or recorder.scenarios.harness.run_harness many"
        )


def job_of(loaded: Scenario, index: int, *, ticks: int | None = None, **more: Any) -> Job:
    """The job of a scenario that was read. Raises ValueError for one without a registered world."""
    ensure_registered(loaded)
    goal = ticks if ticks is not None else loaded.ticks
    name = more.pop("name", loaded.name)
    return Job(index, name, loaded.world.name, loaded.config, loaded.provocation, goal, **more)


def ticks_of(loaded: Scenario) -> int:
    """How far a scenario is to be run. Raises ConfigError."""
    ticks = loaded.ticks
    if ticks == 0 and (loaded.provocation or {}).get("steps") == 1:
        raise ConfigError("scenario.steps", "at least 2 was expected, a sample at tick 0 and one behind it; found 1")
    if type(ticks) is not int or not 0 < ticks <= TICKS_MAX:
        raise ConfigError("ticks", f"a whole number of at least 1 was expected, found {ticks!r}")
    return ticks


def input_source_of_job(job: Job) -> InputSource:
    """What a job is fed with. Raises as input_source_of does."""
    return input_source_of(find_world(job.world), job.config, players=job.players, by_role=job.scenario is not None)


def run_job(job: Job) -> RunRecord:
    """Run one job in this process; whatever goes wrong is in the record."""
    extinct: dict[str, int | None] = {}

    def watch(tick: int, simulation: Any) -> None:
        found = hook(simulation, HasTelemetry)
        for name, value in (found.telemetry() if found is not None else {}).items():
            if name.startswith(POPULATION_PREFIXES):
                species = name.partition(".")[2]
                if value > 0:
                    extinct[species] = None
                elif extinct.get(species, tick) is None:  # One that was never there cannot die out.
                    extinct[species] = tick

    is_new = job.tape is not None and not files_of(job.tape)
    try:
        world = find_world(job.world)
        input_source = input_source_of_job(job)
        result = run_with_scenario(
            world.make(job.config),
            job.scenario or {},
            inputs=input_source.inputs,
            steps=job.ticks + 1,
            tape=job.tape,
            artifacts=(job.tape.parent if job.tape is not None else Path.cwd()) / "artifacts" / f"run_{job.index}",
            functions=world.properties,
            settings={**TAPE_SETTINGS, "notes": {"players": dict(job.players)}},
            watch=watch,
        )
    except (WriterFailedError, OSError) as error:
        number = _disk_error(error)
        if number is not None and job.tape is not None and is_new:
            clear_unfinished(job.tape)
        return attrs.evolve(failed_record(job, error), disk_error=number)
    except Exception as error:  # noqa: BLE001 - one bad run must not end a batch; the record says what it was.
        return failed_record(job, error)
    return record_of(job, result, extinct)


def _disk_error(error: BaseException | None) -> int | None:
    """The number of what the system refused, if that is a matter of the disk and not of one file."""
    while error is not None and not isinstance(error, OSError):
        error = error.__cause__
    return error.errno if isinstance(error, OSError) and error.errno in DISK_ERRORS else None


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
    pool: Pool | None = None,
    finished: Callable[[RunRecord], None] | None = None,
    work: Callable[[Job], RunRecord] = run_job,
) -> list[RunRecord]:
    """Run all jobs; their records, in the order of the jobs.

    workers: see worker_count. executor: any of concurrent.futures instead of processes of our own; it is not shut down.
    If a process of it dies, it takes no more jobs: those that it has left run in processes of our own, by default one.
    pool: what runs the jobs instead; see recorder.processes.pool. finished: called with each record as it comes, in any
    order. work: what a worker does with a job.

    Raises ValueError if two jobs have the same index, or if both an executor and a pool are given.
    """
    if executor is not None and pool is not None:
        raise ValueError("expected an executor or a pool, got both")
    if len({job.index for job in jobs}) < len(jobs):
        raise ValueError("each job of a batch needs an index of its own")
    batch = _Batch(jobs, work, finished)
    if executor is not None:
        own = _own_pool(workers or 1)
        batch.run_in(ExecutorPool(executor), again=own)
        batch.run_in(own, again=own)
    elif pool is not None:
        batch.run_in(pool, again=pool)
    elif worker_count(workers) == 1:
        for job in jobs:
            batch.keep(work(job))
    else:
        own = _own_pool(worker_count(workers))
        batch.run_in(own, again=own)
    return [batch.records[job.index] for job in jobs]


def _own_pool(workers: int) -> SpawnPool:
    return SpawnPool(workers, prepare=_ignore_recording_warnings)


def _ignore_recording_warnings() -> None:
    warnings.simplefilter("ignore", RecordingWarning)  # A tape that fails is in its run's record.


def _work_on(work: Callable[[Job], RunRecord], job: Job, _: Report) -> RunRecord:
    return work(job)


class _Batch:
    """Jobs that wait, and what has become of the others.

    A job whose worker dies is run again when the others are done, with nothing else to do.
    """

    def __init__(
        self, jobs: Sequence[Job], work: Callable[[Job], RunRecord], finished: Callable[[RunRecord], None] | None
    ) -> None:
        self.records: dict[int, RunRecord] = {}
        self._waiting = list(jobs)
        self._work = partial(_work_on, work)
        self._finished = finished
        # What such a job has written of its tape goes; what was there before is somebody's, and refused as ever.
        self._own = {job.index for job in jobs if job.tape is not None and not job.tape.exists()}

    def keep(self, record: RunRecord) -> None:
        """Take a record, and tell of it."""
        self.records[record.index] = record
        if self._finished is not None:
            self._finished(record)

    def run_in(self, pool: Pool, again: Pool) -> None:
        """Run all that wait, and in again those whose worker died. Those that the pool does not take wait on."""
        if not self._waiting:
            return
        died = self._run(pool, self._waiting, self.keep)
        for job in sorted(died, key=lambda job: job.index):
            if job.tape is not None and job.index in self._own:
                clear_unfinished(job.tape)
            if self._run(again, [job], self._keep_again):
                why = f"its worker died {ATTEMPTS_MAX} times, the last time with nothing else to do"
                self._keep_again(failed_record(job, why))
        self._waiting = [job for job in self._waiting if job.index not in self.records]

    def _run(self, pool: Pool, jobs: Sequence[Job], keep: Callable[[RunRecord], None]) -> list[Job]:
        """Run jobs in a pool and keep their records; those whose worker died.

        If keep raises nothing more is begun; if a user interrupts, what had finished is kept first.
        """
        died: list[Job] = []

        def take(outcome: Outcome[RunRecord]) -> None:
            job = jobs[outcome.index]
            if isinstance(outcome.error, WorkerDiedError):
                died.append(job)
            else:
                keep(failed_record(job, outcome.error) if outcome.error is not None else outcome.get())

        submission = pool.submit(self._work, jobs, name=lambda job: f"ran {job.run_name}")
        try:
            for outcome in submission:
                with interrupts_held_back():  # In the midst of it, the record would be kept once more.
                    take(outcome)
        except KeyboardInterrupt:
            for outcome in submission.cancel():
                if outcome.error is None:
                    take(outcome)
            raise
        finally:
            submission.cancel()
        return died

    def _keep_again(self, record: RunRecord) -> None:
        self.keep(attrs.evolve(record, attempts=ATTEMPTS_MAX))


def files_of(tape: Path) -> list[Path]:
    """The files of a recording to tape that are there; others whose names only begin as its name does are not its own."""
    if not tape.parent.is_dir():
        return []
    numbers = (0, *following_segments(tape))
    named = [*(segment_path(tape, number) for number in numbers), journal_path(tape), *unfinished_paths(tape)]
    return [path for path in named if os.path.lexists(path)]


def clear_unfinished(tape: Path) -> None:
    """Take away the files of the tape of a run that did not finish: it is run again. Raises OSError."""
    for path in files_of(tape):
        path.unlink()
