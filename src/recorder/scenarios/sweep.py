"""Sweeps: one scenario with every combination of some parameters, which can be gone on with, and compared."""

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
        path: where it stands in the scenario's file, such as ``seed`` or ``scenario.adversaries[0].budget.total``.
    """

    path: str
    values: tuple[Any, ...]

    def __attrs_post_init__(self) -> None:
        if not _PATH.fullmatch(self.path):
            raise ConfigError(self.path, "a path such as scenario.network.loss or flora[0].name was expected")
        if not self.values:
            raise ConfigError(self.path, "at least one value was expected")
        known = set[str]()
        for value in self.values:
            text = _same_for_equal(value)
            if text in known:
                raise ConfigError(self.path, f"each value was expected once, found {value!r} twice")
            known.add(text)


def _same_for_equal(value: Any) -> str:
    """Text that is the same for numbers that are equal, 1 and 1.0 for example, and not for 1 and true."""
    return json.dumps(int(value) if isinstance(value, float) and value.is_integer() else value)


def read_axis(text: str) -> Axis:
    """An axis from PATH=VALUES: values of JSON with commas between them, or a range such as 0..63.

    Raises ConfigError.
    """
    path, equals, values = text.partition("=")
    whole = re.fullmatch(r"(-?\d+)\.\.(-?\d+)", values)
    if whole:
        first, last = int(whole[1]), int(whole[2])
        if last - first >= RUNS_MAX:
            raise ConfigError(path, f"at most {RUNS_MAX:,} values were expected")
        return Axis(path, tuple(range(first, last + 1)))
    if not equals or not values:
        raise ConfigError(
            "", f"PATH=VALUES was expected, such as seed=0..9 or scenario.network.loss=0,0.1; found {text}"
        )
    return Axis(path, tuple(_value(one) for one in values.split(",")))


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def set_parameter(plain: dict[str, Any], path: str, value: Any) -> None:
    """Set what stands at path in plain data; the last key may be new. Raises ConfigError where there is no such place."""
    steps = [name or int(number) for name, number in _STEP.findall(path)]
    place: Any = plain
    for depth, step in enumerate(steps[:-1]):
        try:
            place = place[step]
        except (KeyError, IndexError, TypeError):
            raise ConfigError(path, f"there is no {_shown(steps[: depth + 1])} in the scenario") from None
    last = steps[-1]
    is_place = (
        isinstance(last, str) if isinstance(place, dict) else isinstance(place, list) and last in range(len(place))
    )
    if not is_place:
        raise ConfigError(path, f"there is no {_shown(steps)} in the scenario")
    place[last] = value


def _shown(steps: Sequence[str | int]) -> str:
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps).lstrip(".")


def sweep_jobs(
    loaded: Scenario, axes: Sequence[Axis], folder: Path | None, *, ticks: int | None = None, **more: Any
) -> list[Job]:
    """The jobs of all combinations, the last axis turning fastest; each is made once here, so that no run has mistakes.

    Of those that differ in their seeds alone only the first is made, and those whose seeds could be mistakes.
    more: as for job_of. folder: for the tapes; None keeps none. Raises ConfigError, ValueError.
    """
    count = math.prod(len(axis.values) for axis in axes)
    if count > RUNS_MAX:
        raise ConfigError("axes", f"at most {RUNS_MAX:,} runs were expected, these are {count:,}")
    ensure_registered(loaded)
    _ensure_can_act(loaded, axes, ticks)
    only_seeds = all(axis.path == "seed" for axis in axes)
    risky = _risky_seeds(axes) if only_seeds else frozenset()
    jobs = []
    for index, values in enumerate(itertools.product(*(axis.values for axis in axes))):
        bindings = {axis.path: value for axis, value in zip(axes, values, strict=True)}
        bound = _bound(loaded, bindings)
        if not only_seeds or index in risky or index == 0:
            bound.make()
        job = job_of(bound, index, bindings=bindings, ticks=ticks if ticks is not None else ticks_of(bound), **more)
        jobs.append(with_tape(job, folder))
    _ensure_different(loaded, axes)
    return jobs


def _risky_seeds(axes: Sequence[Axis]) -> frozenset[int]:
    """Which seeds a world may refuse though it takes the first: what is no ordinary one, the smallest, the largest."""
    seeds = axes[0].values if axes else ()
    plain = [index for index, seed in enumerate(seeds) if type(seed) is int and 0 <= seed <= WHOLE_MAX]
    odd = set(range(len(seeds))).difference(plain)
    return frozenset(odd | {choose(plain, key=lambda index: seeds[index]) for choose in (min, max) if plain})


def _ensure_can_act(loaded: Scenario, axes: Sequence[Axis], ticks: int | None) -> None:
    """Raise ConfigError for an axis of what something else decides."""
    has_steps = "steps" in (loaded.provocation or {}) or any(axis.path == "scenario.steps" for axis in axes)
    for path in (axis.path for axis in axes):
        if path == "world":
            raise ConfigError(path, "a sweep is of one world; record batch takes several scenarios")
        if path in {"ticks", "scenario.steps"} and ticks is not None:
            raise ConfigError(path, f"how long the runs are is given already: {ticks:,} ticks")
        if path == "ticks" and has_steps:
            raise ConfigError(path, "how long this scenario runs is said by scenario.steps: name that")


def _ensure_different(loaded: Scenario, axes: Sequence[Axis]) -> None:
    """Raise ConfigError for an axis that gives the same run with two of its values."""
    first = {axis.path: axis.values[0] for axis in axes}
    for axis in axes:
        if axis.path == "seed":
            continue  # It is in every world's configuration.
        known: dict[tuple[str, Any], Any] = {}
        for value in axis.values:
            bound = _bound(loaded, {**first, axis.path: value})
            key = (job_of(bound, 0).scenario_hash, bound.ticks)
            if key in known:
                raise ConfigError(axis.path, f"{known[key]!r} and {value!r} give the same run")
            known[key] = value


def with_tape(job: Job, folder: Path | None) -> Job:
    """The job with its tape in folder; None keeps none."""
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
    finished: Callable[[RunRecord], None] | None = None,
    more: Mapping[str, Any] | None = None,
    work: Callable[[Job], RunRecord] = run_job,
) -> list[RunRecord]:
    """Run jobs whose tapes lie in folder; those that have finished there already are not run again.

    workers, executor, pool: see run_many.
    finished: called with each record as it comes, first with those that were there. more: for the manifest. What has
    finished is kept whatever is raised: OSError, naming the folder, also when the disk takes no more of a tape, and
    ValueError as BatchFolder.held does.
    """
    kept, by_index = BatchFolder(folder), {job.index: job for job in jobs}
    tell = finished or (lambda _: None)

    def keep(record: RunRecord) -> None:
        if record.disk_error is not None:
            raise OSError(record.disk_error, os.strerror(record.disk_error), str(folder))
        kept.add(record, by_index[record.index])
        tell(record)

    with kept.held(jobs) as done:
        for record in done.values():
            tell(record)
        rest = [job for job in jobs if job.index not in done]
        found = run_many(rest, workers=workers, executor=executor, pool=pool, finished=keep, work=work)
        ran = {record.index: record for record in found}
        records = [done.get(job.index) or ran[job.index] for job in jobs]
        kept.finish(records, more or {})
    return records


@attrs.frozen
class RunChange:
    """How a run differs between two sweeps.

    Attributes:
        index: of the run.
        what: of missing, bindings, error, hash, regime, violations, productive: those that differ.
        productive_delta: productive events of the second less those of the first.
    """

    index: int
    what: tuple[str, ...]
    productive_delta: int = 0


def compare_sweeps(one: Sequence[RunRecord], other: Sequence[RunRecord]) -> list[RunChange]:
    """The runs that differ, by index; one that only one sweep has counts as changed."""
    left, right = ({record.index: record for record in records} for records in (one, other))
    changes = []
    for index in sorted({*left, *right}):
        if index not in left or index not in right:
            changes.append(RunChange(index, ("missing",)))
            continue
        a, b = left[index], right[index]
        pairs = {
            "bindings": (dict(a.bindings), dict(b.bindings)),
            "error": (a.error, b.error),
            "hash": (a.final_hash, b.final_hash),
            "regime": (a.regime, b.regime),
            "violations": ([list(v) for v in a.violations], [list(v) for v in b.violations]),
            "productive": (a.productive, b.productive),
        }
        what = tuple(name for name, (mine, theirs) in pairs.items() if mine != theirs)
        if what:
            changes.append(RunChange(index, what, b.productive - a.productive))
    return changes
