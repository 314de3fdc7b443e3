"""The commands ``replay cut``, ``replay rekey`` and ``replay join``: new tapes made from whole ones."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import attrs
from cyclopts import Parameter

from recorder.console.argument_types import LocalPath, Positive, Whole
from recorder.console.output import print_json
from recorder.console.progress import progress_bar
from recorder.exit_codes import SAME, UsageError
from recorder.location.tape_location import Location
from recorder.location.tape_url import TapeUrl
from recorder.storage.os_errors import reading, writing
from recorder.text import counted
from recorder.visible_text import print_visible
from replayer.commands.arguments import factory_of, note_losses, ready_tape
from replayer.commands.new_tape import NewTape, fitting, new_tape
from replayer.commands.options import Json, Sim, TapePath
from replayer.commands.tick_ranges import parse_ticks
from replayer.reshape.cut import cut_tape
from replayer.reshape.join import join_tapes
from replayer.reshape.pytest_file import write_test
from replayer.reshape.rekey import rekey_tape
from replayer.value_text import tick_range


def cut(
    tape: TapePath,
    /,
    *,
    output: NewTape,
    ticks: str | None = None,
    tick: Whole | None = None,
    exact: Annotated[bool, Parameter(name="--exact", negative="")] = False,
    test: Annotated[LocalPath | None, Parameter(name="--pytest")] = None,
    as_json: Json = False,
    sim: Sim = None,
) -> int:
    """Cut a stand-alone tape out of another: some ticks with the keyframe they need.

    Examples:
    replay cut run.tape --ticks 2400..2500 -o incident.tape
    replay cut run.tape --ticks 2400..2500 -o incident.tape --pytest test_incident.py
    replay cut run.tape --tick 1700 -o save.tape --sim game:Game

    Ticks keep their numbers. The part begins at the keyframe before its first tick,
    so nothing is simulated; with --exact it begins at that tick itself, whose state
    is re-simulated and compared with the recording. --tick N is one state: a save
    game. The old tape is not changed.

    Exit code: 0 written, 1 desync, 2 no such ticks, or the name exists.

    Parameters
    ----------
    tape
        The tape to cut from.
    output
        The new tape, which must not exist yet.
    ticks
        From tick A to tick B, both included: --ticks A..B. Negative ones count from the end.
    tick
        One tick alone.
    exact
        Begin at tick A, not at the keyframe before it.
    test
        Write a pytest file as well that replays the new tape and names the first tick that differs.
    as_json
        Print one JSON object.
    sim
        module:factory of the simulation: for --exact and --tick, and for the test of --pytest.
    """
    if (ticks is None) == (tick is None):
        raise UsageError("expected --ticks A..B or --tick N")
    with ready_tape(tape) as opened:
        note_losses(opened)
        first, last = opened.first_tick, opened.last_tick
    begin, end = parse_ticks(ticks if ticks is not None else f"{tick}..{tick}", first, last)
    if test is not None and isinstance(output, TapeUrl):
        raise UsageError("--pytest needs a tape of this machine: the test reads it")
    with reading(tape), fitting(), writing(output), new_tape(output) as target:
        report = cut_tape(tape, target, begin, end, factory_of(sim), exact=exact or tick is not None)
        if test is not None:
            write_test(test, target, sim, tape.name)
    where = tick_range(report.first_tick, report.last_tick)
    text = f"{output}: {where} of {tape}, {report.size_bytes / 1e3:,.1f} kB"
    notes = [f"  {counted(report.simulated, 'step')} simulated to reach its first state"] if report.simulated else []
    if report.first_tick < begin:
        notes.append(f"  it begins at the keyframe before tick {begin:,}; with --exact, at that tick")
    if test is not None:
        notes.append(f"  the test: {test}")
    _tell(report, output, [text, *notes], as_json=as_json)
    return SAME


def rekey(
    tape: TapePath,
    /,
    *,
    output: NewTape,
    every: Positive,
    as_json: Json = False,
    sim: Sim = None,
) -> int:
    """Write a tape with another spacing of keyframes: faster to seek in, or smaller.

    Example: replay rekey run.tape --every 100 -o quick.tape

    The tape is re-simulated. Each new keyframe, a full one, is a state that has the
    recorded hash. Inputs, hashes, events and telemetry stay as they are, and so does
    the old tape.

    Exit code: 0 written, 1 desync, 2 not possible for this tape, or the name exists.

    Parameters
    ----------
    tape
        The tape.
    output
        The new tape, which must not exist yet.
    every
        Ticks from keyframe to keyframe.
    as_json
        Print one JSON object.
    sim
        module:factory of the simulation, for a tape that names no registered world.
    """
    with ready_tape(tape) as opened:
        note_losses(opened)
        total = opened.last_tick - opened.first_tick
    with (
        reading(tape),
        fitting(),
        writing(output),
        new_tape(output) as target,
        progress_bar("writing keyframes", total, quiet=as_json) as show,
    ):
        report = rekey_tape(tape, target, every, factory_of(sim), progress=lambda done, _: show(done))
    sizes = f"{report.bytes_before / 1e3:,.1f} → {report.size_bytes / 1e3:,.1f} kB"
    text = f"{output}: {report.keyframes_before:,} → {counted(report.keyframes, 'keyframe')}, {sizes}"
    _tell(report, output, [text], as_json=as_json)
    return SAME


def join(tape: TapePath, following: TapePath, /, *, output: NewTape, as_json: Json = False) -> int:
    """Join two tapes of which the second begins at a tick of the first.

    Example: replay join morning.tape evening.tape -o day.tape

    The state that the second tape begins with must have the hash that the first one
    recorded for that tick. Ticks of the first tape after it are left out. Nothing is
    simulated, and both tapes stay as they are.

    Exit code: 0 written, 2 the tapes do not fit, or the name exists.

    Parameters
    ----------
    tape
        The tape with the first ticks.
    following
        The tape that goes on.
    output
        The new tape, which must not exist yet.
    as_json
        Print one JSON object.
    """
    for path in (tape, following):
        with ready_tape(path) as opened:  # Errors of either are reported before anything is written.
            note_losses(opened)
    with reading(tape), fitting(), writing(output), new_tape(output) as target:
        report = join_tapes(tape, following, target)
    where = tick_range(report.first_tick, report.last_tick)
    text = f"{output}: {where}, joined at tick {report.joined_at:,}, {report.size_bytes / 1e3:,.1f} kB"
    _tell(report, output, [text], as_json=as_json)
    return SAME


def _tell(report: Any, output: Location, lines: list[str], *, as_json: bool) -> None:
    if as_json:
        facts = attrs.asdict(report) | {"path": output}
        print_json({key: str(value) if isinstance(value, Path | TapeUrl) else value for key, value in facts.items()})
    else:
        print_visible("\n".join(lines))
