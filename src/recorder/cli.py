"""The command ``record``: run a scenario and keep what happens."""

from __future__ import annotations

import itertools
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

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
from recorder.courses import Course, course_of, course_without_inputs, read_players
from recorder.errors import RecordingError
from recorder.factories import load_factory, sim_option
from recorder.format.assembly import Assembled
from recorder.format.recording import Recording
from recorder.reading import OpenTape
from recorder.recorder import FULL_EVERY, KEYFRAME_INTERVAL_TICKS, Recorder
from recorder.resumable import ensure_first_file
from recorder.resume import resume as resume_tape
from recorder.scenarios.running import raced_inputs
from recorder.scenarios.violations import Violations
from recorder.settings import TICKS_MAX, make_settings
from sim.kernel.registry import ConfigError, find_world
from sim.scenario.load import Scenario, load_scenario, shipped_scenarios

RECORDINGS_FOLDER = "recordings"
LOOKED_AT_TICKS = 100  # So many of the last inputs say whether a simulation is fed with any.

app = App(
    name="record",
    help="Record a simulation: inputs and a state hash for every tick, keyframes now and then.\n\n"
    "Try:\n"
    "  record scenarios                 list the scenarios that ship\n"
    "  record run quiet-meadow          record one of them into recordings/\n"
    "  record run my.toml -o my.tape --ticks 10000 --seed 3\n"
    "  record resume my.tape            go on after a crash, in the same tape\n"
    "  record batch arms-race --seeds 0..63 -o runs\n"
    "  record sweep my.toml --axis seed=0..9 --axis scenario.network.loss=0,0.1 -o lossy",
    help_format="plaintext",
    version=version,
    suppress_keyboard_interrupt=False,
)


Quiet = Annotated[bool, Parameter(name=["--quiet", "-q"], negative="")]
Durability = Annotated[
    Literal["tick", "block", "none"],
    Parameter(
        help="What a killed process may cost: tick (nothing), block (up to a second), none (whatever was not written)."
    ),
]
Sync = Annotated[
    str | None,
    Parameter(
        help="When to force data to the disk: a time such as 1s, 200ms or 5m, up to a day; block, after each block; "
        "or never. 1s by default."
    ),
]
Keep = Annotated[
    str | None,
    Parameter(
        help="Keep only the last so many ticks, or a time such as 500ms, 60s, 5m or 1h: a flight recorder's loop."
    ),
]
Split = Annotated[
    str | None,
    Parameter(
        help="Begin a new file, at the next keyframe, after so many bytes, such as 500MB: TAPE, TAPE.1, TAPE.2, read "
        "as one. Units: kB, MB, GB, TB (1000) and KiB, MiB, GiB, TiB (1024), in upper or lower case. Each file costs a "
        "full keyframe, so that small ones cost most."
    ),
]
Deterministic = Annotated[
    bool,
    Parameter(
        negative="",
        help="Equal runs give equal bytes: no clock and no environment on the tape. It costs waiting for a slow disk; "
        "and as frames go to the file only when their block (16 KiB) is full, or at a keyframe, a power cut, and a kill "
        "with --durability block, lose more than they would else.",
    ),
]
Inputs = Annotated[
    Path | None,
    Parameter(
        name="--inputs",
        help='A file of further inputs, a line of JSON for each tick that has some: {"tick": 5, "inputs": [...]}.',
    ),
]
Sim = Annotated[
    str | None,
    Parameter(
        name="--sim",
        help="module:factory of the simulation, for a tape that names no registered world. It must need no inputs: "
        "one that is fed by a program of yours goes on in that, by recorder.resume(path, simulation).",
    ),
]


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
    changes: Literal["auto", "marks", "scan", "audit"] = "auto",
    durability: Durability = "tick",
    sync: Sync = None,
    on_error: Literal["continue", "raise"] = "continue",
    keep: Keep = None,
    split: Split = None,
    deterministic: Deterministic = False,
    blame: Literal["auto", "fields", "phases", "none"] = "auto",
    player: Annotated[list[str] | None, Parameter(name="--player", negative="")] = None,
    inputs: Inputs = None,
    realtime: Annotated[float | None, Parameter(validator=Number(gt=0))] = None,
    quiet: Quiet = False,
) -> int:
    """Run a scenario and record it.

    Examples:
    record run quiet-meadow -o meadow.tape --ticks 2000
    record run arms-race --player caterpillar=greedy --player beetle=random

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
    changes
        How deltas know what changed: marks, scan, or audit (both, failing where they disagree).
    on_error
        When the disk refuses: continue (in memory, trying again, noting what is lost) or raise.
    blame
        What frames say for the case that a replay parts from them: 16 bits of each field's hash, and of the state after
        each phase; auto is fields, up to 1 MiB of state.
    player
        PLAYER=POLICY: let a policy (idle, random, greedy) play one of the scenario's players; may be repeated.
    realtime
        Ticks a second; without it as many as go.
    quiet
        Print nothing but errors and, without -o, the name of the tape.
    """
    loaded = load_scenario(scenario, seed=seed)
    tick_count = _goal(ticks) if ticks is not None else _ticks_of(loaded)
    settings: dict[str, Any] = {"keyframe_interval_ticks": keyframe_interval, "full_every": full_every, "sync": sync}
    settings |= {"durability": durability, "on_error": on_error, "keep": keep, "split": split}
    settings |= {"deterministic": deterministic, "blame": blame}
    players = read_players(player or [])
    by_role = loaded.provocation is not None
    course = course_of(loaded.world, loaded.config, players=players, file=inputs, by_role=by_role)
    recorder = _start(output, loaded, settings, changes=changes, notes=_notes(tick_count, players, inputs))
    _say_what(loaded, tick_count, recorder, quiet=quiet, is_named=output is not None)
    found = Violations()
    with raced_inputs(recorder.simulation, course.inputs) as fed:
        fed_course = attrs.evolve(course, inputs=fed)
        code = run_and_report(recorder, fed_course, tick_count, quiet=quiet, ticks_a_second=realtime, watch=found.watch)
    return code or found.leave_behind(Path(recorder.path), loaded, players, inputs, quiet=quiet)


def _say_what(loaded: Scenario, ticks: int, recorder: Recorder, *, quiet: bool, is_named: bool) -> None:
    if not quiet:
        what = f"{loaded.name} (world {loaded.world.name}, seed {loaded.config.get('seed', 0)})"
        say(f"recording {what}, {counted(ticks, 'tick')} → {recorder.path}")
    elif not is_named:
        say(str(recorder.path))  # Nobody could know it otherwise.


def _notes(ticks: int, players: dict[str, str], inputs: Path | None) -> dict[str, Any]:
    """What a resume has to know of how the run was started."""
    notes: dict[str, Any] = {"ticks": ticks}
    return notes | ({"players": players} if players else {}) | ({"inputs": str(inputs)} if inputs is not None else {})


def _start(output: Path | None, loaded: Scenario, settings: dict[str, Any], **more: Any) -> Recorder:
    """A recorder of a scenario; nothing is written if something cannot be. Raises UsageError, ConfigError, OSError."""
    simulation = loaded.make()
    path = output if output is not None else _new_path(loaded.name)
    if path.exists():
        raise UsageError(f"{path} exists already: choose another name with -o")
    try:
        make_settings(**settings)
        if output is None:
            path.parent.mkdir(exist_ok=True)
        return Recorder(path, simulation, **settings, **more)
    except ValueError as error:
        raise UsageError(str(error)) from None


def _ticks_of(loaded: Scenario) -> int:
    """How far a scenario is to be run. Raises ConfigError."""
    ticks = loaded.ticks
    if ticks == 0 and (loaded.provocation or {}).get("steps") == 1:
        raise ConfigError("scenario.steps", "at least 2 was expected, a sample at tick 0 and one behind it; found 1")
    if not isinstance(ticks, int) or not 0 < ticks <= TICKS_MAX:
        raise ConfigError("ticks", f"a whole number of at least 1 was expected, found {ticks!r}")
    return ticks


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
    plan = _plan(tape, ticks, sim, inputs)
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
    found_violations = Violations()
    with raced_inputs(recorder.simulation, plan.course.inputs) as fed:
        course = attrs.evolve(plan.course, inputs=fed)
        code = run_and_report(recorder, course, plan.last_tick, quiet=quiet, watch=found_violations.watch)
    found_violations.say()
    return code or found_violations.exit_code


@attrs.frozen
class _Plan:
    """How a recording goes on.

    Attributes:
        course: what it is fed with.
        last_tick: up to which it is to be recorded; where it is already if it only has to be sealed.
    """

    course: Course
    last_tick: int


def _plan(tape: Path, ticks: int | None, sim: str | None, inputs: Path | None) -> _Plan:
    """How a tape can be gone on with. Raises UsageError, RecordingError, OSError; nothing is written then."""
    with OpenTape(tape) as opened:
        assembled = opened.assemble()
        ensure_first_file(tape, assembled)
        last_tick = _last_tick(tape, assembled, ticks)
        match assembled.meta.get("world"):
            case {"name": str(name), "config": dict(config)}:
                players = _players_noted(tape, assembled, inputs)
                provoked = bool(assembled.meta.get("scenario"))
                world = find_world(name)
                course = course_of(world, config, sim=sim, players=players, file=inputs, by_role=provoked)
            case _ if sim is not None:
                if last_tick > assembled.recording.last_tick:
                    _ensure_no_inputs(tape, assembled.recording)
                course = course_without_inputs(sim)
            case _:
                raise UsageError(
                    f"{tape} names no registered world: "
                    f"name its simulation by {sim_option(assembled.meta.get('simulation'))}, "
                    f"or go on in Python, recorder.resume({str(tape)!r}, simulation)"
                )
    return _Plan(course, last_tick)


def _players_noted(tape: Path, assembled: Assembled, inputs: Path | None) -> dict[str, str]:
    """Who played when the tape was recorded. Raises UsageError if it had inputs of a file that is not named now."""
    notes = assembled.meta.get("notes")
    if isinstance(notes, dict) and isinstance(notes.get("inputs"), str) and inputs is None:
        raise UsageError(f"{tape}: some of its inputs came from {notes['inputs']}: name that file with --inputs")
    match notes:
        case {"players": dict(players)} if all(isinstance(policy, str) for policy in players.values()):
            return players
    return {}


def _last_tick(tape: Path, assembled: Assembled, ticks: int | None) -> int:
    """Up to which tick a tape is to be recorded. Raises UsageError if there is nothing to be done."""
    here, planned = assembled.recording.last_tick, None
    match assembled.meta.get("notes"):
        case {"ticks": int(noted)} if noted <= TICKS_MAX:
            planned = noted
    wanted = _goal(ticks) if ticks is not None else planned
    if ticks is not None and ticks < here:
        raise UsageError(f"--ticks {ticks:,} lies before tick {here:,}, where {tape} is")
    if wanted is None or wanted < here or (wanted == here and assembled.final):
        raise UsageError(f"{tape} is at tick {here:,} already: say how far to go with --ticks")
    return wanted


def _ensure_no_inputs(tape: Path, recording: Recording) -> None:
    """Refuse to go on without inputs where there were some. Raises UsageError."""
    last_tick = recording.last_tick
    try:
        frames = [recording.frame(tick) for tick in range(max(1, last_tick - LOOKED_AT_TICKS + 1), last_tick + 1)]
    except RecordingError:
        return  # What is damaged, or was dropped, is for resume to judge.
    if any(frame.inputs is not None for frame in frames):
        raise UsageError(
            f"{tape}: its inputs came from a program of yours: go on there, recorder.resume({str(tape)!r}, simulation)"
        )


def _make(sim: str) -> Any:
    """The simulation that --sim names. Raises UsageError, TypeError if it needs arguments."""
    try:
        factory = load_factory(sim)
    except ValueError as error:
        raise UsageError(f"--sim {error}") from None
    return factory()


def _goal(ticks: int) -> int:
    if ticks > TICKS_MAX:
        raise UsageError(f"--ticks {ticks:,}: {TICKS_MAX:,} are the most")
    return ticks


def _new_path(name: str) -> Path:
    """The first free recordings/NAME-N.tape."""
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip(".-") or "recording"  # A name may hold slashes and spaces.
    number = 1
    while (path := Path(RECORDINGS_FOLDER) / f"{plain}-{number}.tape").exists():
        number += 1
    return path


app.command(batch)
app.command(sweep)


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
