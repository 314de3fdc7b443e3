"""Generate a corpus: which runs there are to be, which of them are there already, and running the others in processes.

Invariants:
    1. A run that has finished is a sealed tape under its own name. While it is recorded the tape has another name, and
       is renamed when it is sealed; so whatever kills the program loses the runs under way, and no others.
    2. What is there is a set: in which order runs have finished does not matter.
    3. The tape of a run depends on the run alone: its bytes are the same whatever the number of processes, and whenever
       it is made.
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import itertools
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs

from recorder.corpus.corpus import TAPE_SUFFIX, Corpus, note_run
from recorder.corpus.inspect_tape import SCENARIO_NOTE, SCORES, SOURCE_NOTE, examine, family_of, scores_of
from recorder.corpus.run import GENERATED, Run, Settings
from recorder.exit_codes import UsageError
from recorder.processes.pool import Pool
from recorder.recording_options import KEYFRAME_INTERVAL_TICKS
from recorder.runs.input_source import input_source_of
from recorder.runs.outcome import outcome_at
from recorder.scenarios.batch import Job, RunRecord, clear_unfinished, input_source_of_job, job_of, run_many
from recorder.scenarios.run_scenario import raced_inputs
from recorder.session.recorder import Recorder
from recorder.session.session import exception_text
from recorder.settings import TICKS_MAX
from recorder.storage.atomic_file import PART_SUFFIX, publish_file
from sim.kernel.registry import ConfigError, find_world
from sim.scenario.scenario_file import FOREIGN, Scenario, load_scenario
from sim.scenario.wrap import wrap_scenario

NAME_CHARS_MAX = 150  # Of a tape's name; file systems take 255 bytes, and a suffix comes behind it.


@attrs.frozen
class PlannedRun:
    """A run that there is to be.

    Attributes:
        job: what a worker does; its tape is where the finished one will be.
        scenario: its name.
        seed: of the scenario.
        settings: see Settings.
    """

    job: Job
    scenario: str
    seed: int
    settings: Settings


@attrs.frozen
class GeneratedRun(RunRecord):
    """What became of a job, and the run on its tape if there is one."""

    run: Run | None = None


def plan_runs(
    scenarios: Sequence[str],
    folder: Path,
    *,
    seeds: Sequence[int] | None = None,
    players: Mapping[str, Sequence[str]] | None = None,
    ticks: int | None = None,
    keyframe_interval_ticks: int,
) -> list[PlannedRun]:
    """All runs: each scenario with each seed and each combination of policies, the last player's turning fastest.

    seeds: of every scenario; its own without. players: policies by player. ticks: how far; as the scenario says without.

    Raises FileNotFoundError, ConfigError, UnknownWorldError, UsageError: for what none of the runs could be.
    """
    given = players or {}
    combinations = [dict(zip(given, policies, strict=True)) for policies in itertools.product(*given.values())]
    plan: list[PlannedRun] = []
    for scenario in scenarios:
        for place, seed in enumerate(seeds if seeds is not None else [None]):
            loaded = load_scenario(scenario, seed=seed)
            if place == 0:
                _ensure_possible(loaded, scenario, combinations, ticks)
            for policies in combinations:
                plan.append(_planned(loaded, policies, len(plan), folder, ticks, keyframe_interval_ticks))
    twice = _first_twice([one.job.tape for one in plan])
    if twice is not None:
        raise UsageError(f"two of the runs would have the same tape, {twice}: give scenarios different names")
    return plan


def _ensure_possible(
    loaded: Scenario, named: str, combinations: Sequence[Mapping[str, str]], ticks: int | None
) -> None:
    """Find mistakes before anything is written. Raises ConfigError, UsageError."""
    if loaded.world is FOREIGN:
        raise UsageError(f"{named}: runs in processes need a registered world")
    loaded.make()
    goal = ticks if ticks is not None else loaded.ticks
    if not isinstance(goal, int) or isinstance(goal, bool) or not 0 < goal <= TICKS_MAX:
        raise ConfigError("ticks", f"a whole number from 1 to {TICKS_MAX:,} was expected, found {goal!r}")
    for policies in combinations:
        input_source_of(loaded.world, loaded.config, players=policies, by_role=loaded.provocation is not None)


def _planned(
    loaded: Scenario, policies: Mapping[str, str], index: int, folder: Path, ticks: int | None, interval: int
) -> PlannedRun:
    seed = loaded.config.get("seed", 0)
    name = _tape_name(loaded.name, seed, policies)
    job = job_of(loaded, index, ticks=ticks, players=dict(policies), tape=folder / name)
    world = {"name": job.world, "version": loaded.world.version, "config": dict(job.config)}
    return PlannedRun(
        job, loaded.name, seed, Settings(family_of({"world": world, "scenario": job.scenario}), job.ticks, interval)
    )


def _tape_name(scenario: str, seed: int, policies: Mapping[str, str]) -> str:
    """A name that says which run it is; where it cannot say all of it, with a hash of the rest."""
    whole = "-".join([scenario, f"seed-{seed}", *(f"{player}={policy}" for player, policy in policies.items())])
    plain = re.sub(r"[^A-Za-z0-9._=-]+", "-", whole).strip(".-")[:NAME_CHARS_MAX]
    if plain != whole:
        plain += f"-{hashlib.blake2b(whole.encode(), digest_size=4).hexdigest()}"
    return plain + TAPE_SUFFIX


def _first_twice(values: Sequence[Any]) -> Any:
    seen: set[Any] = set()
    return next((one for one in values if one in seen or seen.add(one)), None)  # type: ignore[func-returns-value]


# --- what is there


@contextmanager
def locked_folder(folder: Path) -> Iterator[None]:
    """The folder, made if it is not there, for one process that generates. Raises UsageError, OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError(f"{folder}: another process is generating runs there") from None
        yield
    finally:
        os.close(descriptor)


def missing_runs(plan: Sequence[PlannedRun], corpus: Corpus) -> list[PlannedRun]:
    """The runs that are not there yet. Raises UsageError if the folder holds runs with other settings."""
    there = {run.tape: run for run in corpus}
    by_scenario: dict[str, Run] = {}
    for run in corpus:
        if run.source == GENERATED and run.scenario is not None and run.settings is not None:
            by_scenario.setdefault(run.scenario, run)
    missing = []
    for one in plan:
        other = by_scenario.get(one.scenario)
        if other is not None:
            _ensure_same_settings(one, other)
        found = there.get(_tape_of(one).name)
        if found is not None and _is_other(one, found):
            raise UsageError(f"{found.path} exists and is no run that was generated like this: move it away")
        if found is None or not found.ended or found.status != "intact":
            missing.append(one)
    return missing


def _ensure_same_settings(one: PlannedRun, run: Run) -> None:
    wanted, found = one.settings, run.settings
    assert found is not None
    if wanted == found:
        return
    pairs = [
        ("ticks", found.goal_ticks, wanted.goal_ticks),
        ("keyframes every", found.keyframe_interval_ticks, wanted.keyframe_interval_ticks),
    ]
    differ = [f"{what} {theirs}, not {mine}" for what, theirs, mine in pairs if theirs != mine]
    if wanted.family != found.family:
        version = find_world(one.job.world).version
        versions = f"version {run.version} of {run.world}, not {version}"
        differ.append(versions if run.version != version else "another scenario of that name")
    raise UsageError(
        f"{run.folder} holds runs of {one.scenario} with other settings ({'; '.join(differ)}): take another folder"
    )


def _is_other(one: PlannedRun, run: Run) -> bool:
    """Whether a tape that has the name of a run is of something else. One that is damaged, or empty, may be the run's."""
    if run.settings is None:
        return run.status == "unreadable" and run.size_bytes > 0
    return (run.source, run.scenario, run.seed, run.policies) != (GENERATED, one.scenario, one.seed, one.job.players)


def _tape_of(one: PlannedRun) -> Path:
    assert one.job.tape is not None
    return one.job.tape


# --- running


def run_missing(
    missing: Sequence[PlannedRun],
    folder: Path,
    *,
    workers: int | None = None,
    pool: Pool | None = None,
    progress: Callable[[int], None] | None = None,
) -> list[RunRecord]:
    """Run what is missing, tapes and index in the folder, which is locked; what became of it, in the same order.

    workers, pool: see run_many. progress: told how many have finished. Raises OSError, ForeignIndexError.
    """
    for one in missing:
        clear_unfinished(_tape_of(one))
    _clear_parts(missing)
    count = 0

    def finished(record: RunRecord) -> None:
        nonlocal count
        if isinstance(record, GeneratedRun) and record.run is not None:
            note_run(folder, record.run)
        count += 1
        if progress is not None:
            progress(count)

    jobs = [attrs.evolve(one.job, tape=part_of(_tape_of(one))) for one in missing]
    intervals = {one.settings.keyframe_interval_ticks or KEYFRAME_INTERVAL_TICKS for one in missing}
    assert len(intervals) <= 1  # Of all runs; see plan_runs.
    work = functools.partial(run_generated, keyframe_interval_ticks=max(intervals, default=KEYFRAME_INTERVAL_TICKS))
    try:
        return run_many(jobs, workers=workers, pool=pool, finished=finished, work=work)
    finally:
        _clear_parts(missing)  # Of runs that failed or were interrupted: they would be begun anew.


def _clear_parts(planned: Sequence[PlannedRun]) -> None:
    """Take away what was being recorded under the names that tapes have until they are sealed."""
    for one in planned:
        clear_unfinished(part_of(_tape_of(one)))


def part_of(tape: Path) -> Path:
    """What the tape of a run is called until it is sealed."""
    return tape.with_name(f"{tape.name}{PART_SUFFIX}")


def run_generated(job: Job, *, keyframe_interval_ticks: int) -> RunRecord:
    """Run one job in this process; whatever goes wrong is in the record. The tape of a run that ended has its own name.

    Raises KeyboardInterrupt.
    """
    assert job.tape is not None
    error: str | None = None
    try:
        error = _record(job, job.tape, keyframe_interval_ticks)
        tape = job.tape.with_name(job.tape.name.removesuffix(PART_SUFFIX))
        publish_file(job.tape, tape)
        run = examine(tape)
    except KeyboardInterrupt:
        clear_unfinished(job.tape)
        raise
    except Exception as failed:  # noqa: BLE001 - one bad run must not end the others; the record says what it was.
        return RunRecord(job.index, job.name, {}, job.ticks, error=error or exception_text(failed))
    facts: dict[str, Any] = {"final_tick": run.ticks or 0, "final_hash": run.state_hash}
    return GeneratedRun(job.index, job.name, {}, job.ticks, tape=str(tape), error=error, run=run, **facts)


def _record(job: Job, tape: Path, keyframe_interval_ticks: int) -> str | None:
    """Record a run to its end and seal its tape; what the simulation raised, if it did.

    It is the run that record run would make of the same scenario, seed and players.
    """
    world, input_source = find_world(job.world), input_source_of_job(job)
    simulation = wrap_scenario(world.make(job.config), job.scenario, world.properties)
    notes = {"ticks": job.ticks, SOURCE_NOTE: GENERATED, SCENARIO_NOTE: job.name}
    notes |= {"players": dict(job.players)} if job.players else {}
    recorder = Recorder(
        tape,
        simulation,
        keyframe_interval_ticks=keyframe_interval_ticks,
        durability="block",  # A run that is killed is begun anew, so that a journal would serve nobody.
        on_error="raise",
        deterministic=True,
        notes=notes,
    )
    with recorder, raced_inputs(recorder.simulation, input_source.inputs) as inputs_at:
        while (end := outcome_at(recorder, input_source, job.ticks)) is None:
            given = inputs_at(recorder.tick + 1, recorder.simulation.state)
            try:
                recorder.step(given)
            except Exception as raised:  # noqa: BLE001 - the simulation's own mistake; the tape says it, too.
                recorder.close({"reason": "exception", "exception": exception_text(raised)})
                return f"tick {recorder.tick + 1}: {exception_text(raised)}"
        scores = scores_of(world, job.config, recorder.simulation.state)
        recorder.close(end | ({SCORES: scores} if scores else {}))
    return None
