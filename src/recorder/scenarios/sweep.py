"""Sweeps: run one scenario with every combination of some parameters, continue a sweep, compare two sweeps."""

from __future__ import annotations

import copy
import itertools
import json
import math
import os
import re
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

import attrs

from recorder.format.limits import WHOLE_MAX
from recorder.processes.engines.engine import Engine
from recorder.processes.pool import Pool
from recorder.scenarios.batch import Job, RunRecord, ensure_registered, job_of, run_job, run_many, ticks_of
from recorder.scenarios.batch_manifest import BatchFolder
from sim.kernel.registry import ConfigError
from sim.scenario.scenario_file import Scenario

RUNS_MAX = 100_000
_STEP = re.compile(r"([^.\[\]]+)|\[(\d+)\]")
_PATH = re.compile(r"[^.\[\]]+(\.[^.\[\]]+|\[\d+\])*")


@attrs.frozen
class Axis:
    """One parameter and its values.

    Attributes:
        path: its key path in the scenario's file, such as ``seed`` or ``scenario.adversaries[0].budget.total``.
        values: its values, all different.
    """

    path: str
    values: tuple[Any, ...]

    def __attrs_post_init__(self) -> None:
        if not _PATH.fullmatch(self.path):
            raise ConfigError(self.path, "expected a path such as scenario.network.loss or flora[0].name")
        if not self.values:
            raise ConfigError(self.path, "expected at least one value")
        texts = set[str]()
        for value in self.values:
            text = _canonical_text(value)
            if text in texts:
                raise ConfigError(self.path, f"expected each value once, got {value!r} twice")
            texts.add(text)


def _canonical_text(value: Any) -> str:
    """Return text that is equal for equal numbers, such as 1 and 1.0, but different for 1 and true."""
    return json.dumps(int(value) if isinstance(value, float) and value.is_integer() else value)


def read_axis(text: str) -> Axis:
    """Read an axis from PATH=VALUES: JSON values separated by commas, or a range such as 0..63.

    Raises ConfigError.
    """
    path, equals, values = text.partition("=")
    bounds = re.fullmatch(r"(-?\d+)\.\.(-?\d+)", values)
    if bounds:
        first, last = int(bounds[1]), int(bounds[2])
        if last - first >= RUNS_MAX:
            raise ConfigError(path, f"expected at most {RUNS_MAX:,} values")
        return Axis(path, tuple(range(first, last + 1)))
    if not equals or not values:
        raise ConfigError("", f"expected PATH=VALUES, such as seed=0..9 or scenario.network.loss=0,0.1, got {text}")
    return Axis(path, tuple(_value(value) for value in values.split(",")))


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def set_parameter(plain: dict[str, Any], path: str, value: Any) -> None:
    """Set the value at a key path of plain data; the last key may be new. Raises ConfigError for an unknown path."""
    steps = [name or int(number) for name, number in _STEP.findall(path)]
    container: Any = plain
    for depth, step in enumerate(steps[:-1]):
        try:
            container = container[step]
        except (KeyError, IndexError, TypeError):
            raise ConfigError(path, f"there is no {_shown(steps[: depth + 1])} in the scenario") from None
    last = steps[-1]
    if isinstance(container, dict):
        can_set = isinstance(last, str)
    else:
        can_set = isinstance(container, list) and last in range(len(container))
    if not can_set:
        raise ConfigError(path, f"there is no {_shown(steps)} in the scenario")
    container[last] = value


def _shown(steps: Sequence[str | int]) -> str:
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps).lstrip(".")


def sweep_jobs(
    loaded: Scenario, axes: Sequence[Axis], folder: Path | None, *, ticks: int | None = None, **more: Any
) -> list[Job]:
    """Make the jobs of all combinations; the last axis varies fastest. Each simulation is made once, to find mistakes.

    If only seeds differ, only the first is made, and those whose seeds may be invalid.
    more: as for job_of. folder: for the tapes; None records none. Raises ConfigError, ValueError.
    """
    count = math.prod(len(axis.values) for axis in axes)
    if count > RUNS_MAX:
        raise ConfigError("axes", f"expected at most {RUNS_MAX:,} runs, got {count:,}")
    ensure_registered(loaded)
    _ensure_effective(loaded, axes, ticks)
    only_seeds = all(axis.path == "seed" for axis in axes)
    risky = _risky_seeds(axes) if only_seeds else frozenset()
    jobs = []
    for index, values in enumerate(itertools.product(*(axis.values for axis in axes))):
        bindings = {axis.path: value for axis, value in zip(axes, values, strict=True)}
        bound = _bound(loaded, bindings)
        if not only_seeds or index in risky or index == 0:
            bound.make(ticks)
        job = job_of(bound, index, bindings=bindings, ticks=ticks if ticks is not None else ticks_of(bound), **more)
        jobs.append(with_tape(job, folder))
    _ensure_different(loaded, axes)
    return jobs


def _risky_seeds(axes: Sequence[Axis]) -> frozenset[int]:
    """Return the indices of seeds that a world may refuse: the unusual ones, the smallest and the largest."""
    seeds = axes[0].values if axes else ()
    plain = [index for index, seed in enumerate(seeds) if type(seed) is int and 0 <= seed <= WHOLE_MAX]
    odd = set(range(len(seeds))).difference(plain)
    return frozenset(odd | {choose(plain, key=lambda index: seeds[index]) for choose in (min, max) if plain})


def _ensure_effective(loaded: Scenario, axes: Sequence[Axis], ticks: int | None) -> None:
    """Raise ConfigError for an axis whose parameter is decided elsewhere."""
    has_steps = "steps" in (loaded.provocation or {}) or any(axis.path == "scenario.steps" for axis in axes)
    for path in (axis.path for axis in axes):
        if path == "world":
            raise ConfigError(path, "a sweep is of one world; record batch takes several scenarios")
        if path in {"ticks", "scenario.steps"} and ticks is not None:
            raise ConfigError(path, f"the length of the runs is already set: {ticks:,} ticks")
        if path == "ticks" and has_steps:
            raise ConfigError(path, "scenario.steps sets the length of this scenario: use that path")


def _ensure_different(loaded: Scenario, axes: Sequence[Axis]) -> None:
    """Raise ConfigError for an axis of which two values give the same run."""
    first = {axis.path: axis.values[0] for axis in axes}
    for axis in axes:
        if axis.path == "seed":
            continue  # It is in every world's configuration.
        values: dict[tuple[str, Any], Any] = {}
        for value in axis.values:
            bound = _bound(loaded, {**first, axis.path: value})
            key = (job_of(bound, 0).scenario_hash, bound.ticks)
            if key in values:
                raise ConfigError(axis.path, f"{values[key]!r} and {value!r} give the same run")
            values[key] = value


def with_tape(job: Job, folder: Path | None) -> Job:
    """Return the job with its tape in folder; None records none."""
    return attrs.evolve(job, tape=folder / f"{job.run_name}.tape" if folder is not None else None)


def _bound(loaded: Scenario, bindings: Mapping[str, Any]) -> Scenario:
    plain: dict[str, Any] = copy.deepcopy(dict(loaded.config))
    if loaded.provocation is not None:
        plain["scenario"] = copy.deepcopy(loaded.provocation)
    for path, value in bindings.items():
        set_parameter(plain, path, value)
        if path == "seed" and "scenario" in plain and "scenario.seed" not in bindings:
            plain["scenario"]["seed"] = value
    provocation = plain.pop("scenario", None)
    return attrs.evolve(loaded, config=plain, provocation=provocation)


def run_batch(
    jobs: Sequence[Job],
    folder: Path,
    *,
    workers: int | None = None,
    executor: Executor | None = None,
    pool: Pool | None = None,
    engine: str | Engine | None = None,
    finished: Callable[[RunRecord], None] | None = None,
    more: Mapping[str, Any] | None = None,
    work: Callable[[Job], RunRecord] = run_job,
) -> list[RunRecord]:
    """Run jobs whose tapes are in folder; jobs that have finished there are not run again.

    workers, executor, pool, engine: see run_many. finished: called with each record, first with the existing ones. more: further
    keys of the manifest. Finished runs are kept in any case. Raises OSError with the folder, also if the disk refuses a
    tape, and ValueError like BatchFolder.locked.
    """
    batch_folder, by_index = BatchFolder(folder), {job.index: job for job in jobs}
    on_finished = finished or (lambda _: None)

    def keep(record: RunRecord) -> None:
        if record.disk_error is not None:
            raise OSError(record.disk_error, os.strerror(record.disk_error), str(folder))
        batch_folder.add(record, by_index[record.index])
        on_finished(record)

    with batch_folder.locked(jobs) as done:
        for record in done.values():
            on_finished(record)
        rest = [job for job in jobs if job.index not in done]
        new_records = run_many(
            rest, workers=workers, executor=executor, pool=pool, engine=engine, finished=keep, work=work
        )
        ran = {record.index: record for record in new_records}
        records = [done.get(job.index) or ran[job.index] for job in jobs]
        batch_folder.finish(records, more or {})
    return records


@attrs.frozen
class RunChange:
    """The differences of a run between two sweeps.

    Attributes:
        index: the index of the run.
        what: the facts that differ: missing, bindings, error, hash, regime, violations, productive, progress,
            reconfigurations, scheduler, eligibility. The last four are compared if both manifests have them.
        productive_delta: productive events of the second run minus those of the first.
    """

    index: int
    what: tuple[str, ...]
    productive_delta: int = 0


def compare_sweeps(first: Sequence[RunRecord], second: Sequence[RunRecord]) -> list[RunChange]:
    """Return the runs that differ, by index; a run that is in only one sweep counts as changed."""
    left, right = ({record.index: record for record in records} for records in (first, second))
    changes = []
    for index in sorted({*left, *right}):
        if index not in left or index not in right:
            changes.append(RunChange(index, ("missing",)))
            continue
        a, b = left[index], right[index]
        pairs: dict[str, tuple[Any, Any]] = {
            "bindings": (dict(a.bindings), dict(b.bindings)),
            "error": (a.error, b.error),
            "hash": (a.final_hash, b.final_hash),
            "regime": (a.regime, b.regime),
            "violations": ([list(v) for v in a.violations], [list(v) for v in b.violations]),
            "productive": (a.productive, b.productive),
        }
        for name in (
            "progress",
            "reconfigurations",
            "scheduler",
            "eligibility",
        ):  # Manifests of earlier versions have none.
            both = getattr(a, name), getattr(b, name)
            if None not in both:
                pairs[name] = both
        what = tuple(name for name, (left_fact, right_fact) in pairs.items() if left_fact != right_fact)
        if what:
            changes.append(RunChange(index, what, b.productive - a.productive))
    return changes
