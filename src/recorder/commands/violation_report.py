"""Print the violations of a run, and write a smaller scenario with the same violation next to the tape."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path

from recorder.console.output import say, say_on_stderr
from recorder.console.progress import progress_bar
from recorder.exit_codes import DIFFERS, SAME
from recorder.runs.input_source import InputSource
from recorder.scenarios.shrink import Minimised, write_minimised
from recorder.scenarios.shrink_batch import BUDGET_S, search
from recorder.scenarios.violation_watch import ViolationWatch
from recorder.storage.file_names import first_free, numbered
from recorder.text import counted
from sim.scenario.results.result import Violation
from sim.scenario.scenario_file import Scenario


def say_violations(watch: ViolationWatch) -> None:
    """Print a line for each violation, and for checkpoints."""
    if watch.checkpoints:
        say_on_stderr(f"{counted(len(watch.checkpoints), 'checkpoint')} in {watch.checkpoints[0].path.parent}")
    if watch.checkpoint_error is not None:
        say_on_stderr(f"warning: {watch.checkpoint_error}")
    for name in watch.before:
        say_on_stderr(f"violated at tick {watch.first_tick:,} or before: {name}")
    for violation in watch.violations:
        say_on_stderr(f"violated at tick {violation.tick:,}: {violation.name}: {violation.details}")


def report_violations(
    watch: ViolationWatch,
    tape: Path,
    loaded: Scenario,
    players: Mapping[str, str],
    input_source: InputSource,
    *,
    quiet: bool,
) -> int:
    """Print the violations and write a smaller scenario next to the tape. A user may interrupt the search.

    Returns the exit code; without violations nothing is written.
    """
    say_violations(watch)
    if not watch.violations:
        return DIFFERS if watch.before else SAME
    first = watch.violations[0]
    smaller = _minimised(loaded, first, input_source, quiet=quiet)
    if smaller is not None and not smaller.is_smaller_than(loaded.provocation or {}):
        say_on_stderr("  not smaller: nothing in the scenario can be left out")
    elif smaller is not None:
        _write_smaller(smaller, tape, loaded, players, input_source)
    if not quiet:
        say(f"next: {_seek_command(tape, input_source, first.tick)}")
    return DIFFERS


def _minimised(loaded: Scenario, violation: Violation, input_source: InputSource, *, quiet: bool) -> Minimised | None:
    """Search for a smaller scenario; return None if the search was interrupted."""
    scenario = loaded.provocation or {}
    with progress_bar("making it smaller", round(BUDGET_S), quiet=quiet) as show:
        try:
            return search(
                loaded.world,
                loaded.config,
                scenario,
                input_source.inputs,
                violation,
                budget_s=BUDGET_S,
                on_progress=show,
            )
        except KeyboardInterrupt:
            return None


def _write_smaller(
    smaller: Minimised, tape: Path, loaded: Scenario, players: Mapping[str, str], input_source: InputSource
) -> None:
    target = first_free(numbered(tape.with_name(f"{tape.stem}.smaller.toml"), ".toml"))
    options = [f"--player {name}={policy}" for name, policy in players.items()]
    options += [f"--sim {input_source.sim}"] if input_source.sim else []
    options += [f"--inputs {input_source.file}"] if input_source.file is not None else []
    try:
        write_minimised(target, smaller, loaded.config if loaded.world.name else None, options)
    except OSError as error:
        say_on_stderr(f"warning: {target}: {error.strerror}")
    else:
        unfinished = "" if smaller.is_minimal else ", search not finished"
        say_on_stderr(f"  made smaller in {counted(smaller.trials, 'run')}{unfinished}: {target}")


def _seek_command(tape: Path, input_source: InputSource, tick: int) -> str:
    sim = f" --sim {shlex.quote(input_source.sim)}" if input_source.sim else ""
    return f"replay seek {shlex.quote(str(tape))}{sim} --tick {tick}"
