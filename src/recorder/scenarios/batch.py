"""Run many jobs in processes: results in the order of the jobs, for any number of workers, even if workers die.

Invariant: the result of a run depends on its job alone; workers share nothing.
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
from recorder.processes.engines.engine import Engine, engine_pool
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

ATTEMPTS_MAX = 2  # If a worker dies twice on one job, the second time with no other job, the job is the cause.
POPULATION_PREFIXES = ("heads.", "plants.")  # Figures that count the living of a species.
# A full or read-only disk: all later runs would fail with the same error.
DISK_ERRORS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO})

# A stopped run starts again: its last ticks need no journal, and a tape with gaps must not count as finished.
TAPE_SETTINGS: Mapping[str, Any] = {"durability": "block", "on_error": "raise"}


@attrs.frozen
class Job:
    """One run.

    Attributes:
        index: its position in the batch.
        name: used in tables and files.
        world, config: the name of a registered world, and its configuration.
        scenario: the table ``scenario`` of the file; None if it has none.
        ticks: the last tick.
        bindings: the parameters that distinguish this run, by path.
        players: policies by player.
        tape: path of the tape; None records none.
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
        """The name of the files of this run, without a suffix."""
        return f"run-{self.index:05d}"

    @property
    def scenario_hash(self) -> str:
        """The hash of sim.scenario.config.identity. Raises UnknownWorldError."""
        origin = Origin(self.world, find_world(self.world).version, self.config)
        return scenario_hash({"world": origin.described(), "scenario": self.scenario})


@attrs.frozen
class RunRecord:
    """The result of a job.

    Attributes:
        index, name, bindings, ticks: copied from the job.
        scenario_hash, regime, final_tick, final_hash: facts of the run; empty and 0 if there was none.
        violations: [property, tick, details].
        extinctions: for each species that ever lived, the tick at which it died out; None if it is alive.
        event_counts: number of events by kind.
        productive: number of productive events.
        progress: the bounds of a world with protocols at the end of the run: work, depth budget, capacities, phases;
            None for other worlds, and in manifests of earlier versions.
        reconfigurations: ScenarioResult.reconfiguration_summary; None in manifests of earlier versions, as the next two.
        scheduler, eligibility: ScenarioResult.scheduler and ScenarioResult.eligibility.
        tape: the path of the tape as text; None without a tape.
        error: the failure; None if there was none.
        attempts: number of times the job was started.
        disk_error: the errno with which the disk refused the tape, whose files are then deleted; else None.
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
    progress: Mapping[str, Any] | None = None
    reconfigurations: Mapping[str, int] | None = None
    scheduler: Mapping[str, Any] | None = None
    eligibility: Mapping[str, Sequence[Any]] | None = None


def ensure_registered(loaded: Scenario) -> None:
    """Raise ValueError for a scenario that names no world: a worker process could not make it."""
    if loaded.world is FOREIGN:
        raise ValueError(
            f"{loaded.name}: runs in processes need a registered world, but this scenario names none: "
            "use record run --sim, or recorder.scenarios.harness.run_harness for many"
        )


def job_of(loaded: Scenario, index: int, *, ticks: int | None = None, **more: Any) -> Job:
    """Make the job of a loaded scenario. Raises ValueError for one without a registered world."""
    ensure_registered(loaded)
    goal = ticks if ticks is not None else loaded.ticks
    name = more.pop("name", loaded.name)
    return Job(index, name, loaded.world.name, loaded.config, loaded.provocation, goal, **more)


def ticks_of(loaded: Scenario) -> int:
    """Return the last tick of a scenario. Raises ConfigError."""
    ticks = loaded.ticks
    if ticks == 0 and (loaded.provocation or {}).get("steps") == 1:
        raise ConfigError("scenario.steps", "expected at least 2, a sample at tick 0 and one after it, got 1")
    if type(ticks) is not int or not 0 < ticks <= TICKS_MAX:
        raise ConfigError("ticks", f"expected a whole number of at least 1, got {ticks!r}")
    return ticks


def input_source_of_job(job: Job) -> InputSource:
    """Return the source of inputs of a job. Raises like input_source_of."""
    return input_source_of(find_world(job.world), job.config, players=job.players, by_role=job.scenario is not None)


def run_job(job: Job) -> RunRecord:
    """Run one job in this process; the record holds any failure."""
    extinct: dict[str, int | None] = {}

    def watch(tick: int, simulation: Any) -> None:
        reporting = hook(simulation, HasTelemetry)
        for name, value in (reporting.telemetry() if reporting is not None else {}).items():
            if name.startswith(POPULATION_PREFIXES):
                species = name.partition(".")[2]
                if value > 0:
                    extinct[species] = None
                elif extinct.get(species, tick) is None:  # A species that never lived cannot die out.
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
    except Exception as error:  # noqa: BLE001 - one failed run must not end a batch; the record holds the error.
        return failed_record(job, error)
    return record_of(job, result, extinct)


def _disk_error(error: BaseException | None) -> int | None:
    """Return the errno if the disk refused to write, not only one file; else None."""
    while error is not None and not isinstance(error, OSError):
        error = error.__cause__
    return error.errno if isinstance(error, OSError) and error.errno in DISK_ERRORS else None


def record_of(job: Job, result: ScenarioResult, extinct: Mapping[str, int | None]) -> RunRecord:
    """Make the record of a job from its result."""
    return RunRecord(
        job.index,
        job.name,
        job.bindings,
        job.ticks,
        result.scenario_hash,
        result.regime,
        result.final_tick,
        result.final_hash,
        [[violation.name, violation.tick, violation.details] for violation in result.violations],
        dict(sorted(extinct.items())),
        dict(result.event_counts),
        sum(result.event_counts.get(kind, 0) for kind in PRODUCTIVE_KINDS),
        str(job.tape) if job.tape is not None else None,
        result.error,
        progress=dict(result.progress) if result.progress is not None else None,
        reconfigurations=result.reconfiguration_summary,
        scheduler=dict(result.scheduler) if result.scheduler is not None else None,
        eligibility=result.eligibility,
    )


def failed_record(job: Job, error: Exception | str) -> RunRecord:
    """Make the record of a failed job."""
    text = error if isinstance(error, str) else f"{type(error).__name__}: {error}"
    return RunRecord(job.index, job.name, job.bindings, job.ticks, error=text)


def worker_count(requested: int | None = None) -> int:
    """Return the number of workers: as requested, else one if CI is set, else one per processor."""
    if requested is not None:
        return requested
    return 1 if os.environ.get("CI") else len(os.sched_getaffinity(0))


def run_many(
    jobs: Sequence[Job],
    *,
    workers: int | None = None,
    executor: Executor | None = None,
    pool: Pool | None = None,
    engine: str | Engine | None = None,
    finished: Callable[[RunRecord], None] | None = None,
    work: Callable[[Job], RunRecord] = run_job,
) -> list[RunRecord]:
    """Run all jobs; return their records, in the order of the jobs.

    workers: see worker_count. executor: an executor of concurrent.futures to use instead; it is not shut down. If one
    of its processes dies, the remaining jobs run in worker processes, by default in one. pool: runs the jobs instead;
    see recorder.processes.pool. engine: "ray", "ray:ADDRESS" or a RayEngine runs them there. finished: called with each record
    when it is available, in any order. work: runs one job.

    Raises ValueError if two jobs have the same index, or if more than one of executor, pool and engine is given; EngineError.
    """
    if executor is not None and (pool is not None or engine is not None):
        raise ValueError("expected an executor or a pool, got both")
    if len({job.index for job in jobs}) < len(jobs):
        raise ValueError("expected a different index for each job of the batch")
    batch = _Batch(jobs, work, finished)
    if executor is not None:
        own = _own_pool(workers or 1)
        batch.run_in(ExecutorPool(executor), again=own)
        batch.run_in(own, again=own)
    else:
        with engine_pool(engine, workers, other=pool) as given:
            if given is None and worker_count(workers) == 1:
                for job in jobs:
                    batch.keep(work(job))
            else:
                used = given if given is not None else _own_pool(worker_count(workers))
                batch.run_in(used, again=used)
    return [batch.records[job.index] for job in jobs]


def _own_pool(workers: int) -> SpawnPool:
    return SpawnPool(workers, prepare=_ignore_recording_warnings)


def _ignore_recording_warnings() -> None:
    warnings.simplefilter("ignore", RecordingWarning)  # The record of the run reports a failed tape.


def _work_on(work: Callable[[Job], RunRecord], deletable: frozenset[int], job: Job, _: Report) -> RunRecord:
    if job.tape is not None and job.index in deletable:
        clear_unfinished(job.tape)  # Of a worker that was lost with its machine: the pool runs the job again.
    return work(job)


class _Batch:
    """The waiting jobs, and the records of the finished ones.

    A job whose worker dies runs again after the others, while no other job runs.
    """

    def __init__(
        self, jobs: Sequence[Job], work: Callable[[Job], RunRecord], finished: Callable[[RunRecord], None] | None
    ) -> None:
        self.records: dict[int, RunRecord] = {}
        self._waiting = list(jobs)
        self._finished = finished
        # The partial tape of such a job is deleted, but never a file that existed before the batch.
        self._deletable = frozenset(job.index for job in jobs if job.tape is not None and not files_of(job.tape))
        self._work = partial(_work_on, work, self._deletable)

    def keep(self, record: RunRecord) -> None:
        """Store a record and report it."""
        self.records[record.index] = record
        if self._finished is not None:
            self._finished(record)

    def run_in(self, pool: Pool, again: Pool) -> None:
        """Run all waiting jobs, and those whose worker died in the pool again. Jobs that the pool refuses keep waiting."""
        if not self._waiting:
            return
        died = self._run(pool, self._waiting, self.keep)
        for job in sorted(died, key=lambda job: job.index):
            if job.tape is not None and job.index in self._deletable:
                clear_unfinished(job.tape)
            if self._run(again, [job], self._keep_again):
                text = f"its worker died {ATTEMPTS_MAX} times, the last time while running no other job"
                self._keep_again(failed_record(job, text))
        self._waiting = [job for job in self._waiting if job.index not in self.records]

    def _run(self, pool: Pool, jobs: Sequence[Job], keep: Callable[[RunRecord], None]) -> list[Job]:
        """Run jobs in a pool and keep their records; return the jobs whose worker died.

        If keep raises, no further job starts. After an interrupt, the records of finished jobs are kept first.
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
                with interrupts_held_back():  # An interrupt while keeping would keep the record twice.
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
    """Return the existing files of a tape. Files whose names only start like the tape's do not belong to it."""
    if not tape.parent.is_dir():
        return []
    numbers = (0, *following_segments(tape))
    paths = [*(segment_path(tape, number) for number in numbers), journal_path(tape), *unfinished_paths(tape)]
    return [path for path in paths if os.path.lexists(path)]


def clear_unfinished(tape: Path) -> None:
    """Delete the files of the tape of an unfinished run, which starts again. Raises OSError."""
    for path in files_of(tape):
        path.unlink()
