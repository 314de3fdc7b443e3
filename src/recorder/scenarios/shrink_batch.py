"""Smaller scenarios of a batch's violations: one for each scenario and property, from the first run that violates it.

Invariant: what was made once is in the manifest, and not made again when the batch is gone on with.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from recorder.scenarios.batch import Job, RunRecord, input_source_of_job
from recorder.scenarios.batch_manifest import MANIFEST_NAME, manifest_content, read_as
from recorder.scenarios.run_scenario import InputsOf
from recorder.scenarios.shrink import Minimised, Plain, minimise, trial_of, write_minimised
from recorder.storage.file_names import first_free, numbered
from recorder.text import counted
from sim.kernel.registry import World, find_world
from sim.scenario.results.result import Violation

BUDGET_S = 10.0  # Nobody waits much longer for what was not asked for.
BATCH_BUDGET_S = 30.0  # Of all violations of a batch.
_TYPES: Mapping[str, tuple[type, ...]] = {
    "scenario": (str,),
    "violates": (str,),
    "run": (int,),
    "tick": (int,),
    "file": (str, type(None)),
    "trials": (int,),
    "is_minimal": (bool,),
}


@attrs.frozen
class SmallerScenario:
    """What making a run's scenario smaller has come to.

    Attributes:
        scenario, violates: the scenario and the property, by name; the run is the first of the one that violates the other.
        run: its index.
        tick: at which the smaller scenario violates it.
        file: the smaller scenario, as text; None if nothing in the scenario can be left out.
        trials: how many runs it took.
        is_minimal: whether it is known that no part more can be left out.
    """

    scenario: str
    violates: str
    run: int
    tick: int
    file: str | None
    trials: int
    is_minimal: bool

    @property
    def line(self) -> str:
        """For people."""
        what = f"run {self.run}, property {self.violates}"
        if self.file is None:
            return f"  not smaller: {what}: nothing in the scenario can be left out"
        end = "" if self.is_minimal else ", and not to the end"
        return f"  made smaller: {what}, tick {self.tick:,}, in {counted(self.trials, 'run')}{end}: {self.file}"


@attrs.frozen
class FirstViolation:
    """The first run of a scenario that violates a property."""

    job: Job
    violation: Violation


def search(
    world: World,
    config: Mapping[str, Any],
    scenario: Mapping[str, Any],
    inputs: InputsOf,
    violation: Violation,
    *,
    budget_s: float,
    on_progress: Callable[[float], None],
) -> Minimised:
    """The smallest scenario that was found in budget_s seconds. on_progress: called with the seconds that are over."""
    trial, start_s = trial_of(world, config, inputs, violation.name), time.monotonic()

    def shown(smaller: Plain, ticks: int) -> Violation | None:
        on_progress(time.monotonic() - start_s)
        return trial(smaller, ticks)

    return minimise(scenario, violation, shown, budget_s)


def first_violations(jobs: Sequence[Job], records: Iterable[RunRecord]) -> list[FirstViolation]:
    """Of each scenario and property, in the order of the runs. records: in that order, too."""
    by_index = {job.index: job for job in jobs}
    found: dict[tuple[str, str], FirstViolation] = {}
    for record in records:
        for one in record.violations:
            violation = Violation(*one)
            found.setdefault((record.name, violation.name), FirstViolation(by_index[record.index], violation))
    return list(found.values())


def read_smaller(folder: Path) -> list[SmallerScenario]:
    """What the manifest of a batch says of what was made before; those whose file is gone are left out.

    Raises OSError; ValueError if it is no manifest.
    """
    path = folder / MANIFEST_NAME
    if not path.exists():
        return []
    entries = manifest_content(path).get("smaller", [])
    try:
        if not isinstance(entries, list):
            raise ValueError("'smaller' is no list")  # noqa: TRY004 - of what stands in a file, as all others.
        known = [read_as(SmallerScenario, entry, _TYPES) for entry in entries]
    except ValueError as error:
        raise ValueError(f"{path} is no manifest: {error}") from None
    return [one for one in known if one.file is None or Path(one.file).exists()]


def make_smaller(
    firsts: Sequence[FirstViolation],
    folder: Path,
    known: Sequence[SmallerScenario],
    *,
    keep: Callable[[list[SmallerScenario]], None],
    on_progress: Callable[[float], None] = lambda _: None,
    on_error: Callable[[OSError], None],
    budget_s: float = BATCH_BUDGET_S,
) -> list[SmallerScenario]:
    """Make those smaller that are not among the known ones, into folder, until the time is over or a user interrupts.

    keep: called with all that there are whenever there is one more. on_progress: called with the seconds that are over.
    on_error: called with the error of a disk that refuses, which ends it. Returns them, in the order of firsts.
    """
    before = {(one.scenario, one.violates, one.run): one for one in known}
    made = [before.get((first.job.name, first.violation.name, first.job.index)) for first in firsts]
    start_s = time.monotonic()
    for number, first in enumerate(firsts):
        left_s = budget_s - (time.monotonic() - start_s)
        if made[number] is not None or left_s <= 0:
            continue
        try:
            made[number] = _made_smaller(first, folder, min(BUDGET_S, left_s), _shifted(on_progress, budget_s - left_s))
        except KeyboardInterrupt:
            break
        except OSError as error:
            on_error(error)
            break
        keep([one for one in made if one is not None])
    return [one for one in made if one is not None]


def _shifted(on_progress: Callable[[float], None], start_s: float) -> Callable[[float], None]:
    return lambda seconds: on_progress(start_s + seconds)


def _made_smaller(
    first: FirstViolation, folder: Path, budget_s: float, on_progress: Callable[[float], None]
) -> SmallerScenario:
    """Search, and write what was found, if it is smaller. Raises OSError, KeyboardInterrupt."""
    job, violation = first.job, first.violation
    scenario, inputs = job.scenario or {}, input_source_of_job(job).inputs
    found = search(
        find_world(job.world), job.config, scenario, inputs, violation, budget_s=budget_s, on_progress=on_progress
    )
    path = None
    if found.is_smaller_than(scenario):
        path = first_free(numbered(folder / f"{job.run_name}.{violation.name}.smaller.toml", ".toml"))
        write_minimised(path, found, job.config, [f"--player {name}={policy}" for name, policy in job.players.items()])
    tick, file = found.violation.tick, str(path) if path is not None else None
    return SmallerScenario(job.name, violation.name, job.index, tick, file, found.trials, found.is_minimal)
