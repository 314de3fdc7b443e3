"""The commands ``record batch`` and ``record sweep``: many runs in processes, their tapes and what they came to."""

from __future__ import annotations

import json
import signal
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import attrs
from cyclopts import Parameter

from recorder.commands.resume_plan import goal_of
from recorder.console.argument_types import Positive
from recorder.console.output import say, say_aside
from recorder.console.progress import progress_bar
from recorder.errors import RecordingWarning
from recorder.exit_codes import DIFFERS, SAME, TERMINATED, UsageError
from recorder.runs.input_source import read_players
from recorder.scenarios.batch import Job, RunRecord, ensure_registered, input_source_of_job, worker_count
from recorder.scenarios.batch_manifest import PICTURE_NAME, BatchFolder
from recorder.scenarios.shrink_batch import (
    BATCH_BUDGET_S,
    SmallerScenario,
    first_violations,
    make_smaller,
    read_smaller,
)
from recorder.scenarios.summary import ROWS_SHOWN, draw_survival, groups_of, summary_lines, survival_of
from recorder.scenarios.sweep import Axis, read_axis, run_batch, sweep_jobs, with_tape
from recorder.text import counted
from sim.extras import missing_package
from sim.scenario.scenario_file import Scenario, load_scenario

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

    A batch that was stopped goes on where it was when the same command is given again with its folder. Of the first run that violates
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
    more: dict[str, Any] = {"players": read_players(player or []), "ticks": _goal(ticks)}
    made: list[Job] = []
    for name, loaded in _named(scenarios):
        for job in _jobs(loaded, axes, None, name=name, **more):
            bindings = {"scenario": name, **job.bindings} if len(scenarios) > 1 else job.bindings
            numbered = attrs.evolve(job, index=len(made), bindings=bindings)
            made.append(with_tape(numbered, None if no_tapes else folder))
    wanted = BatchRequest(made, folder, jobs, {"scenarios": list(scenarios)}, makes_smaller=not no_smaller)
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

    A sweep that was stopped goes on where it was when the same command is given again with its folder; replay compare
    sets two sweeps side by side. Of the first run that violates a property a smaller scenario is left beside its tape. Exit code 1 if a
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
    made = _jobs(loaded, axes, tapes, players=read_players(player or []), ticks=_goal(ticks))
    more = {"scenarios": [scenario], "axes": [{"path": one.path, "values": list(one.values)} for one in axes]}
    return _run(BatchRequest(made, folder, jobs, more, makes_smaller=not no_smaller), as_json=as_json)


def _named(scenarios: Sequence[str]) -> list[tuple[str, Scenario]]:
    """The scenarios, each by a name that no other has: its own, or as it was typed. Raises UsageError."""
    twice = next((name for name, count in Counter(scenarios).items() if count > 1), None)
    if twice is not None:
        raise UsageError(f"{twice} is there twice; --seeds gives each scenario several runs")
    loaded = [load_scenario(name) for name in scenarios]
    count = Counter(one.name for one in loaded)
    return [(one.name if count[one.name] == 1 else typed, one) for typed, one in zip(scenarios, loaded, strict=True)]


def _goal(ticks: int | None) -> int | None:
    return goal_of(ticks) if ticks is not None else None


def _jobs(loaded: Scenario, axes: Sequence[Axis], tapes: Path | None, **more: Any) -> list[Job]:
    """See sweep_jobs. Raises ConfigError, and UsageError for a scenario that no process of ours could run."""
    try:
        ensure_registered(loaded)
    except ValueError as error:
        raise UsageError(str(error)) from None
    return sweep_jobs(loaded, axes, tapes, **more)


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
class BatchRequest:
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


def _run(wanted: BatchRequest, *, as_json: bool) -> int:
    for job in {job.name: job for job in wanted.made if job.players}.values():
        input_source_of_job(job)  # Before anything is written.
    try:
        known = read_smaller(wanted.folder)
        BatchFolder(wanted.folder).inspect(wanted.made)
    except ValueError as error:
        raise UsageError(str(error)) from None
    if not as_json:
        many = f"{counted(len(wanted.made), 'run')} on {counted(worker_count(wanted.workers), 'worker')}"
        say(f"{many} → {wanted.folder}")
    try:
        more = {**wanted.more, "smaller": [attrs.asdict(one) for one in known]}
        records = _records(wanted, more, quiet=as_json)
    except _Terminated:
        say_aside("error: terminated")
        return TERMINATED
    if as_json:
        _print_json(records, wanted.folder, _made_smaller(wanted, records, known, quiet=True))
    else:
        for line in summary_lines(records):
            say(line)
        _say_smaller(wanted, records, known)
        _say_more(records, wanted.folder)
    return SAME if all(record.error is None and not record.violations for record in records) else DIFFERS


def _records(wanted: BatchRequest, more: dict[str, Any], *, quiet: bool) -> list[RunRecord]:
    """Run what has not finished. Raises UsageError for a folder that holds something else, OSError."""
    found: list[RunRecord] = []
    with (
        progress_bar("running", len(wanted.made), quiet=quiet) as show,
        _telling_if_stopped(wanted, found, quiet=quiet),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore", RecordingWarning)  # A tape that fails is in its run's record.

        def finished(record: RunRecord) -> None:
            found.append(record)
            show(len(found))

        try:
            return run_batch(wanted.made, wanted.folder, workers=wanted.workers, finished=finished, more=more)
        except ValueError as error:
            raise UsageError(str(error)) from None


class _Terminated(KeyboardInterrupt):
    """The batch was told to stop, as by an interrupt."""


def _stop_at_sigterm(*_: object) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # Being told again ends it no faster.
    raise _Terminated


@contextmanager
def _telling_if_stopped(wanted: BatchRequest, found: list[RunRecord], *, quiet: bool) -> Iterator[None]:
    """Say what has finished before a user interrupts, or the disk refuses. found: the records of that."""
    before = signal.signal(signal.SIGTERM, _stop_at_sigterm)
    try:
        yield
    except (KeyboardInterrupt, OSError):
        if found and not quiet:
            for line in summary_lines(sorted(found, key=lambda record: record.index)):
                say(line)
        done = sum(record.error is None for record in found)
        say_aside(
            f"{done:,} of {counted(len(wanted.made), 'run')} have finished; "
            f"the same command with -o {wanted.folder} goes on with the rest"
        )
        raise
    finally:
        signal.signal(signal.SIGTERM, before)


def _made_smaller(
    wanted: BatchRequest, records: list[RunRecord], known: list[SmallerScenario], *, quiet: bool
) -> tuple[list[SmallerScenario], int]:
    """The smaller scenarios, which are in the manifest then; and how many there was no time for."""
    if not wanted.makes_smaller:
        return known, 0
    firsts = first_violations(wanted.made, records)

    def keep(found: list[SmallerScenario]) -> None:
        BatchFolder(wanted.folder).finish(records, {**wanted.more, "smaller": [attrs.asdict(one) for one in found]})

    def warn(error: OSError) -> None:
        say_aside(f"warning: {wanted.folder}: {error.strerror}")

    with progress_bar("making it smaller", round(BATCH_BUDGET_S), quiet=quiet) as show:
        found = make_smaller(firsts, wanted.folder, known, keep=keep, on_progress=show, on_error=warn)
    return found, len(firsts) - len(found)


def _say_smaller(wanted: BatchRequest, records: list[RunRecord], known: list[SmallerScenario]) -> None:
    found, left = _made_smaller(wanted, records, known, quiet=False)
    for one in found[:ROWS_SHOWN]:
        say(one.line)
    if len(found) > ROWS_SHOWN:
        say(f"  and {len(found) - ROWS_SHOWN} more: see the manifest")
    if left:
        say(f"  not yet made smaller: {left} more; the same command again goes on with them")


def _print_json(records: list[RunRecord], folder: Path, smaller: tuple[list[SmallerScenario], int]) -> None:
    fates = [
        {"of": name, **attrs.asdict(one), "extinction_probability": one.extinction_probability}
        for name, group in groups_of(records).items()
        for one in survival_of(group)
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
    except OSError as error:
        say_aside(f"warning: {folder}: no survival curves: {error.strerror}")
    except ImportError:
        say("  " + missing_package("drawing survival curves", "matplotlib", "plot"))
    bad = next((record for record in records if record.violations and record.tape is not None), None)
    if bad is not None:
        say(f"next: replay seek {bad.tape} --tick {bad.violations[0][1]}")
