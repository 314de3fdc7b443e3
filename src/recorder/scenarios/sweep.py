"""Sweeps: one scenario with every combination of some parameters; a manifest that can be gone on with, and compared.

The folder of a sweep or batch holds ``manifest.ndjson``, a line for each run that has finished, in the order in which
they did; ``manifest.json``, all of them in the order of the jobs, once all have; and the tapes.
"""

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

from recorder.scenarios.batch import Job, RunRecord, clear_unfinished, job_of, run_job, run_many
from sim.kernel.registry import ConfigError
from sim.scenario.load import Scenario

LINES_NAME, MANIFEST_NAME = "manifest.ndjson", "manifest.json"
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


def sweep_jobs(loaded: Scenario, axes: Sequence[Axis], folder: Path | None, **more: Any) -> list[Job]:
    """The jobs of all combinations, the last axis turning fastest; each is made once here, so that no run has mistakes.

    more: as for job_of. folder: for the tapes; None keeps none. Raises ConfigError, ValueError.
    """
    count = math.prod(len(axis.values) for axis in axes)
    if count > RUNS_MAX:
        raise ConfigError("axes", f"at most {RUNS_MAX:,} runs were expected, these are {count:,}")
    jobs = []
    for index, values in enumerate(itertools.product(*(axis.values for axis in axes))):
        bindings = {axis.path: value for axis, value in zip(axes, values, strict=True)}
        bound = _bound(loaded, bindings)
        if index == 0 or any(axis.path != "seed" for axis in axes):
            bound.make()
        job = job_of(bound, index, bindings=bindings, **more)
        jobs.append(with_tape(job, folder))
    return jobs


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


@attrs.frozen
class BatchFolder:
    """Where a batch or sweep keeps what has finished."""

    path: Path

    def begin(self, jobs: Sequence[Job]) -> dict[int, RunRecord]:
        """Make the folder, or read what has finished in it; those that were the same jobs.

        Raises OSError; ValueError if the folder holds another batch.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        lines = self.path / LINES_NAME
        known = [json.loads(line) for line in _whole_lines(lines)]
        finished: dict[int, RunRecord] = {}
        for entry in known:
            record = RunRecord(**entry)
            if record.index >= len(jobs) or not _is_of(record, jobs[record.index]):
                raise ValueError(f"{self.path} holds another batch: run {record.index} is another one")
            if record.error is None:
                finished[record.index] = record
        for job in jobs:
            if job.index not in finished and job.tape is not None:
                clear_unfinished(job.tape)
        return finished

    def add(self, record: RunRecord) -> None:
        """Write down that a run has finished, durably. Raises OSError."""
        with (self.path / LINES_NAME).open("a", encoding="utf-8") as file:
            file.write(json.dumps(attrs.asdict(record)) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def finish(self, records: Sequence[RunRecord], more: Mapping[str, Any]) -> Path:
        """Write the manifest, whole or not at all. Raises OSError."""
        target, part = self.path / MANIFEST_NAME, self.path / f"{MANIFEST_NAME}.part"
        manifest = {**more, "runs": [attrs.asdict(record) for record in records]}
        part.write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")
        part.replace(target)
        return target


def _whole_lines(path: Path) -> list[str]:
    """The lines of a file that end; a kill may have left half a line at its end, which is cut off."""
    if not path.exists():
        return []
    text = path.read_text(encoding="utf-8")
    whole, _, rest = text.rpartition("\n")
    if rest:
        path.write_text(whole + "\n" if whole else "", encoding="utf-8")
    return whole.splitlines()


def _is_of(record: RunRecord, job: Job) -> bool:
    """Whether a record is of this very job: its parameters, its ticks, its scenario."""
    same = (dict(record.bindings), record.ticks) == (_plain(job.bindings), job.ticks)
    return same and record.scenario_hash in {"", job.scenario_hash}


def _plain(bindings: Mapping[str, Any]) -> Any:
    return json.loads(json.dumps(dict(bindings)))


def run_batch(
    jobs: Sequence[Job],
    folder: Path,
    *,
    workers: int | None = None,
    executor: Executor | None = None,
    progress: Callable[[int, int], None] | None = None,
    more: Mapping[str, Any] | None = None,
    work: Callable[[Job], RunRecord] = run_job,
) -> list[RunRecord]:
    """Run jobs whose tapes lie in folder; those that have finished there already are not run again.

    more: for the manifest. Raises as BatchFolder does.
    """
    kept = BatchFolder(folder)
    done = kept.begin(jobs)
    count = len(done)

    def finished(record: RunRecord) -> None:
        nonlocal count
        kept.add(record)
        count += 1
        if progress is not None:
            progress(count, len(jobs))

    rest = [job for job in jobs if job.index not in done]
    ran = {r.index: r for r in run_many(rest, workers=workers, executor=executor, finished=finished, work=work)}
    records = [done.get(job.index) or ran[job.index] for job in jobs]
    kept.finish(records, more or {})
    return records


def read_manifest(folder: Path) -> list[RunRecord]:
    """The runs of a finished batch or sweep. Raises OSError; ValueError if it is no manifest."""
    found = json.loads((folder / MANIFEST_NAME).read_text(encoding="utf-8"))
    try:
        return [RunRecord(**entry) for entry in found["runs"]]
    except (TypeError, KeyError) as error:
        raise ValueError(f"{folder / MANIFEST_NAME} is no manifest: {error}") from None


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
