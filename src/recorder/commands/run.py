"""The command ``record run``: run a scenario and record it."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import attrs
from cyclopts import Parameter

from recorder.commands.live_page import ensure_page_packages, page_beside
from recorder.commands.options import (
    BlameOption,
    Changes,
    Deterministic,
    Durability,
    Events,
    From,
    FullEvery,
    HashesOption,
    Inputs,
    Keep,
    KeyframeInterval,
    Live,
    OnErrorOption,
    Players,
    Quiet,
    Realtime,
    RunMode,
    SeekBudgetOption,
    Shards,
    Sim,
    Split,
    Sync,
    Writes,
)
from recorder.commands.resume_plan import goal_of
from recorder.commands.run_common import notes_of, run_watched, simulation_of
from recorder.commands.sharded_run import RunInProcesses, processes_beside
from recorder.commands.upload import Upload, ensure_upload, upload_beside
from recorder.commands.violation_report import report_violations
from recorder.commands.workers import WorkerOptions
from recorder.console.argument_types import LocalPath, NotNegative, Positive
from recorder.console.output import say
from recorder.exit_codes import UsageError
from recorder.location.shards_manifest import shards_folder
from recorder.location.tape_url import TapeUrl
from recorder.recording_options import FULL_EVERY, KEYFRAME_INTERVAL_TICKS, OptionArguments, RecordingOptions
from recorder.runs.input_source import InputSource, input_source_of, read_players
from recorder.runs.mode_probe import choose_mode
from recorder.scenarios.batch import ticks_of
from recorder.scenarios.checkpoints import resume_checkpoint
from recorder.scenarios.shards.sharded_scenario import lost_shards_in_one_line
from recorder.scenarios.start import begin_tape, options_of, players_from
from recorder.scenarios.violation_watch import ViolationWatch
from recorder.session.recorder import Recorder
from recorder.settings import ChangeTracking, Mode
from recorder.storage.atomic_file import make_folder
from recorder.text import counted
from sim.scenario.scenario_file import FOREIGN, Scenario, load_scenario
from sim.waiting_notice import silence_notices

RECORDINGS_FOLDER = "recordings"


def run(
    scenario: str,
    /,
    *,
    output: Annotated[LocalPath | None, Parameter(name=["--output", "-o"])] = None,
    ticks: Positive | None = None,
    seed: NotNegative | None = None,
    keyframe_interval: KeyframeInterval = KEYFRAME_INTERVAL_TICKS,
    full_every: FullEvery = FULL_EVERY,
    seek_budget: SeekBudgetOption = None,
    changes: Changes = "auto",
    durability: Durability = "tick",
    sync: Sync = None,
    on_error: OnErrorOption = "continue",
    keep: Keep = None,
    split: Split = None,
    deterministic: Deterministic = False,
    blame: BlameOption = "auto",
    mode: RunMode = "events",
    hashes: HashesOption = "auto",
    writes: Writes = False,
    player: Players = None,
    inputs: Inputs = None,
    events: Events = None,
    sim: Sim = None,
    start: From = None,
    realtime: Realtime = None,
    live: Live = False,
    upload: Upload = None,
    shards: Shards = None,
    cluster: WorkerOptions | None = None,
    quiet: Quiet = False,
) -> int:
    """Run a scenario and record it.

    Examples:
    record run quiet-meadow -o meadow.tape --ticks 2000
    record run arms-race --player caterpillar=greedy --player beetle=random --shards 2
    record run provoked.toml --sim walkers:Walkers
    record run quiet-meadow --realtime 30 --live
    record run ambush.toml --from artifacts/ambush/checkpoint_300.tape -o rest.tape
    record run organisms --workers 4 --checkpoints whole

    The run ends at the scenario's last tick, or earlier if its [termination] says so. If a property of its
    [scenario] is violated, a smaller scenario that violates it is written next to the tape; the exit code is 1.

    Parameters
    ----------
    scenario
        A scenario file (TOML), or the name of a bundled scenario.
    output
        The tape to write; it must not exist. By default a new name in recordings/.
    ticks
        Number of ticks to run; by default that of the scenario.
    seed
        Replaces the scenario's seed.
    quiet
        Print nothing but errors and, without -o, the name of the tape.
    """
    silence_notices(when=quiet)
    _ensure_besides(upload, keep, live=live)
    loaded = _fitting(_with_simulation(load_scenario(scenario, seed=seed), sim), cluster, shards, start, blame)
    until = goal_of(ticks) if ticks is not None else ticks_of(loaded)
    players = _players(loaded, player, start, until, inputs)
    make_inputs = partial(_input_source, loaded, players, inputs, sim)
    source, notes = make_inputs(), notes_of(until, players, inputs, shards)
    mode = _mode_of(mode, loaded, until, make_inputs, changes, quiet=quiet)
    options: OptionArguments = {"keyframe_interval_ticks": keyframe_interval, "full_every": full_every, "sync": sync}
    options |= {"durability": durability, "on_error": on_error, "keep": keep, "split": split, "blame": blame}
    options |= {"seek_budget_ms": seek_budget, "deterministic": deterministic, "changes": changes, "events": events}
    options |= {"mode": mode, "hashes": hashes, "notes": notes, "writes": writes}
    with processes_beside(loaded, shards, cluster, until, output, notes, quiet=quiet) as run_of:
        recorder = _start(output, run_of.scenario, options, start, until, run_of.first_tick)
        _announce(loaded, until, recorder, start, quiet=quiet, is_named=output is not None)
        return _record(recorder, run_of, players, source, until, notes, sim, realtime, upload, live=live, quiet=quiet)


def _record(
    recorder: Recorder,
    run_of: RunInProcesses,
    players: dict[str, str],
    input_source: InputSource,
    tick_count: int,
    notes: dict[str, Any],
    sim: str | None,
    realtime: float | None,
    upload: TapeUrl | None,
    *,
    live: bool,
    quiet: bool,
) -> int:
    """Record up to the last tick, beside a page and an upload if they are wanted; return the exit code."""
    violations, path = ViolationWatch(notes), Path(recorder.path)
    beside = page_beside(path, sim, wanted=live), upload_beside(path, upload, quiet=quiet)
    with lost_shards_in_one_line(), beside[0] as page, beside[1]:
        code = run_watched(
            recorder,
            input_source,
            tick_count,
            violations,
            run_of.checkpoints,
            quiet=quiet,
            ticks_a_second=realtime,
        )
        code = code or report_violations(violations, path, run_of.scenario, players, input_source, quiet=quiet)
        page.stay(code)
    return code


def _ensure_besides(upload: TapeUrl | None, keep: object, *, live: bool) -> None:
    """Report what cannot run beside the recording before it begins."""
    if live:
        ensure_page_packages()
    ensure_upload(upload, keep)


def _mode_of(
    mode: Mode | Literal["auto"],
    loaded: Scenario,
    ticks: int,
    make_inputs: Callable[[], InputSource],
    changes: ChangeTracking,
    *,
    quiet: bool,
) -> Mode:
    """Choose the mode that suits a scenario, and print it; another mode than auto is the user's choice."""
    if mode != "auto":
        return mode
    choice = choose_mode(lambda: loaded.make(ticks), make_inputs().inputs, changes)
    if not quiet:
        say(f"mode {choice.mode}: {choice.why}")
    return choice.mode


def _players(
    loaded: Scenario, arguments: list[str] | None, start: Path | None, last_tick: int, inputs: Path | None
) -> dict[str, str]:
    """Return the policies by player; those of the run that wrote the checkpoint, if there is one.

    Raises UsageError, and as players_from does.
    """
    players = read_players(arguments or [])
    if start is None:
        return players
    if loaded.provocation is None and loaded.world is FOREIGN:
        raise UsageError(
            f"--from {start}: only a registered world, or a simulation with a scenario, can continue from it"
        )
    try:
        return players_from(start, last_tick, players, inputs)
    except ValueError as error:
        raise UsageError(str(error)) from None


def _input_source(loaded: Scenario, players: dict[str, str], inputs: Path | None, sim: str | None) -> InputSource:
    by_role = loaded.provocation is not None
    return input_source_of(loaded.world, loaded.config, players=players, file=inputs, by_role=by_role, sim=sim)


def _with_simulation(loaded: Scenario, sim: str | None) -> Scenario:
    """Put the scenario around the simulation that --sim names, if it does. Raises UsageError."""
    if sim is None:
        return loaded
    if loaded.world is not FOREIGN:
        raise UsageError(f"--sim {sim}: the scenario {loaded.name} names the world {loaded.world.name}")
    return attrs.evolve(loaded, world=attrs.evolve(FOREIGN, make=lambda _: simulation_of(sim)))


def _fitting(
    loaded: Scenario, cluster: WorkerOptions | None, shards: int | None, start: Path | None, blame: str
) -> Scenario:
    """Return the scenario. Raises UsageError if the options of workers do not fit to it."""
    (cluster or WorkerOptions()).ensure_fit(loaded, shards, start, blame)
    return loaded


def _announce(
    loaded: Scenario, ticks: int, recorder: Recorder, start: Path | None, *, quiet: bool, is_named: bool
) -> None:
    if not quiet:
        world = f"world {loaded.world.name}" if loaded.world.name else "your simulation"
        seed = (loaded.config if loaded.world.name else loaded.provocation or {}).get("seed", 0)
        say(f"recording {loaded.name} ({world}, seed {seed}), {counted(ticks, 'tick')} → {recorder.path}")
        if start is not None:
            players = recorder.meta["notes"].get("players")
            say(f"from {start}" + (f", with {options_of(players)}" if players else ""))
    elif not is_named:
        say(str(recorder.path))  # The user has no other way to know it.


def _start(
    output: Path | None, loaded: Scenario, arguments: OptionArguments, start: Path | None, ticks: int, first: int
) -> Recorder:
    """Start the recorder of a scenario. Raises UsageError, ConfigError, OSError; nothing is written then.

    start: a checkpoint to continue from. ticks: the last tick. first: the tick at which workers begin, else 0.
    """
    simulation = loaded.make(ticks)
    path = output if output is not None else _new_path(loaded.name)
    for taken in (path, shards_folder(path)):
        if taken.exists():
            raise UsageError(f"{taken} already exists: choose a different name with -o")
    try:
        options = RecordingOptions(**arguments)
        if start is not None:
            resume_checkpoint(start, simulation)
        if output is None:
            make_folder(path.parent)
        if first:
            notes = {**(options.notes or {}), "checkpoint": first}
            return Recorder.beginning_at(path, simulation, first, attrs.evolve(options, notes=notes))
        return begin_tape(path, simulation, start, options)
    except ValueError as error:
        raise UsageError(str(error)) from None


def _new_path(name: str) -> Path:
    """Return the first recordings/NAME-N.tape that is free, and has no tapes of shards of an earlier tape."""
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip(".-") or "recording"  # A name may hold slashes and spaces.
    number = 1
    while True:
        path = Path(RECORDINGS_FOLDER) / f"{plain}-{number}.tape"
        if not path.exists() and not shards_folder(path).exists():
            return path
        number += 1
