"""The command ``replay branch``: continue from any tick of a tape with other inputs, other parameters or other code."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Annotated, Any

import attrs
from cyclopts import Parameter

from recorder.console.argument_types import LocalPath, Positive, Whole
from recorder.console.output import print_json
from recorder.console.progress import progress_bar
from recorder.errors import RecordingError
from recorder.exit_codes import SAME, UsageError
from recorder.location.tape_location import Location
from recorder.location.tape_url import TapeUrl
from recorder.runs.input_source import read_plain_inputs
from recorder.storage.os_errors import reading, writing
from recorder.visible_text import print_visible
from replayer.commands.arguments import factory_of, note_losses, ready_tape
from replayer.commands.new_tape import fitting
from replayer.commands.options import Json, Sim, TapePath
from replayer.playback.make_simulation import Factory, make_stepping
from replayer.reshape.branch_tape import BranchedInputs, BranchReport, branch_tape
from replayer.tape.tape import Tape
from replayer.value_text import tick_range
from sim.kernel.registry import ConfigError, UnknownWorldError


def branch(
    tape: TapePath,
    /,
    *,
    at: Annotated[Whole, Parameter(alias="--tick")],
    output: Annotated[LocalPath, Parameter(name=["--output", "-o"])],
    inputs: LocalPath | None = None,
    override: LocalPath | None = None,
    until: Positive | None = None,
    parameters: Annotated[list[str] | None, Parameter(name="--set", negative="")] = None,
    standalone: Annotated[bool, Parameter(name="--standalone", negative="")] = False,
    as_json: Json = False,
    sim: Sim = None,
    parent_sim: Annotated[str | None, Parameter(name="--parent-sim")] = None,
) -> int:
    """Continue from a tick of a tape in another way: with other inputs, other parameters or other code.

    Examples:
    replay branch run.tape --at 400 --override drought.jsonl -o dry.tape
    replay branch run.tape --at 400 --inputs other.jsonl --until 600 -o other.tape --sim game:Game
    replay branch run.tape --at 400 -o hard.tape --sim game:HardGame --parent-sim game:Game

    Without --inputs and --override the branch gets the inputs that its parent had. It
    counts on from the parent's ticks and begins with the state of tick --at. Seeks to
    ticks before that go to the parent's tape, which stays as it is. Any tick that can
    be reached can be left, also of a tape that is damaged or not sealed.

    Exit code: 0 written, 2 no such tick, inputs that do not fit, a step that raises,
    or the name exists, 4 the tape is damaged there. Nothing is written then.

    Parameters
    ----------
    tape
        The tape to leave.
    at
        The last common tick. Negative ticks count from the end.
    output
        The new tape, which must not exist yet.
    inputs
        All inputs of the branch, one line of JSON for each tick with inputs: {"tick": 401, "inputs": [...]}.
        An empty file means no inputs.
    override
        Inputs of this form that replace those of the parent at their ticks.
    until
        The last tick; by default the parent's.
    parameters
        KEY=VALUE: a parameter of a registered world, such as --set species.grass.growth=3. May be repeated.
    standalone
        Copy the ticks up to --at, so that the branch needs no other file.
    as_json
        Print one JSON object.
    sim
        module:factory of the simulation of the branch, if it is not a registered world, or for other code.
    parent_sim
        module:factory of the simulation that was recorded, if it is another one.
    """
    given = _given(inputs, override, tape)
    config = _config_of(parameters or [])
    with ready_tape(tape) as opened:
        note_losses(opened)
        parent_world = _parent_world(opened, sim, parent_sim)
    ways: dict[str, Any] = {"parent_world": parent_world, "world": factory_of(sim), "config": config}
    # A TypeError refuses the tape's options.
    with reading(tape), fitting(TypeError), writing(output), progress_bar("recording", 1, quiet=as_json) as show:
        ways |= {"standalone": standalone, "progress": lambda done, total: show(done / total)}
        report = branch_tape(tape, output, at, given, until=until, **ways)
    if as_json:
        facts = attrs.asdict(report, recurse=False)
        print_json({key: str(value) if isinstance(value, Path | TapeUrl) else value for key, value in facts.items()})
    else:
        print_visible("\n".join(_lines(report, sim)))
    return SAME


def _given(inputs: Path | None, override: Path | None, tape: Location) -> BranchedInputs:
    """The inputs of the branch. Raises UsageError, OSError."""
    if inputs is not None and override is not None:
        raise UsageError("expected --inputs (all inputs) or --override (those of some ticks), got both")
    file = inputs or override
    with reading(file or tape):
        by_tick = read_plain_inputs(file) if file is not None else {}
    if inputs is not None:
        return BranchedInputs(own=by_tick, source=str(inputs))
    return BranchedInputs(instead=by_tick, source=str(override or "inputs"))


def _parent_world(tape: Tape, sim: str | None, parent_sim: str | None) -> Factory | None:
    """The factory of the recorded simulation; None if the tape itself tells how to make it."""
    if parent_sim is not None or sim is None:
        return factory_of(parent_sim)
    try:
        make_stepping(tape, None)
    except (UnknownWorldError, ConfigError, RecordingError):
        return factory_of(sim)
    return None


def _config_of(arguments: list[str]) -> dict[str, Any] | None:
    """The parameters that --set names, as tables. Raises UsageError."""
    config: dict[str, Any] = {}
    for argument in arguments:
        key, equals, text = argument.partition("=")
        *tables, name = key.split(".")
        if not equals or not all([*tables, name]):
            raise UsageError(f"--set {argument}: expected KEY=VALUE, such as seed=7")
        try:
            value = json.loads(text)
        except ValueError:
            value = text
        table = config
        for part in tables:
            table = table.setdefault(part, {})
            if not isinstance(table, dict):
                raise UsageError(f"--set {argument}: {part} has a value already: set each key once")
        table[name] = value
    return config or None


def _lines(report: BranchReport, sim: str | None) -> list[str]:
    where = tick_range(report.first_tick, report.last_tick)
    size = f"{report.size_bytes / 1e3:,.1f} kB"
    lines = [f"{report.path}: {where}, a branch of {report.parent} at tick {report.fork_tick:,}, {size}"]
    if report.comparison is not None:
        lines.append(f"  {report.comparison}")
    option = f" --sim {shlex.quote(sim)}" if sim is not None else ""
    lines.append(f"  next: replay diff {report.parent} {report.path}{option}")
    return lines
