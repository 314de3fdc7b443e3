"""The commands ``record batch`` and ``record sweep``: many runs in processes, their tapes and what they came to."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import attrs
from cyclopts import Parameter

from recorder.console import DIFFERS, SAME, Positive, UsageError, counted, progress_bar, say
from recorder.courses import read_players
from recorder.scenarios.batch import Job, RunRecord, course_of_job, worker_count
from recorder.scenarios.smaller import Smaller, first_violations, make_smaller, read_smaller
from recorder.scenarios.summary import ROWS_SHOWN, draw_survival, summary_lines, survival_of
from recorder.scenarios.sweep import Axis, BatchFolder, read_axis, run_batch, sweep_jobs, with_tape
from sim.scenario.load import load_scenario

Output = Annotated[
    Path | None, Parameter(name=["--output", "-o"], help="The folder; by default a new one in batches/.")
]
Ticks = Annotated[Positive | None, Parameter(help="How many ticks to run; by default what the scenario says.")]
Players = Annotated[
    list[str] | None,
    Parameter(name="--player", negative="", help="PLAYER=POLICY, as for record run; may be repeated."),
]
Jobs = Annotated[
    Positive | None, Parameter(name=["--jobs", "-j"], help="Processes; by default one for each processor.")
]
NoTapes = Annotated[bool, Parameter(name="--no-tapes", negative="", help="Keep no tapes.")]
NoSmaller = Annotated[
    bool,
    Parameter(
        name="--no-smaller",
        negative="",
        help="Make no smaller scenarios. Else, when all have run, one is made of the first run that violates a "
        "property, for each scenario and property, which takes up to half a minute in all.",
    ),
]
Json = Annotated[bool, Parameter(name="--json", negative="", help="Print one JSON object.")]
BATCHES_FOLDER = "batches"
PICTURE_NAME = "survival.png"


def batch(
    *scenarios: str,
    seeds: str | None = None,
    output: Output = None,
    ticks: Ticks = None,
    player: Players = None,
    jobs: Jobs = None,
    no_tapes: NoTapes = False,
    no_smaller: NoSmaller = False,
    as_json: Json = False,
) -> int:
    """Run scenarios, each with every seed, in processes; a tape and a line in the manifest for each.

    Examples:
    record batch quiet-meadow arms-race -o runs
    record batch arms-race --seeds 0..63 --jobs 4 -o runs

    A batch that was stopped goes on where it was when the same command is given again. Of the first run that violates
    a property a smaller scenario is left beside its tape. Exit code 1 if a property was violated or a run ended with an
    error.

    Parameters
    ----------
    scenarios
        Files, or names of scenarios that ship.
    seeds
        A range such as 0..63, or numbers with commas; by default each scenario's own.
    """
    if not scenarios:
        raise UsageError("name at least one scenario; record scenarios lists those that ship")
    axes = [read_axis(f"seed={seeds}")] if seeds is not None else []
    folder = _folder(output, "batch")
    more: dict[str, Any] = {"players": read_players(player or []), "ticks": ticks}
    made: list[Job] = []
    for name in scenarios:
        loaded = load_scenario(name)
        for job in sweep_jobs(loaded, axes, None, **more):
            bindings = {"scenario": loaded.name, **job.bindings} if len(scenarios) > 1 else job.bindings
            numbered = attrs.evolve(job, index=len(made), bindings=bindings)
            made.append(with_tape(numbered, None if no_tapes else folder))
    wanted = Wanted(made, folder, jobs, {"scenarios": list(scenarios)}, makes_smaller=not no_smaller)
    return _run(wanted, as_json=as_json)


def sweep(
    scenario: str,
    /,
    *,
    axis: Annotated[list[str], Parameter(name="--axis", negative="")],
    output: Output = None,
    ticks: Ticks = None,
    player: Players = None,
    jobs: Jobs = None,
    no_tapes: NoTapes = False,
    no_smaller: NoSmaller = False,
    as_json: Json = False,
) -> int:
    """Run a scenario with every combination of some parameters.

    Examples:
    record sweep ambush.toml --axis seed=0..9 --axis scenario.network.loss=0,0.1,0.2 -o lossy
    record sweep arms-race --axis "links.between_species=true,false" --axis seed=0..31

    A sweep that was stopped goes on where it was when the same command is given again; replay compare sets two sweeps
    side by side. Of the first run that violates a property a smaller scenario is left beside its tape. Exit code 1 if a
    property was violated or a run ended with an error.

    Parameters
    ----------
    scenario
        A file, or the name of one that ships.
    axis
        PATH=VALUES: where the parameter stands in the file, and its values with commas, or a range such as 0..9. The
        last axis turns fastest.
    """
    loaded = load_scenario(scenario)
    axes = [read_axis(one) for one in axis]
    _ensure_different(axes)
    folder = _folder(output, loaded.name)
    tapes = None if no_tapes else folder
    made = sweep_jobs(loaded, axes, tapes, players=read_players(player or []), ticks=ticks)
    more = {"scenarios": [scenario], "axes": [{"path": one.path, "values": list(one.values)} for one in axes]}
    return _run(Wanted(made, folder, jobs, more, makes_smaller=not no_smaller), as_json=as_json)


def _ensure_different(axes: Sequence[Axis]) -> None:
    paths = [one.path for one in axes]
    twice = next((path for path in paths if paths.count(path) > 1), None)
    if twice is not None:
        raise UsageError(f"--axis {twice}: there is an axis of this path already")


def _folder(output: Path | None, name: str) -> Path:
    if output is not None:
        return output
    number = 1
    while (found := Path(BATCHES_FOLDER) / f"{name}-{number}").exists():
        number += 1
    return found


@attrs.frozen
class Wanted:
    """A batch as it was asked for.

    Attributes:
        made: its jobs.
        folder: where it is kept.
        workers: how many processes; see worker_count.
        more: for the manifest.
        makes_smaller: whether smaller scenarios are made of what violates a property.
    """

    made: list[Job]
    folder: Path
    workers: int | None
    more: dict[str, Any]
    makes_smaller: bool


def _run(wanted: Wanted, *, as_json: bool) -> int:
    for job in {job.name: job for job in wanted.made if job.players}.values():
        course_of_job(job)  # Before anything is written.
    try:
        known = read_smaller(wanted.folder)
    except ValueError as error:
        raise UsageError(str(error)) from None
    if not as_json:
        many = f"{counted(len(wanted.made), 'run')} on {counted(worker_count(wanted.workers), 'worker')}"
        say(f"{many} → {wanted.folder}")
    try:
        more = {**wanted.more, "smaller": [attrs.asdict(one) for one in known]}
        with progress_bar("running", len(wanted.made), quiet=as_json) as show:
            records = run_batch(
                wanted.made, wanted.folder, workers=wanted.workers, progress=lambda done, _: show(done), more=more
            )
    except ValueError as error:
        raise UsageError(str(error)) from None
    if as_json:
        _print_json(records, wanted.folder, _made_smaller(wanted, records, known, quiet=True))
    else:
        for line in summary_lines(records):
            say(line)
        _say_smaller(wanted, records, known)
        _say_more(records, wanted.folder)
    return SAME if all(record.error is None and not record.violations for record in records) else DIFFERS


def _made_smaller(
    wanted: Wanted, records: list[RunRecord], known: list[Smaller], *, quiet: bool
) -> tuple[list[Smaller], int]:
    """The smaller scenarios, which are in the manifest then; and how many there was no time for."""
    if not wanted.makes_smaller:
        return known, 0
    firsts = first_violations(wanted.made, records)

    def keep(found: list[Smaller]) -> None:
        BatchFolder(wanted.folder).finish(records, {**wanted.more, "smaller": [attrs.asdict(one) for one in found]})

    found = make_smaller(firsts, wanted.folder, known, quiet=quiet, keep=keep)
    return found, len(firsts) - len(found)


def _say_smaller(wanted: Wanted, records: list[RunRecord], known: list[Smaller]) -> None:
    found, left = _made_smaller(wanted, records, known, quiet=False)
    for one in found[:ROWS_SHOWN]:
        say(one.line)
    if len(found) > ROWS_SHOWN:
        say(f"  and {len(found) - ROWS_SHOWN} more: see the manifest")
    if left:
        say(f"  not yet made smaller: {left} more; the same command again goes on with them")


def _print_json(records: list[RunRecord], folder: Path, smaller: tuple[list[Smaller], int]) -> None:
    fates = [
        {**attrs.asdict(one), "extinction_probability": one.extinction_probability} for one in survival_of(records)
    ]
    facts = {
        "folder": str(folder),
        "survival": fates,
        "smaller": [attrs.asdict(one) for one in smaller[0]],
        "not_yet_smaller": smaller[1],
        "runs": [attrs.asdict(record) for record in records],
    }
    print(json.dumps(facts, indent=1))


def _say_more(records: list[RunRecord], folder: Path) -> None:
    try:
        if draw_survival(records, folder / PICTURE_NAME):
            say(f"  survival curves: {folder / PICTURE_NAME}")
    except ImportError:
        say("  survival curves need matplotlib: pip install 'simulation-flight-recorder[plot]'")
    bad = next((record for record in records if record.violations and record.tape is not None), None)
    if bad is not None:
        say(f"next: replay seek {bad.tape} --tick {bad.violations[0][1]}")
