"""The commands ``record batch`` and ``record sweep``: many runs in processes, with their tapes and results."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import attrs
from cyclopts import Parameter

from recorder.commands.resume_plan import goal_of
from recorder.console.argument_types import LocalPath, Positive
from recorder.console.engine_option import EngineOption
from recorder.console.output import print_json, say, say_on_stderr
from recorder.console.progress import progress_bar
from recorder.errors import RecordingWarning
from recorder.exit_codes import DIFFERS, SAME, UsageError
from recorder.processes.engines.engine import Engine, find_engine
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
from recorder.storage.atomic_file import make_folder
from recorder.text import counted
from sim.extras import missing_package
from sim.scenario.scenario_file import Scenario, load_scenario

Output = Annotated[
    LocalPath | None,
    Parameter(name=["--output", "-o"], help="The folder of the batch; by default a new one in batches/."),
]
Ticks = Annotated[Positive | None, Parameter(help="Number of ticks to run; by default that of the scenario.")]
Players = Annotated[
    list[str] | None,
    Parameter(name="--player", negative="", help="PLAYER=POLICY, as for record run; may be repeated."),
]
Jobs = Annotated[
    Positive | None, Parameter(name=["--jobs", "-j"], help="Number of processes; by default one for each processor.")
]
NoTapes = Annotated[bool, Parameter(name="--no-tapes", negative="", help="Keep no tapes.")]
NoSmaller = Annotated[
    bool,
    Parameter(
        name="--no-smaller",
        negative="",
        help="Do not search for smaller scenarios. The search takes up to half a minute after all runs, for the first "
        "violating run of each scenario and property.",
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
    engine: EngineOption = None,
    no_tapes: NoTapes = False,
    no_smaller: NoSmaller = False,
    as_json: Json = False,
) -> int:
    """Run each scenario with each seed, in parallel. Each run gets a tape and a line in the manifest.

    Examples:
    record batch quiet-meadow arms-race -o runs
    record batch arms-race --seeds 0..63 --jobs 4 -o runs
    record batch arms-race --seeds 0..999 -o /shared/runs --engine ray:auto

    To continue a batch that was stopped, give the same command again with its
    folder. For the first run that violates a property, a smaller scenario that
    violates it is written next to its tape. The exit code is 1 if a property was
    violated or a run ended with an error.

    Parameters
    ----------
    scenarios
        Scenario files (TOML), or names of bundled scenarios.
    seeds
        A range such as 0..63, or numbers separated by commas; by default each scenario's own seed.
    """
    if not scenarios:
        raise UsageError("name at least one scenario; record scenarios lists the bundled ones")
    axes = [read_axis(f"seed={seeds}")] if seeds is not None else []
    folder = _folder(output, "batch")
    run_options: dict[str, Any] = {"players": read_players(player or []), "ticks": _goal(ticks)}
    planned: list[Job] = []
    for name, loaded in _named(scenarios):
        for job in _jobs(loaded, axes, None, name=name, **run_options):
            bindings = {"scenario": name, **job.bindings} if len(scenarios) > 1 else job.bindings
            numbered = attrs.evolve(job, index=len(planned), bindings=bindings)
            planned.append(with_tape(numbered, None if no_tapes else folder))
    request = BatchRequest(planned, folder, jobs, {"scenarios": list(scenarios)}, not no_smaller, find_engine(engine))
    return _run(request, as_json=as_json)


def sweep(
    scenario: str,
    /,
    *,
    axis: Annotated[list[str], Parameter(name="--axis", negative="")],
    output: Output = None,
    ticks: Ticks = None,
    player: Players = None,
    jobs: Jobs = None,
    engine: EngineOption = None,
    no_tapes: NoTapes = False,
    no_smaller: NoSmaller = False,
    as_json: Json = False,
) -> int:
    """Run a scenario with every combination of the given parameter values.

    Examples:
    record sweep ambush.toml --axis seed=0..9 --axis scenario.network.loss=0,0.1,0.2 -o lossy
    record sweep arms-race --axis "links.between_species=true,false" --axis seed=0..31
    record sweep arms-race --axis seed=0..999 -o /shared/runs --engine ray:auto

    To continue a sweep that was stopped, give the same command again with its
    folder. For the first run that violates a property, a smaller scenario that
    violates it is written next to its tape. replay compare compares two sweeps.
    The exit code is 1 if a property was violated or a run ended with an error.

    Parameters
    ----------
    scenario
        A scenario file (TOML), or the name of a bundled scenario.
    axis
        PATH=VALUES: a parameter's path in the file; its values with commas, or a range (0..9). The last varies fastest.
    """
    loaded = load_scenario(scenario)
    axes = [read_axis(argument) for argument in axis]
    _ensure_different(axes)
    folder = _folder(output, loaded.name)
    tapes = None if no_tapes else folder
    planned = _jobs(loaded, axes, tapes, players=read_players(player or []), ticks=_goal(ticks))
    facts = {"scenarios": [scenario], "axes": [{"path": used.path, "values": list(used.values)} for used in axes]}
    return _run(BatchRequest(planned, folder, jobs, facts, not no_smaller, find_engine(engine)), as_json=as_json)


def workers_text(engine: Engine | None, workers: int | None) -> str:
    """Where runs are made, for people."""
    if engine is None:
        return counted(worker_count(workers), "worker")
    return "Ray" if workers is None else f"Ray, {workers} at a time"


def _named(scenarios: Sequence[str]) -> list[tuple[str, Scenario]]:
    """Load the scenarios, each under a unique name: its own, or as it was typed. Raises UsageError."""
    twice = next((name for name, count in Counter(scenarios).items() if count > 1), None)
    if twice is not None:
        raise UsageError(f"{twice} is named twice: name it once; --seeds gives each scenario several runs")
    loaded = [load_scenario(name) for name in scenarios]
    count = Counter(scenario.name for scenario in loaded)
    return [
        (scenario.name if count[scenario.name] == 1 else typed, scenario)
        for typed, scenario in zip(scenarios, loaded, strict=True)
    ]


def _goal(ticks: int | None) -> int | None:
    return goal_of(ticks) if ticks is not None else None


def _jobs(loaded: Scenario, axes: Sequence[Axis], tapes: Path | None, **more: Any) -> list[Job]:
    """See sweep_jobs. Raises ConfigError, and UsageError for a scenario that worker processes cannot run."""
    try:
        ensure_registered(loaded)
    except ValueError as error:
        raise UsageError(str(error)) from None
    return sweep_jobs(loaded, axes, tapes, **more)


def _ensure_different(axes: Sequence[Axis]) -> None:
    paths = [axis.path for axis in axes]
    twice = next((path for path in paths if paths.count(path) > 1), None)
    if twice is not None:
        raise UsageError(f"--axis {twice}: there is already an axis with this path: give all its values in one --axis")


def _folder(output: Path | None, name: str) -> Path:
    if output is not None:
        return output
    number = 1
    while (folder := Path(BATCHES_FOLDER) / f"{name}-{number}").exists():
        number += 1
    return folder


@attrs.frozen
class BatchRequest:
    """A batch, as the command line asks for it.

    Attributes:
        jobs: one for each run.
        folder: of the tapes and the manifest.
        workers: the number of processes; see worker_count.
        facts: further entries of the manifest.
        makes_smaller: True if violating scenarios are made smaller.
        engine: None for processes of this machine.
    """

    jobs: list[Job]
    folder: Path
    workers: int | None
    facts: dict[str, Any]
    makes_smaller: bool
    engine: Engine | None = None


def _run(request: BatchRequest, *, as_json: bool) -> int:
    for job in {job.name: job for job in request.jobs if job.players}.values():
        input_source_of_job(job)  # Before anything is written.
    try:
        older = read_smaller(request.folder)
        BatchFolder(request.folder).inspect(request.jobs)
    except ValueError as error:
        raise UsageError(str(error)) from None
    make_folder(request.folder)  # A folder that may not be written is reported alone.
    if not as_json:
        say(
            f"{counted(len(request.jobs), 'run')} on {workers_text(request.engine, request.workers)} → {request.folder}"
        )
    facts = {**request.facts, "smaller": [attrs.asdict(smaller) for smaller in older]}
    records = _records(request, facts, quiet=as_json)
    if as_json:
        _print_json(records, request.folder, _make_smaller(request, records, older, quiet=True))
    else:
        for line in summary_lines(records):
            say(line)
        _report_smaller(request, records, older)
        _report_next_steps(records, request.folder)
    return SAME if all(record.error is None and not record.violations for record in records) else DIFFERS


def _records(request: BatchRequest, facts: dict[str, Any], *, quiet: bool) -> list[RunRecord]:
    """Run the jobs that have not finished. Raises UsageError for a folder with other contents, OSError."""
    records: list[RunRecord] = []
    with (
        progress_bar("running", len(request.jobs), quiet=quiet) as show,
        _reporting_if_stopped(request, records, quiet=quiet),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore", RecordingWarning)  # A run's record notes if its tape failed.

        def finished(record: RunRecord) -> None:
            records.append(record)
            show(len(records))

        try:
            return run_batch(
                request.jobs,
                request.folder,
                workers=request.workers,
                engine=request.engine,
                finished=finished,
                more=facts,
            )
        except ValueError as error:
            raise UsageError(str(error)) from None


@contextmanager
def _reporting_if_stopped(request: BatchRequest, records: list[RunRecord], *, quiet: bool) -> Iterator[None]:
    """Report the finished runs if a user interrupts or the disk fails. records: of the finished runs."""
    try:
        yield
    except (KeyboardInterrupt, OSError) as error:
        if not records and isinstance(error, PermissionError):
            raise  # The same command cannot continue.
        if records and not quiet:
            for line in summary_lines(sorted(records, key=lambda record: record.index)):
                say(line)
        finished_count = sum(record.error is None for record in records)
        say_on_stderr(
            f"{finished_count:,} of {counted(len(request.jobs), 'run')} have finished; "
            f"to continue, run the same command with -o {request.folder}"
        )
        raise


def _make_smaller(
    request: BatchRequest, records: list[RunRecord], older: list[SmallerScenario], *, quiet: bool
) -> tuple[list[SmallerScenario], int]:
    """Make violating scenarios smaller and note them in the manifest. Return them and the number still to do."""
    if not request.makes_smaller:
        return older, 0
    firsts = first_violations(request.jobs, records)

    def keep(scenarios: list[SmallerScenario]) -> None:
        facts = {**request.facts, "smaller": [attrs.asdict(scenario) for scenario in scenarios]}
        BatchFolder(request.folder).finish(records, facts)

    def warn(error: OSError) -> None:
        say_on_stderr(f"warning: {request.folder}: {error.strerror}")

    with progress_bar("making it smaller", round(BATCH_BUDGET_S), quiet=quiet) as show:
        scenarios = make_smaller(firsts, request.folder, older, keep=keep, on_progress=show, on_error=warn)
    return scenarios, len(firsts) - len(scenarios)


def _report_smaller(request: BatchRequest, records: list[RunRecord], older: list[SmallerScenario]) -> None:
    scenarios, left_count = _make_smaller(request, records, older, quiet=False)
    for scenario in scenarios[:ROWS_SHOWN]:
        say(scenario.line)
    if len(scenarios) > ROWS_SHOWN:
        say(f"  and {len(scenarios) - ROWS_SHOWN} more: see the manifest")
    if left_count:
        say(f"  not yet made smaller: {left_count} more; run the same command again to continue")


def _print_json(records: list[RunRecord], folder: Path, smaller: tuple[list[SmallerScenario], int]) -> None:
    fates = [
        {"of": name, **attrs.asdict(fate), "extinction_probability": fate.extinction_probability}
        for name, group in groups_of(records).items()
        for fate in survival_of(group)
    ]
    facts = {
        "folder": str(folder),
        "survival": fates,
        "smaller": [attrs.asdict(scenario) for scenario in smaller[0]],
        "not_yet_smaller": smaller[1],
        "runs": [attrs.asdict(record) for record in records],
    }
    print_json(facts)


def _report_next_steps(records: list[RunRecord], folder: Path) -> None:
    try:
        if draw_survival(records, folder / PICTURE_NAME):
            say(f"  survival curves: {folder / PICTURE_NAME}")
    except OSError as error:
        say_on_stderr(f"warning: {folder}: no survival curves: {error.strerror}")
    except ImportError:
        say("  " + missing_package("drawing survival curves", "matplotlib", "plot"))
    violating = next((record for record in records if record.violations and record.tape is not None), None)
    if violating is not None:
        say(f"next: replay seek {violating.tape} --tick {violating.violations[0][1]}")
