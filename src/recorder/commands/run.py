"""The command ``record run``: run a scenario and keep what happens."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import attrs
from cyclopts import Parameter
from cyclopts.validators import Number

from recorder.commands.options import (
    BlameOption,
    Changes,
    Deterministic,
    Durability,
    Events,
    From,
    HashesOption,
    Inputs,
    Keep,
    OnErrorOption,
    Quiet,
    RunMode,
    SeekBudgetOption,
    Sim,
    Split,
    Sync,
)
from recorder.commands.resume_plan import goal_of
from recorder.commands.run_common import notes_of, run_watched, simulation_of
from recorder.commands.violation_report import report_violations
from recorder.console.argument_types import NotNegative, Positive
from recorder.console.output import say
from recorder.exit_codes import UsageError
from recorder.recording_options import FULL_EVERY, KEYFRAME_INTERVAL_TICKS, OptionArguments, RecordingOptions
from recorder.runs.input_source import InputSource, input_source_of, read_players
from recorder.runs.mode_probe import choose_mode
from recorder.scenarios.batch import ticks_of
from recorder.scenarios.checkpoints import resume_checkpoint
from recorder.scenarios.start import begin_tape, options_of, players_from
from recorder.scenarios.violation_watch import ViolationWatch
from recorder.session.recorder import Recorder
from recorder.settings import ChangeTracking, Mode
from recorder.text import counted
from sim.scenario.scenario_file import FOREIGN, Scenario, load_scenario

RECORDINGS_FOLDER = "recordings"


def run(
    scenario: str,
    /,
    *,
    output: Annotated[Path | None, Parameter(name=["--output", "-o"])] = None,
    ticks: Positive | None = None,
    seed: NotNegative | None = None,
    keyframe_interval: Positive = KEYFRAME_INTERVAL_TICKS,
    full_every: Positive = FULL_EVERY,
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
    player: Annotated[list[str] | None, Parameter(name="--player", negative="")] = None,
    inputs: Inputs = None,
    events: Events = None,
    sim: Sim = None,
    start: From = None,
    realtime: Annotated[float | None, Parameter(validator=Number(gt=0))] = None,
    quiet: Quiet = False,
) -> int:
    """Run a scenario and record it.

    Examples:
    record run quiet-meadow -o meadow.tape --ticks 2000
    record run arms-race --player caterpillar=greedy --player beetle=random
    record run provoked.toml --sim walkers:Walkers
    record run ambush.toml --from artifacts/ambush/checkpoint_300.tape -o rest.tape

    The run ends with the scenario's last tick, or before, where the scenario's [termination] says so. If a property of
    its [scenario] is violated, a smaller scenario that violates it is left beside the tape; the exit code is 1.

    Parameters
    ----------
    scenario
        A scenario file (TOML), or the name of one that ships.
    output
        The tape to write; it must not exist. By default a new name in recordings/.
    ticks
        How many ticks to run; by default what the scenario says.
    seed
        Replaces the scenario's seed.
    keyframe_interval
        Ticks from one keyframe to the next: how far a seek re-simulates at most.
    full_every
        One keyframe in so many is full, the others are deltas.
    player
        PLAYER=POLICY: let a policy (idle, random, greedy) play one of the scenario's players; may be repeated.
    realtime
        Ticks a second; without it as many as go.
    quiet
        Print nothing but errors and, without -o, the name of the tape.
    """
    loaded = _with_simulation(load_scenario(scenario, seed=seed), sim)
    tick_count = goal_of(ticks) if ticks is not None else ticks_of(loaded)
    players = _players(loaded, player, start, tick_count, inputs)
    input_source, notes = _input_source(loaded, players, inputs, sim), notes_of(tick_count, players, inputs)
    if mode == "auto":
        mode = _chosen_mode(loaded, _input_source(loaded, players, inputs, sim), changes, quiet=quiet)
    options: OptionArguments = {"keyframe_interval_ticks": keyframe_interval, "full_every": full_every, "sync": sync}
    options |= {"durability": durability, "on_error": on_error, "keep": keep, "split": split, "blame": blame}
    options |= {"seek_budget_ms": seek_budget, "deterministic": deterministic, "changes": changes, "events": events}
    options |= {"mode": mode, "hashes": hashes, "notes": notes}
    recorder = _start(output, loaded, options, start)
    _say_what(loaded, tick_count, recorder, start, quiet=quiet, is_named=output is not None)
    found = ViolationWatch(notes)
    code = run_watched(recorder, input_source, tick_count, found, quiet=quiet, ticks_a_second=realtime)
    return code or report_violations(found, Path(recorder.path), loaded, players, input_source, quiet=quiet)


def _chosen_mode(loaded: Scenario, input_source: InputSource, changes: ChangeTracking, *, quiet: bool) -> Mode:
    """What suits a scenario, which is said."""
    choice = choose_mode(loaded.make, input_source.inputs, changes)
    if not quiet:
        say(f"mode {choice.mode}: {choice.why}")
    return choice.mode


def _players(
    loaded: Scenario, given: list[str] | None, start: Path | None, last_tick: int, inputs: Path | None
) -> dict[str, str]:
    """Who plays; from a checkpoint on, who did before. Raises UsageError, and as players_from does."""
    players = read_players(given or [])
    if start is None:
        return players
    if loaded.provocation is None:
        raise UsageError(f"--from {start}: a simulation without a scenario around it has no checkpoints")
    try:
        return players_from(start, last_tick, players, inputs)
    except ValueError as error:
        raise UsageError(str(error)) from None


def _input_source(loaded: Scenario, players: dict[str, str], inputs: Path | None, sim: str | None) -> InputSource:
    by_role = loaded.provocation is not None
    return input_source_of(loaded.world, loaded.config, players=players, file=inputs, by_role=by_role, sim=sim)


def _with_simulation(loaded: Scenario, sim: str | None) -> Scenario:
    """The scenario around a simulation of the user's, if one is named. Raises UsageError."""
    if sim is None:
        return loaded
    if loaded.world is not FOREIGN:
        raise UsageError(f"--sim {sim}: the scenario {loaded.name} names the world {loaded.world.name}")
    return attrs.evolve(loaded, world=attrs.evolve(FOREIGN, make=lambda _: simulation_of(sim)))


def _say_what(
    loaded: Scenario, ticks: int, recorder: Recorder, start: Path | None, *, quiet: bool, is_named: bool
) -> None:
    if not quiet:
        world = f"world {loaded.world.name}" if loaded.world.name else "a simulation of yours"
        seed = (loaded.config if loaded.world.name else loaded.provocation or {}).get("seed", 0)
        what = f"{loaded.name} ({world}, seed {seed})"
        say(f"recording {what}, {counted(ticks, 'tick')} → {recorder.path}")
        if start is not None:
            players = recorder.meta["notes"].get("players")
            say(f"from {start}" + (f", with {options_of(players)}" if players else ""))
    elif not is_named:
        say(str(recorder.path))  # Nobody could know it otherwise.


def _start(output: Path | None, loaded: Scenario, arguments: OptionArguments, start: Path | None) -> Recorder:
    """A recorder of a scenario; nothing is written if something cannot be. Raises UsageError, ConfigError, OSError.

    start: a checkpoint to go on from.
    """
    simulation = loaded.make()
    path = output if output is not None else _new_path(loaded.name)
    if path.exists():
        raise UsageError(f"{path} exists already: choose another name with -o")
    try:
        options = RecordingOptions(**arguments)
        if start is not None:
            resume_checkpoint(start, simulation)
        if output is None:
            path.parent.mkdir(exist_ok=True)
        return begin_tape(path, simulation, start, options)
    except ValueError as error:
        raise UsageError(str(error)) from None


def _new_path(name: str) -> Path:
    """The first free recordings/NAME-N.tape."""
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip(".-") or "recording"  # A name may hold slashes and spaces.
    number = 1
    while (path := Path(RECORDINGS_FOLDER) / f"{plain}-{number}.tape").exists():
        number += 1
    return path
