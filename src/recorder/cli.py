"""The command ``record``: run a scenario and keep what happens."""

from __future__ import annotations

import itertools
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import attrs
from cyclopts import App, Parameter
from cyclopts.validators import Number

from recorder.attended import run_and_report
from recorder.batch_commands import batch, sweep
from recorder.console import (
    NotNegative,
    Positive,
    UsageError,
    counted,
    progress_bar,
    run_app,
    say,
    shown_path,
    version,
)
from recorder.courses import Course, course_of, read_players
from recorder.factories import load_factory
from recorder.generate_command import generate
from recorder.going_on import goal_of, plan_for
from recorder.options import (
    BlameOption,
    Changes,
    Deterministic,
    Durability,
    Events,
    From,
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
from recorder.recorder import FULL_EVERY, KEYFRAME_INTERVAL_TICKS, Recorder
from recorder.rehearsal import choose_mode
from recorder.resume import resume as resume_tape
from recorder.scenarios.batch import ticks_of
from recorder.scenarios.checkpoints import resume_checkpoint
from recorder.scenarios.running import raced_inputs
from recorder.scenarios.starting import NO_SETTINGS, begin_tape, options_of, players_from
from recorder.scenarios.violations import Violations
from recorder.settings import Mode, make_settings
from recorder.tracking import ChangeTracking
from sim.kernel.registry import find_world
from sim.scenario.load import FOREIGN, Scenario, load_scenario, shipped_scenarios

RECORDINGS_FOLDER = "recordings"

app = App(
    name="record",
    help="Record a simulation: inputs and a state hash for every tick, keyframes now and then.\n\n"
    "Try:\n"
    "  record scenarios                 list the scenarios that ship\n"
    "  record run quiet-meadow          record one of them into recordings/\n"
    "  record run my.toml -o my.tape --ticks 10000 --seed 3\n"
    "  record resume my.tape            go on after a crash, in the same tape\n"
    "  record batch arms-race --seeds 0..63 -o runs\n"
    "  record sweep my.toml --axis seed=0..9 --axis scenario.network.loss=0,0.1 -o lossy\n"
    "  record generate arms-race --seeds 0..63 --player caterpillar=greedy,random -o runs",
    help_format="plaintext",
    version=version,
    suppress_keyboard_interrupt=False,
)


@app.command
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
    settings: dict[str, Any] = {"keyframe_interval_ticks": keyframe_interval, "full_every": full_every, "sync": sync}
    settings["seek_budget_ms"] = seek_budget
    settings |= {"durability": durability, "on_error": on_error, "keep": keep, "split": split, "blame": blame}
    players = _players(loaded, player, start, tick_count, inputs)
    course, notes = _course(loaded, players, inputs, sim), _notes(tick_count, players, inputs)
    settings |= {"deterministic": deterministic, "changes": changes, "events": events}
    if mode == "auto":
        mode = _chosen_mode(loaded, _course(loaded, players, inputs, sim), changes, quiet=quiet)
    settings["mode"] = mode
    recorder = _start(output, loaded, settings | {"notes": notes}, start)
    _say_what(loaded, tick_count, recorder, start, quiet=quiet, is_named=output is not None)
    found = Violations(notes)
    code = _attend(recorder, course, tick_count, found, quiet=quiet, ticks_a_second=realtime)
    return code or found.leave_behind(Path(recorder.path), loaded, players, course, quiet=quiet)


def _chosen_mode(loaded: Scenario, course: Course, changes: ChangeTracking, *, quiet: bool) -> Mode:
    """What suits a scenario, which is said."""
    choice = choose_mode(loaded.make, course.inputs, changes)
    if not quiet:
        say(f"mode {choice.mode}: {choice.why}")
    return choice.mode


def _attend(recorder: Recorder, course: Course, last_tick: int, found: Violations, **how: Any) -> int:
    """Run up to last_tick, watched for violations; the exit code."""
    found.begin(recorder.simulation, recorder.tick)
    with raced_inputs(recorder.simulation, course.inputs) as fed:
        return run_and_report(recorder, attrs.evolve(course, inputs=fed), last_tick, watch=found.watch, **how)


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


def _course(loaded: Scenario, players: dict[str, str], inputs: Path | None, sim: str | None) -> Course:
    by_role = loaded.provocation is not None
    return course_of(loaded.world, loaded.config, players=players, file=inputs, by_role=by_role, sim=sim)


def _with_simulation(loaded: Scenario, sim: str | None) -> Scenario:
    """The scenario around a simulation of the user's, if one is named. Raises UsageError."""
    if sim is None:
        return loaded
    if loaded.world is not FOREIGN:
        raise UsageError(f"--sim {sim}: the scenario {loaded.name} names the world {loaded.world.name}")
    return attrs.evolve(loaded, world=attrs.evolve(FOREIGN, make=lambda _: _make(sim)))


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


def _notes(ticks: int, players: dict[str, str], inputs: Path | None) -> dict[str, Any]:
    """What a resume has to know of how the run was started."""
    notes: dict[str, Any] = {"ticks": ticks}
    return notes | ({"players": players} if players else {}) | ({"inputs": str(inputs)} if inputs is not None else {})


def _start(output: Path | None, loaded: Scenario, settings: dict[str, Any], start: Path | None) -> Recorder:
    """A recorder of a scenario; nothing is written if something cannot be. Raises UsageError, ConfigError, OSError.

    start: a checkpoint to go on from.
    """
    simulation = loaded.make()
    path = output if output is not None else _new_path(loaded.name)
    if path.exists():
        raise UsageError(f"{path} exists already: choose another name with -o")
    try:
        make_settings(**{key: value for key, value in settings.items() if key not in NO_SETTINGS})
        if start is not None:
            resume_checkpoint(start, simulation)
        if output is None:
            path.parent.mkdir(exist_ok=True)
        return begin_tape(path, simulation, start, settings)
    except ValueError as error:
        raise UsageError(str(error)) from None


@app.command
def resume(
    tape: Path,
    /,
    *,
    ticks: Positive | None = None,
    sim: Sim = None,
    inputs: Inputs = None,
    quiet: Quiet = False,
) -> int:
    """Go on with a recording that was ended by a crash, a kill, a power cut, or by its last tick.

    Example: record resume meadow.tape

    The world is put into the state of the last recorded tick, proved by its hash, and the run goes on in the same
    tape as if nothing had happened. Half-written bytes at the end are kept in a file beside the tape. A recording
    that has reached its last tick, and was not sealed, is sealed.

    Parameters
    ----------
    tape
        The tape, by the name of its first file.
    ticks
        The tick to go on to; by default the one that the recording was meant to reach.
    quiet
        Print nothing but errors.
    """
    plan = plan_for(tape, ticks, sim, inputs)
    with progress_bar("restoring", 1, quiet=quiet) as show:
        try:
            simulation = _make(sim) if sim is not None else None
            recorder = resume_tape(tape, simulation, progress=lambda done, total: show(done / total))
        except TypeError as error:  # The simulation at hand is not the one that was recorded.
            raise UsageError(f"{tape}: {error}") from None
    found = recorder.resumed
    if not quiet and found is not None:
        say(
            f"{tape}: at tick {found.tick:,}, restored from the keyframe at tick {found.keyframe_tick:,}"
            + (f", {counted(found.journal_ticks, 'tick')} from the journal" if found.journal_ticks else "")
            + (f", half-written bytes kept in {shown_path(found.torn_file)}" if found.torn_file else "")
        )
    violations = Violations(_notes(plan.last_tick, plan.players, inputs))
    code = _attend(recorder, plan.course, plan.last_tick, violations, quiet=quiet)
    if code:
        violations.say()
        return code
    return violations.leave_behind(tape, _recorded(recorder, sim), plan.players, plan.course, quiet=quiet)


def _recorded(recorder: Recorder, sim: str | None) -> Scenario:
    """The scenario that a tape is of, as a file would have given it."""
    provocation = recorder.meta.get("scenario")
    name = str((provocation or {}).get("name", "scenario"))
    match recorder.meta.get("world"):
        case {"name": str(world), "config": dict(config)}:
            return Scenario(name, find_world(world), config, provocation)
    return Scenario(name, attrs.evolve(FOREIGN, make=lambda _: _make(str(sim))), {}, provocation)


def _make(sim: str) -> Any:
    """The simulation that --sim names. Raises UsageError, TypeError if it needs arguments."""
    try:
        factory = load_factory(sim)
    except ValueError as error:
        raise UsageError(f"--sim {error}") from None
    return factory()


def _new_path(name: str) -> Path:
    """The first free recordings/NAME-N.tape."""
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip(".-") or "recording"  # A name may hold slashes and spaces.
    number = 1
    while (path := Path(RECORDINGS_FOLDER) / f"{plain}-{number}.tape").exists():
        number += 1
    return path


app.command(batch)
app.command(sweep)
app.command(generate)


@app.command
def scenarios() -> None:
    """List the scenarios that ship, with what their first comment says.

    Example: record scenarios
    """
    for name, file in shipped_scenarios().items():
        comment = itertools.takewhile(lambda line: line.startswith("#"), file.read_text(encoding="utf-8").splitlines())
        print(f"{name}: {' '.join(line.lstrip('# ') for line in comment)}")


def main(arguments: Sequence[str] | None = None) -> None:
    """The console script ``record``."""
    sys.exit(run_app(app, arguments, unnamed="standard output"))
