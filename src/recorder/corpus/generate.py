"""Generate a corpus: plan the runs, find the missing ones, and run them in processes.

Invariants:
    1. A finished run is a sealed tape under its final name. While it is recorded the tape has a different name, and is
       renamed when it is sealed. So a kill of the program loses only the runs in progress.
    2. The order in which runs finish has no effect on the corpus.
    3. The tape of a run depends on the run alone: its bytes are the same for any number of processes, at any time.
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

from recorder.corpus.corpus import Corpus, note_run
from recorder.corpus.inspect_tape import SCENARIO_NOTE, SOURCE_NOTE, examine, family_of
from recorder.corpus.run import GENERATED, Run, Settings
from recorder.exit_codes import UsageError
from recorder.format.recording.assembly import NOT_CHECKED
from recorder.processes.engines.engine import Engine
from recorder.processes.pool import Pool
from recorder.recording_options import KEYFRAME_INTERVAL_TICKS
from recorder.runs.input_source import input_source_of
from recorder.runs.outcome import outcome_at
from recorder.runs.scores import SCORES, scores_of
from recorder.scenarios.batch import Job, RunRecord, clear_unfinished, input_source_of_job, job_of, run_many
from recorder.scenarios.run_scenario import raced_inputs
from recorder.session.recorder import Recorder
from recorder.session.run_end import exception_text
from recorder.settings import TICKS_MAX
from recorder.storage.atomic_file import PART_SUFFIX, make_folder, publish_file
from recorder.storage.file_names import TAPE_SUFFIX
from sim.kernel.registry import ConfigError, find_world
from sim.scenario.scenario_file import FOREIGN, Scenario, load_scenario
from sim.scenario.wrap import wrap_scenario

NAME_CHARS_MAX = 150  # Of a tape's name; file systems allow 255 bytes, and a suffix is appended.


@attrs.frozen
class PlannedRun:
    """A run to generate.

    Attributes:
        job: the job of a worker; its tape is the path of the finished tape.
        scenario: the name of the scenario.
        seed: the seed of the scenario.
        settings: see Settings.
    """

    job: Job
    scenario: str
    seed: int
    settings: Settings


@attrs.frozen
class GeneratedRun(RunRecord):
    """The result of a job, and the run on its tape if there is one."""

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
    """Plan each scenario with each seed and each combination of policies; the last player's policy varies fastest.

    seeds: for every scenario; None uses its own seed. players: policies by player. ticks: last tick; None uses the
    scenario's.

    Raises FileNotFoundError, ConfigError, UnknownWorldError, UsageError if a run is impossible.
    """
    choices = players or {}
    combinations = [dict(zip(choices, policies, strict=True)) for policies in itertools.product(*choices.values())]
    plan: list[PlannedRun] = []
    for scenario in scenarios:
        for position, seed in enumerate(seeds if seeds is not None else [None]):
            loaded = load_scenario(scenario, seed=seed)
            if position == 0:
                _ensure_possible(loaded, scenario, combinations, ticks)
            for policies in combinations:
                plan.append(_planned(loaded, policies, len(plan), folder, ticks, keyframe_interval_ticks))
    duplicate = _first_duplicate([planned.job.tape for planned in plan])
    if duplicate is not None:
        raise UsageError(f"two of the runs would have the same tape, {duplicate}: give scenarios different names")
    return plan


def _ensure_possible(
    loaded: Scenario, argument: str, combinations: Sequence[Mapping[str, str]], ticks: int | None
) -> None:
    """Find mistakes before anything is written. Raises ConfigError, UsageError."""
    if loaded.world is FOREIGN:
        raise UsageError(f"{argument}: runs in processes need a registered world")
    loaded.make(ticks)
    goal = ticks if ticks is not None else loaded.ticks
    if not isinstance(goal, int) or isinstance(goal, bool) or not 0 < goal <= TICKS_MAX:
        raise ConfigError("ticks", f"expected a whole number from 1 to {TICKS_MAX:,}, got {goal!r}")
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
    """Return the name of a run's tape; if the full name is not a valid file name, a part of it plus its hash."""
    full = "-".join([scenario, f"seed-{seed}", *(f"{player}={policy}" for player, policy in policies.items())])
    plain = re.sub(r"[^A-Za-z0-9._=-]+", "-", full).strip(".-")[:NAME_CHARS_MAX]
    if plain != full:
        plain += f"-{hashlib.blake2b(full.encode(), digest_size=4).hexdigest()}"
    return plain + TAPE_SUFFIX


def _first_duplicate(values: Sequence[Any]) -> Any:
    seen: set[Any] = set()
    return next((value for value in values if value in seen or seen.add(value)), None)  # type: ignore[func-returns-value]


# --- existing runs


@contextmanager
def locked_folder(folder: Path) -> Iterator[None]:
    """Create the folder if needed, and lock it for one generating process. Raises UsageError, OSError."""
    make_folder(folder)
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
    """Return the runs that the corpus lacks. Raises UsageError if the folder holds runs with different settings."""
    by_tape = {run.tape: run for run in corpus}
    by_scenario: dict[str, Run] = {}
    for run in corpus:
        if run.source == GENERATED and run.scenario is not None and run.settings is not None:
            by_scenario.setdefault(run.scenario, run)
    missing = []
    for planned in plan:
        sibling = by_scenario.get(planned.scenario)
        if sibling is not None:
            _ensure_same_settings(planned, sibling)
        existing = by_tape.get(_tape_of(planned).name)
        if existing is not None and _is_different(planned, existing):
            raise UsageError(f"{existing.path} exists, but was not generated with these arguments: move it away")
        if existing is None or not existing.ended or existing.status != NOT_CHECKED:
            missing.append(planned)
    return missing


def _ensure_same_settings(planned: PlannedRun, run: Run) -> None:
    expected, actual = planned.settings, run.settings
    assert actual is not None
    if expected == actual:
        return
    pairs = [
        ("ticks", actual.goal_ticks, expected.goal_ticks),
        ("keyframes every", actual.keyframe_interval_ticks, expected.keyframe_interval_ticks),
    ]
    differences = [f"{name} {theirs}, not {ours}" for name, theirs, ours in pairs if theirs != ours]
    if expected.family != actual.family:
        version = find_world(planned.job.world).version
        versions = f"version {run.version} of {run.world}, not {version}"
        differences.append(versions if run.version != version else "a different scenario of that name")
    raise UsageError(
        f"{run.folder} holds runs of {planned.scenario} with different settings ({'; '.join(differences)}): "
        "use a different folder"
    )


def _is_different(planned: PlannedRun, run: Run) -> bool:
    """Return True if the tape of this name holds a different run. A damaged or empty tape may be the planned run's."""
    if run.settings is None:
        return run.status == "unreadable" and run.size_bytes > 0
    identity = (GENERATED, planned.scenario, planned.seed, planned.job.players)
    return (run.source, run.scenario, run.seed, run.policies) != identity


def _tape_of(planned: PlannedRun) -> Path:
    assert planned.job.tape is not None
    return planned.job.tape


# --- running


def run_missing(
    missing: Sequence[PlannedRun],
    folder: Path,
    *,
    workers: int | None = None,
    pool: Pool | None = None,
    engine: str | Engine | None = None,
    progress: Callable[[int], None] | None = None,
) -> list[RunRecord]:
    """Run the missing runs, writing tapes and index to the locked folder; return their records, in the same order.

    workers, pool, engine: see run_many. progress: called with the number of finished runs. Raises OSError, ForeignIndexError.
    """
    for planned in missing:
        clear_unfinished(_tape_of(planned))
    _clear_parts(missing)
    count = 0

    def finished(record: RunRecord) -> None:
        nonlocal count
        if isinstance(record, GeneratedRun) and record.run is not None:
            note_run(folder, record.run)
        count += 1
        if progress is not None:
            progress(count)

    jobs = [attrs.evolve(planned.job, tape=part_of(_tape_of(planned))) for planned in missing]
    intervals = {planned.settings.keyframe_interval_ticks or KEYFRAME_INTERVAL_TICKS for planned in missing}
    assert len(intervals) <= 1  # plan_runs gives all runs the same interval.
    work = functools.partial(run_generated, keyframe_interval_ticks=max(intervals, default=KEYFRAME_INTERVAL_TICKS))
    try:
        return run_many(jobs, workers=workers, pool=pool, engine=engine, finished=finished, work=work)
    finally:
        _clear_parts(missing)  # Of failed and interrupted runs: these start again from tick 0.


def _clear_parts(plan: Sequence[PlannedRun]) -> None:
    """Delete unsealed tapes, which have temporary names."""
    for planned in plan:
        clear_unfinished(part_of(_tape_of(planned)))


def part_of(tape: Path) -> Path:
    """Return the temporary name of a tape until it is sealed."""
    return tape.with_name(f"{tape.name}{PART_SUFFIX}")


def run_generated(job: Job, *, keyframe_interval_ticks: int) -> RunRecord:
    """Run one job in this process; the record holds any failure. The tape of a run that ended gets its final name.

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
    except Exception as failed:  # noqa: BLE001 - one failed run must not end the others; the record holds the error.
        return RunRecord(job.index, job.name, {}, job.ticks, error=error or exception_text(failed))
    facts: dict[str, Any] = {"final_tick": run.ticks or 0, "final_hash": run.state_hash}
    return GeneratedRun(job.index, job.name, {}, job.ticks, tape=str(tape), error=error, run=run, **facts)


def _record(job: Job, tape: Path, keyframe_interval_ticks: int) -> str | None:
    """Record a run to its end and seal its tape; return the exception of the simulation as text, if it raised.

    The command record run makes the same run from the same scenario, seed and players.
    """
    world, input_source = find_world(job.world), input_source_of_job(job)
    simulation = wrap_scenario(world.make(job.config), job.scenario, world.properties)
    notes = {"ticks": job.ticks, SOURCE_NOTE: GENERATED, SCENARIO_NOTE: job.name}
    notes |= {"players": dict(job.players)} if job.players else {}
    recorder = Recorder(
        tape,
        simulation,
        keyframe_interval_ticks=keyframe_interval_ticks,
        durability="block",  # A killed run starts again from tick 0: a journal would be useless.
        on_error="raise",
        deterministic=True,
        notes=notes,
    )
    with recorder, raced_inputs(recorder.simulation, input_source.inputs) as inputs_at:
        while (end := outcome_at(recorder, input_source, job.ticks)) is None:
            inputs = inputs_at(recorder.tick + 1, recorder.simulation.state)
            try:
                recorder.step(inputs)
            except Exception as raised:  # noqa: BLE001 - an error of the simulation; the tape records it, too.
                recorder.close({"reason": "exception", "exception": exception_text(raised)})
                return f"tick {recorder.tick + 1}: {exception_text(raised)}"
        scores = scores_of(world, job.config, recorder.simulation.state)
        recorder.close(end | ({SCORES: scores} if scores else {}))
    return None
