"""Minimise the violations of a batch: one for each scenario and property, from the first run that violates it.

Invariant: a smaller scenario is listed in the manifest, and is not made again when the batch is continued.
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

BUDGET_S = 10.0  # The search was not requested: it must not delay the command much.
BATCH_BUDGET_S = 30.0  # For all violations of a batch.
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
    """The result of minimising the scenario of a run.

    Attributes:
        scenario, violates: names of the scenario and of the property.
        run: index of the first run of the scenario that violates the property.
        tick: the tick at which the smaller scenario violates it.
        file: path of the smaller scenario, as text; None if nothing in the scenario can be omitted.
        trials: number of runs of the search.
        is_minimal: True if it is known that no more part can be omitted.
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
        """The result as a line of output."""
        violation = f"run {self.run}, property {self.violates}"
        if self.file is None:
            return f"  not smaller: {violation}: nothing in the scenario can be left out"
        end = "" if self.is_minimal else ", stopped by the time limit"
        return f"  made smaller: {violation}, tick {self.tick:,}, in {counted(self.trials, 'run')}{end}: {self.file}"


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
    """Search for the smallest scenario for budget_s seconds. on_progress: called with the elapsed seconds."""
    trial, start_s = trial_of(world, config, inputs, violation.name), time.monotonic()

    def reporting_trial(smaller: Plain, ticks: int) -> Violation | None:
        on_progress(time.monotonic() - start_s)
        return trial(smaller, ticks)

    return minimise(scenario, violation, reporting_trial, budget_s)


def first_violations(jobs: Sequence[Job], records: Iterable[RunRecord]) -> list[FirstViolation]:
    """Return the first violation of each scenario and property, in the order of the runs. records: in that order."""
    by_index = {job.index: job for job in jobs}
    firsts: dict[tuple[str, str], FirstViolation] = {}
    for record in records:
        for entry in record.violations:
            violation = Violation(*entry)
            firsts.setdefault((record.name, violation.name), FirstViolation(by_index[record.index], violation))
    return list(firsts.values())


def read_smaller(folder: Path) -> list[SmallerScenario]:
    """Read the smaller scenarios of a batch from its manifest, without those whose file is gone.

    Raises OSError; ValueError if the manifest is not valid.
    """
    path = folder / MANIFEST_NAME
    if not path.exists():
        return []
    entries = manifest_content(path).get("smaller", [])
    try:
        if not isinstance(entries, list):
            raise ValueError("'smaller': expected a list")  # noqa: TRY004 - about the content of a file.
        scenarios = [read_as(SmallerScenario, entry, _TYPES) for entry in entries]
    except ValueError as error:
        raise ValueError(f"{path} is not a manifest: {error}") from None
    return [smaller for smaller in scenarios if smaller.file is None or Path(smaller.file).exists()]


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
    """Minimise the violations that are not known yet, writing to folder, until the time is over or the user interrupts.

    keep: called with all results after each new one. on_progress: called with the elapsed seconds. on_error: called
    with the error of the disk, which ends the search. Returns all results, in the order of firsts.
    """
    before = {(smaller.scenario, smaller.violates, smaller.run): smaller for smaller in known}
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
        keep([smaller for smaller in made if smaller is not None])
    return [smaller for smaller in made if smaller is not None]


def _shifted(on_progress: Callable[[float], None], start_s: float) -> Callable[[float], None]:
    return lambda seconds: on_progress(start_s + seconds)


def _made_smaller(
    first: FirstViolation, folder: Path, budget_s: float, on_progress: Callable[[float], None]
) -> SmallerScenario:
    """Search, and write the result if it is smaller. Raises OSError, KeyboardInterrupt."""
    job, violation = first.job, first.violation
    scenario, inputs = job.scenario or {}, input_source_of_job(job).inputs
    smaller = search(
        find_world(job.world), job.config, scenario, inputs, violation, budget_s=budget_s, on_progress=on_progress
    )
    path = None
    if smaller.is_smaller_than(scenario):
        path = first_free(numbered(folder / f"{job.run_name}.{violation.name}.smaller.toml", ".toml"))
        write_minimised(
            path, smaller, job.config, [f"--player {name}={policy}" for name, policy in job.players.items()]
        )
    tick, file = smaller.violation.tick, str(path) if path is not None else None
    return SmallerScenario(job.name, violation.name, job.index, tick, file, smaller.trials, smaller.is_minimal)
