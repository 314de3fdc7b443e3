"""The commands ``record batch`` and ``record sweep``: many runs in processes, their tapes and what they came to."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import attrs
from cyclopts import Parameter

from recorder.console import DIFFERS, SAME, Positive, UsageError, counted, progress_bar, say
from recorder.courses import course_of, read_players
from recorder.scenarios.batch import Job, RunRecord, job_of, worker_count
from recorder.scenarios.summary import draw_survival, summary_lines, survival_of
from recorder.scenarios.sweep import Axis, read_axis, run_batch, sweep_jobs
from sim.kernel.registry import find_world
from sim.scenario.load import load_scenario

Output = Annotated[Path | None, Parameter(name=["--output", "-o"])]
Jobs = Annotated[Positive | None, Parameter(name=["--jobs", "-j"])]
Json = Annotated[bool, Parameter(name="--json", negative="")]
NoTapes = Annotated[bool, Parameter(name="--no-tapes", negative="")]
Players = Annotated[list[str] | None, Parameter(name="--player", negative="")]
BATCHES_FOLDER = "batches"
PICTURE_NAME = "survival.png"


def batch(
    *scenarios: str,
    seeds: str | None = None,
    output: Output = None,
    ticks: Positive | None = None,
    player: Players = None,
    jobs: Jobs = None,
    no_tapes: NoTapes = False,
    as_json: Json = False,
) -> int:
    """Run scenarios, each with every seed, in processes; a tape and a line in the manifest for each.

    Examples:
    record batch quiet-meadow arms-race -o runs
    record batch arms-race --seeds 0..63 --jobs 4 -o runs

    A batch that was stopped goes on where it was when the same command is given again. Exit code 1 if a property was
    violated or a run ended with an error.

    Parameters
    ----------
    scenarios
        Files, or names of scenarios that ship.
    seeds
        A range such as 0..63, or numbers with commas; by default each scenario's own.
    output
        The folder; by default a new one in batches/.
    player
        PLAYER=POLICY, as for record run; may be repeated.
    jobs
        Processes; by default one for each processor.
    no_tapes
        Keep only the manifest.
    """
    if not scenarios:
        raise UsageError("name at least one scenario; record scenarios lists those that ship")
    axes = [read_axis(f"seed={seeds}")] if seeds is not None else []
    folder = _folder(output, "batch")
    made: list[Job] = []
    for name in scenarios:
        loaded = load_scenario(name)
        more: dict[str, Any] = {"players": read_players(player or []), "ticks": ticks}
        for job in sweep_jobs(loaded, axes, None, **more) if axes else [job_of(loaded, 0, **more)]:
            if not axes:
                loaded.make()
            index = len(made)
            tape = None if no_tapes else folder / f"run-{index:05d}.tape"
            bindings = {"scenario": loaded.name, **job.bindings} if len(scenarios) > 1 else job.bindings
            made.append(attrs.evolve(job, index=index, tape=tape, bindings=bindings))
    return _run(made, folder, jobs, {"scenarios": list(scenarios)}, as_json=as_json)


def sweep(
    scenario: str,
    /,
    *,
    axis: Annotated[list[str], Parameter(name="--axis", negative="")],
    output: Output = None,
    ticks: Positive | None = None,
    player: Players = None,
    jobs: Jobs = None,
    no_tapes: NoTapes = False,
    as_json: Json = False,
) -> int:
    """Run a scenario with every combination of some parameters.

    Examples:
    record sweep ambush.toml --axis seed=0..9 --axis scenario.network.loss=0,0.1,0.2 -o lossy
    record sweep arms-race --axis "links.between_species=true,false" --axis seed=0..31

    A sweep that was stopped goes on where it was when the same command is given again; replay compare sets two sweeps
    side by side. Exit code 1 if a property was violated or a run ended with an error.

    Parameters
    ----------
    scenario
        A file, or the name of one that ships.
    axis
        PATH=VALUES: where the parameter stands in the file, and its values with commas, or a range such as 0..9. The
        last axis turns fastest.
    output
        The folder; by default a new one in batches/.
    player
        PLAYER=POLICY, as for record run; may be repeated.
    jobs
        Processes; by default one for each processor.
    no_tapes
        Keep only the manifest.
    """
    loaded = load_scenario(scenario)
    axes = [read_axis(one) for one in axis]
    _ensure_different(axes)
    folder = _folder(output, loaded.name)
    tapes = None if no_tapes else folder
    made = sweep_jobs(loaded, axes, tapes, players=read_players(player or []), ticks=ticks)
    more = {"scenarios": [scenario], "axes": [{"path": one.path, "values": list(one.values)} for one in axes]}
    return _run(made, folder, jobs, more, as_json=as_json)


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


def _run(made: list[Job], folder: Path, jobs: int | None, more: dict[str, Any], *, as_json: bool) -> int:
    for job in {job.name: job for job in made if job.players}.values():
        course_of(find_world(job.world), job.config, players=job.players)  # Before anything is written.
    if not as_json:
        say(f"{counted(len(made), 'run')} on {counted(worker_count(jobs), 'worker')} → {folder}")
    try:
        with progress_bar("running", len(made), quiet=as_json) as show:
            records = run_batch(made, folder, workers=jobs, progress=lambda done, _: show(done), more=more)
    except ValueError as error:
        raise UsageError(str(error)) from None
    if as_json:
        facts = [
            {**attrs.asdict(one), "extinction_probability": one.extinction_probability} for one in survival_of(records)
        ]
        print(
            json.dumps({"folder": str(folder), "survival": facts, "runs": [attrs.asdict(r) for r in records]}, indent=1)
        )
    else:
        for line in summary_lines(records):
            say(line)
        _say_more(records, folder)
    return SAME if all(record.error is None and not record.violations for record in records) else DIFFERS


def _say_more(records: list[RunRecord], folder: Path) -> None:
    try:
        if draw_survival(records, folder / PICTURE_NAME):
            say(f"  survival curves: {folder / PICTURE_NAME}")
    except ImportError:
        say("  survival curves need matplotlib: pip install 'simulation-flight-recorder[plot]'")
    bad = next((record for record in records if record.violations and record.tape is not None), None)
    if bad is not None:
        say(f"next: replay seek {bad.tape} --tick {bad.violations[0][1]}")
