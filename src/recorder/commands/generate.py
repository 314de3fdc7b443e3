"""The command ``record generate``: a corpus of runs, one for each seed and combination of policies."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from recorder.commands.batch import workers_text
from recorder.console.argument_types import LocalPath, Positive
from recorder.console.engine_option import EngineOption
from recorder.console.output import print_json, say, say_on_stderr
from recorder.console.progress import progress_bar
from recorder.corpus.corpus import Corpus, refresh_index
from recorder.corpus.generate import PlannedRun, locked_folder, missing_runs, plan_runs, run_missing
from recorder.corpus.run_statistics import standings_of
from recorder.exit_codes import DIFFERS, SAME, UsageError
from recorder.processes.engines.engine import Engine, find_engine
from recorder.recording_options import KEYFRAME_INTERVAL_TICKS
from recorder.runs.input_source import read_players
from recorder.scenarios.batch import RunRecord, worker_count
from recorder.scenarios.sweep import read_axis
from recorder.storage.atomic_file import make_folder
from recorder.text import counted

DEFAULT_FOLDER = Path("runs")
FAILURES_SHOWN = 10


def generate(
    *scenarios: str,
    seeds: str | None = None,
    player: Annotated[list[str] | None, Parameter(name="--player", negative="")] = None,
    output: Annotated[LocalPath, Parameter(name=["--output", "-o"])] = DEFAULT_FOLDER,
    jobs: Annotated[Positive | None, Parameter(name=["--jobs", "-j"])] = None,
    engine: EngineOption = None,
    ticks: Positive | None = None,
    keyframe_interval: Positive = KEYFRAME_INTERVAL_TICKS,
    as_json: Annotated[bool, Parameter(name="--json", negative="")] = False,
) -> int:
    """Record a corpus of tapes, one run for each scenario, seed and combination of policies.

    Examples:
    record generate arms-race --seeds 0..63 --player caterpillar=greedy,random --player beetle=random -o runs -j 4
    record generate arms-race quiet-meadow --seeds 0..9 --ticks 2000 -o runs

    The command runs only what the folder lacks. Give it again with more seeds,
    scenarios or policies to extend the corpus; different settings are refused.
    After a kill, only the runs under way start again. The same command gives
    the same tapes, byte for byte. replay ls lists the corpus. The exit code is 1
    if a run ended with an error.

    Parameters
    ----------
    scenarios
        Scenario files (TOML), or names of bundled scenarios.
    seeds
        A range such as 0..63, or numbers separated by commas; by default each scenario's own seed.
    player
        PLAYER=POLICY,POLICY,…: the policies of one of the scenario's players; repeat it for other players.
    output
        The folder of the corpus.
    jobs
        Number of processes; by default one for each processor.
    ticks
        Number of ticks to run at most; by default that of the scenario.
    keyframe_interval
        Ticks from one keyframe to the next: the most that a seek re-simulates.
    as_json
        Print one JSON object.
    """
    if not scenarios:
        raise UsageError("name at least one scenario; record scenarios lists the bundled ones")
    plan = plan_runs(
        scenarios,
        output,
        seeds=read_seeds(seeds) if seeds is not None else None,
        players=read_policies(player or []),
        ticks=ticks,
        keyframe_interval_ticks=keyframe_interval,
    )
    place = find_engine(engine)
    start_s = time.perf_counter()
    make_folder(output)  # A folder that may not be written is reported alone.
    if not as_json:
        say(f"{counted(len(plan), 'run')} on {workers_text(place, jobs)} → {output}")
    records = _run(plan, output, jobs, place, quiet=as_json)
    seconds = time.perf_counter() - start_s
    if as_json:
        print_json(_facts(plan, records, output))
    else:
        _report(plan, records, output, seconds)
    return DIFFERS if any(record.error is not None for record in records) else SAME


def _run(
    plan: Sequence[PlannedRun], output: Path, jobs: int | None, engine: Engine | None, *, quiet: bool
) -> list[RunRecord]:
    """Run what is missing; return the records of these runs."""
    with locked_folder(output):
        with progress_bar("reading tapes", 100, quiet=quiet) as show:
            corpus, _ = refresh_index(
                output, jobs=worker_count(jobs), progress=lambda done, total: show(100 * done / total)
            )
        missing = missing_runs(plan, corpus)
        existing_count = len(plan) - len(missing)
        with progress_bar("running", len(plan), quiet=quiet) as show:
            return run_missing(
                missing, output, workers=jobs, engine=engine, progress=lambda done: show(existing_count + done)
            )


def read_seeds(text: str) -> list[int]:
    """Read seeds from a range such as 0..63, or from numbers with commas. Raises UsageError, ConfigError."""
    values = read_axis(f"seed={text}").values
    invalid = next((seed for seed in values if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0), None)
    if invalid is not None or not values:
        raise UsageError(f"expected seeds as a range such as 0..63, or integers with commas, got {text}")
    if len(set(values)) < len(values):
        raise UsageError(f"seeds {text}: one of them is named twice; name each once")
    return list(values)


def read_policies(arguments: Sequence[str]) -> dict[str, list[str]]:
    """Read the policies of each player, in the order of the arguments. Raises UsageError."""
    players = {}
    for name, policies in read_players(arguments).items():
        players[name] = policies.split(",")
        if "" in players[name] or len(set(players[name])) < len(players[name]):
            raise UsageError(f"--player {name}={policies}: expected different policies, separated by commas")
    return players


def _facts(plan: Sequence[PlannedRun], records: Sequence[RunRecord], output: Path) -> dict[str, Any]:
    return {
        "folder": str(output),
        "runs": len(plan),
        "ran": len(records),
        "failed": [{"run": run.index, "scenario": run.name, "error": run.error} for run in records if run.error],
        "tapes": [str(run.job.tape) for run in plan],
    }


def _report(plan: Sequence[PlannedRun], records: Sequence[RunRecord], output: Path, seconds: float) -> None:
    failed = [record for record in records if record.error is not None]
    existing_count = len(plan) - len(records)
    ticks = sum(record.final_tick for record in records)
    say(
        f"{counted(len(records), 'run')} in {seconds:.1f} s"
        + (f" ({ticks / seconds:,.0f} ticks a second)" if ticks else "")
        + (f", {existing_count:,} existed already" if existing_count else "")
        + (f", {len(failed):,} with errors" if failed else "")
    )
    for record in failed[:FAILURES_SHOWN]:
        say_on_stderr(f"  {plan[record.index].job.tape}: {record.error}")
    names = {planned.job.tape.name for planned in plan if planned.job.tape is not None}
    runs = [run for run in Corpus.open(output) if run.tape in names]
    ends = Counter(run.reason for run in runs if run.reason is not None)
    say("  ends: " + ", ".join(f"{reason} {count:,}" for reason, count in ends.most_common()))
    for standing in standings_of(runs):
        if standing.decided:
            decided = counted(standing.decided, "run")
            say(f"  {standing.player}={standing.policy}: won {standing.won:,} of {decided}, drew {standing.drawn:,}")
    say(f"next: replay ls {output} --stats")
