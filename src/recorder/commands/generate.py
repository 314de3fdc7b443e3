"""The command ``record generate``: a corpus of runs, each seed with each combination of policies."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from recorder.console.argument_types import Positive
from recorder.console.output import say, say_aside
from recorder.console.progress import progress_bar
from recorder.corpus.corpus import Corpus, refresh_index
from recorder.corpus.generate import PlannedRun, locked_folder, missing_runs, plan_runs, run_missing
from recorder.corpus.run_statistics import standings_of
from recorder.exit_codes import DIFFERS, SAME, UsageError
from recorder.recording_options import KEYFRAME_INTERVAL_TICKS
from recorder.runs.input_source import read_players
from recorder.scenarios.batch import RunRecord, worker_count
from recorder.scenarios.sweep import read_axis
from recorder.text import counted

DEFAULT_FOLDER = Path("runs")
FAILURES_SHOWN = 10


def generate(
    *scenarios: str,
    seeds: str | None = None,
    player: Annotated[list[str] | None, Parameter(name="--player", negative="")] = None,
    output: Annotated[Path, Parameter(name=["--output", "-o"])] = DEFAULT_FOLDER,
    jobs: Annotated[Positive | None, Parameter(name=["--jobs", "-j"])] = None,
    ticks: Positive | None = None,
    keyframe_interval: Positive = KEYFRAME_INTERVAL_TICKS,
    as_json: Annotated[bool, Parameter(name="--json", negative="")] = False,
) -> int:
    """Let policies play scenarios, each seed with each combination of policies; a folder of tapes with an index.

    Examples:
    record generate arms-race --seeds 0..63 --player caterpillar=greedy,random --player beetle=random -o runs -j 4
    record generate arms-race quiet-meadow --seeds 0..9 --ticks 2000 -o runs

    Given again, it runs what is missing: more seeds, scenarios and policies go into the same folder, other settings are
    refused. After a kill only the runs under way are begun anew. The same command gives the same tapes, byte by byte.
    replay ls lists what there is. Exit code 1 if a run ended with an error.

    Parameters
    ----------
    scenarios
        Files, or names of scenarios that ship.
    seeds
        A range such as 0..63, or numbers with commas; by default each scenario's own.
    player
        PLAYER=POLICY,POLICY,…: who plays one of the scenario's players; may be repeated, for other players.
    output
        The folder.
    jobs
        Processes; by default one for each processor.
    ticks
        How far at most; by default what the scenario says.
    keyframe_interval
        Ticks from one keyframe to the next: how far a seek re-simulates at most.
    """
    if not scenarios:
        raise UsageError("name at least one scenario; record scenarios lists those that ship")
    plan = plan_runs(
        scenarios,
        output,
        seeds=read_seeds(seeds) if seeds is not None else None,
        players=read_policies(player or []),
        ticks=ticks,
        keyframe_interval_ticks=keyframe_interval,
    )
    start_s = time.perf_counter()
    if not as_json:
        say(f"{counted(len(plan), 'run')} on {counted(worker_count(jobs), 'worker')} → {output}")
    records = _run(plan, output, jobs, quiet=as_json)
    seconds = time.perf_counter() - start_s
    if as_json:
        print(json.dumps(_facts(plan, records, output), indent=1))
    else:
        _say_what(plan, records, output, seconds)
    return DIFFERS if any(record.error is not None for record in records) else SAME


def _run(plan: Sequence[PlannedRun], output: Path, jobs: int | None, *, quiet: bool) -> list[RunRecord]:
    """Run what is missing; what became of it."""
    with locked_folder(output):
        with progress_bar("reading tapes", 100, quiet=quiet) as show:
            corpus, _ = refresh_index(
                output, jobs=worker_count(jobs), progress=lambda done, total: show(100 * done / total)
            )
        missing = missing_runs(plan, corpus)
        there = len(plan) - len(missing)
        with progress_bar("running", len(plan), quiet=quiet) as show:
            return run_missing(missing, output, workers=jobs, progress=lambda done: show(there + done))


def read_seeds(text: str) -> list[int]:
    """Seeds from a range such as 0..63, or numbers with commas. Raises UsageError, ConfigError."""
    values = read_axis(f"seed={text}").values
    wrong = next((one for one in values if isinstance(one, bool) or not isinstance(one, int) or one < 0), None)
    if wrong is not None or not values:
        raise UsageError(f"seeds {text}: a range such as 0..63, or whole numbers with commas, were expected")
    if len(set(values)) < len(values):
        raise UsageError(f"seeds {text}: one of them is there twice")
    return list(values)


def read_policies(given: Sequence[str]) -> dict[str, list[str]]:
    """Policies by player, in the order given. Raises UsageError."""
    players = {}
    for name, policies in read_players(given).items():
        players[name] = policies.split(",")
        if "" in players[name] or len(set(players[name])) < len(players[name]):
            raise UsageError(f"--player {name}={policies}: different policies with commas between them were expected")
    return players


def _facts(plan: Sequence[PlannedRun], records: Sequence[RunRecord], output: Path) -> dict[str, Any]:
    return {
        "folder": str(output),
        "runs": len(plan),
        "ran": len(records),
        "failed": [{"run": one.index, "scenario": one.name, "error": one.error} for one in records if one.error],
        "tapes": [str(one.job.tape) for one in plan],
    }


def _say_what(plan: Sequence[PlannedRun], records: Sequence[RunRecord], output: Path, seconds: float) -> None:
    failed = [record for record in records if record.error is not None]
    there = len(plan) - len(records)
    ticks = sum(record.final_tick for record in records)
    say(
        f"{counted(len(records), 'run')} in {seconds:.1f} s"
        + (f" ({ticks / seconds:,.0f} ticks a second)" if ticks else "")
        + (f", {there:,} were there already" if there else "")
        + (f", {len(failed):,} with errors" if failed else "")
    )
    for record in failed[:FAILURES_SHOWN]:
        say_aside(f"  {plan[record.index].job.tape}: {record.error}")
    names = {one.job.tape.name for one in plan if one.job.tape is not None}
    runs = [run for run in Corpus.open(output) if run.tape in names]
    ends = Counter(run.reason for run in runs if run.reason is not None)
    say("  ends: " + ", ".join(f"{reason} {count:,}" for reason, count in ends.most_common()))
    for one in standings_of(runs):
        if one.decided:
            say(f"  {one.player}={one.policy}: won {one.won:,} of {counted(one.decided, 'run')}, drew {one.drawn:,}")
    say(f"next: replay ls {output} --stats")
