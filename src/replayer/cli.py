"""The command ``replay``: look at a tape, go to a tick, prove the whole of it."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, Parameter

from recorder.console import (
    CORRUPT,
    DIFFERS,
    INCOMPLETE,
    SAME,
    NotNegative,
    Positive,
    UsageError,
    Whole,
    counted,
    progress_bar,
    run_app,
    version,
)
from recorder.errors import DesyncError
from recorder.outlets import ensure_reader
from replayer.certify_command import certify_tape
from replayer.check_command import check
from replayer.choosing import (
    choose,
    ensure_fields,
    ensure_seek,
    ensure_states,
    factory_of,
    layer_picture,
    note_version,
    world_of,
)
from replayer.contracts_command import contracts
from replayer.desync.arithmetic import processor_count
from replayer.diff_command import diff
from replayer.drift_command import drift
from replayer.explain_command import explain
from replayer.export_commands import export, plot
from replayer.extract_command import extract_tapes
from replayer.files import reading, write_state_whole, writing
from replayer.ls_command import ls
from replayer.options import STATUS_CODES, DumpFolder, Json, Output, Sim
from replayer.overview import print_tape, tape_facts
from replayer.repair import NothingToRepairError, repair_tape
from replayer.reports import print_repair, print_report, print_seek, repair_facts, report_facts, seek_facts, tail_lines
from replayer.scenario_commands import compare, results
from replayer.show import describe_field, field_lines, plain_text, state_summary
from replayer.tail import Tail
from replayer.tape import Tape
from replayer.timeline import Timeline
from replayer.verify import check_seal, verify_tape
from replayer.waiting import Waiting

app = App(
    name="replay",
    help="Replay recordings: any tick in milliseconds, every hash checked.\n\n"
    "TAPE is a file; without it the newest one in recordings/ is taken.\n\n"
    "Try:\n"
    "  replay info\n"
    "  replay seek --tick 2500 --picture\n"
    "  replay seek run.tape --tick -1 --json\n"
    "  replay verify run.tape --jobs 2\n"
    "  replay tail run.tape                   follow a recording while it runs\n"
    "  replay plot run.tape -o run.png        populations, energies, deaths\n"
    "  replay diff one.tape other.tape        where two recordings part\n"
    "  replay ls runs --stats                 which runs a folder holds\n"
    "  replay results ambush.tape             what a scenario's run came to\n"
    "  replay compare lossy-1 lossy-2         two sweeps, or two tapes by their events\n"
    "  replay export run.tape --telemetry -o run.csv\n"
    "  replay extract runs/*.tape -o data     training pairs as Parquet\n"
    "  replay check walkers:Walkers           is the state all that a step reads?\n"
    "  replay repair broken.tape -o good.tape",
    help_format="plaintext",
    version=version,
    suppress_keyboard_interrupt=False,
)


@app.command
def info(
    tape: Path | None = None, /, *, fast: Annotated[bool, Parameter(negative="")] = False, as_json: Json = False
) -> int:
    """Say what a tape holds and what state it is in.

    Example: replay info recordings/quiet-meadow-1.tape

    Every block is read and its checksum compared; replay verify re-simulates everything, too.

    Exit code: 0 sealed and whole, 3 incomplete (all before the end is good), 4 corrupt, 5 no tape.

    Parameters
    ----------
    tape
        The tape; by default the newest in recordings/.
    fast
        Believe the index, or, without one, the blocks' headers; read no contents.
    as_json
        Print one JSON object.
    """
    path = choose(tape)
    with reading(path), Tape(path) as opened:
        facts = tape_facts(opened, check=not fast)
    if as_json:
        print(json.dumps(facts, indent=1))
    else:
        print_tape(facts)
    return STATUS_CODES[facts["status"]]


@app.command
def seek(
    tape: Path | None = None,
    /,
    *,
    tick: Whole | None = None,
    episode: Whole | None = None,
    step: Whole | None = None,
    field: Annotated[list[str] | None, Parameter(name="--field", negative="")] = None,
    all_rows: Annotated[bool, Parameter(name="--all", negative="")] = False,
    output: Output = None,
    picture_wanted: Annotated[bool, Parameter(name="--picture", negative="")] = False,
    as_json: Json = False,
    sim: Sim = None,
    dump_folder: DumpFolder = None,
) -> int:
    """Go to a tick: the nearest keyframe before it, then the simulation's own steps; the hash is checked on arrival.

    Example: replay seek run.tape --tick 2500 --field plants.energy --output state.npz

    Exit code: 0 there, 1 desync (with a dump), 2 the tape has no such tick, 3 it has none yet, 4 damage in the way,
    5 no tape.

    Parameters
    ----------
    tape
        The tape; by default the newest in recordings/.
    tick
        Where to go; negative ones count from the end, -1 is the last.
    episode
        Instead of a tick, the episode, from 0; negative ones count from the end.
    step
        How many actions of the episode are done; 0, the default, is its reset.
    field
        Show this field's values too; may be given several times.
    all_rows
        On a terminal, show all values of a --field and not only the first and the last ones.
    output
        Write the whole state to this .npz file, one array a field.
    picture_wanted
        Draw the world's layer as a map, or the first --field that has two dimensions.
    as_json
        Print one JSON object.
    sim
        module:factory of the simulation, for a tape that names no registered world.
    dump_folder
        Where the dump of a desync goes; by default beside the tape.
    """
    ensure_seek(tick, episode, step, output, picture_as_json=picture_wanted and as_json)
    path, names = choose(tape), field or []
    with reading(path):
        run = Timeline(path, factory_of(sim), dump_folder=dump_folder or path.parent)
    with run:
        with reading(path):
            ensure_states(run.tape)
            note_version(run.tape)
            with progress_bar("seeking", 1, quiet=as_json) as show:
                report = run.seek(tick, lambda done, all_: show(done / all_), episode=episode, step=step)
        snapshot, world = run.state.snapshot(), world_of(run.tape)
        config = run.tape.meta["world"]["config"] if world is not None else {}
    ensure_fields(snapshot, names)
    drawn = layer_picture(snapshot, names, world, shutil.get_terminal_size().columns) if picture_wanted else []
    if output is not None:
        write_state_whole(output, snapshot)
    summary = state_summary(snapshot, world, config)
    if as_json:
        print(json.dumps(seek_facts(report, summary, {name: snapshot[name] for name in names}), indent=1))
        return SAME
    print_seek(path, report, summary)
    for name in names:
        print(f"  {name}: {describe_field(snapshot, name)}")
        whole = all_rows or not sys.stdout.isatty()
        print("\n".join(f"    {line}" for line in field_lines(snapshot[name], whole=whole)))
    print("\n".join(drawn), end="\n" if drawn else "")
    if output is not None:
        print(f"  written: {output}")
    return SAME


@app.command
def verify(
    tape: Path | None = None,
    /,
    *,
    jobs: Annotated[Positive | None, Parameter(name=["--jobs", "-j"])] = None,
    fast: Annotated[bool, Parameter(negative="")] = False,
    as_json: Json = False,
    sim: Sim = None,
    dump_folder: DumpFolder = None,
) -> int:
    """Prove a tape: read every block, check the seal, re-simulate every tick and compare every hash.

    Example: replay verify run.tape --jobs 4

    Exit code: 0 all the same, 1 desync (with a dump), 3 the same but not sealed, 4 corrupt, 5 no tape.

    Parameters
    ----------
    tape
        The tape; by default the newest in recordings/.
    jobs
        Processes that re-simulate side by side; by default as many as there are processors.
    fast
        Only read the blocks' headers and check the seal; no simulation is needed.
    as_json
        Print one JSON object.
    sim
        module:factory of the simulation, for a tape that names no registered world.
    dump_folder
        Where the dump of a desync goes; by default beside the tape.
    """
    path = choose(tape)
    if fast:
        return _verify_headers(path, as_json=as_json)
    with reading(path), Tape(path) as opened:
        note_version(opened)
        tick_count = opened.last_tick - opened.first_tick + 1 if opened.keyframes else 0
    with progress_bar("verifying", tick_count, quiet=as_json) as show:
        report = verify_tape(
            path,
            factory_of(sim),
            jobs=jobs or processor_count(),
            progress=lambda done, _: show(done),
            dump_folder=dump_folder or path.parent,
        )
    if as_json:
        print(json.dumps(report_facts(report), indent=1))
    else:
        print_report(path, report, sim)
    if report.first_bad is not None:
        return DIFFERS
    return STATUS_CODES[report.status]


def _verify_headers(path: Path, *, as_json: bool) -> int:
    with reading(path), Tape(path) as opened:
        opened.distrust_index()
        seals = check_seal(opened)
        found = [damage.what if damage.torn else str(damage.as_error()) for damage in opened.damages]
        problems = list(dict.fromkeys([*found, *map(str, seals)]))
        problems += [f"segment {number} is missing" for number in opened.missing_segments]
        status = "corrupt" if seals else opened.status
        blocks = sum(len(segment.contents.entries) for segment in opened.segments)
    if as_json:
        print(json.dumps({"status": status, "blocks": blocks, "problems": problems}, indent=1))
    else:
        print(f"{path}: {status}, {counted(blocks, 'block')}")
        print("\n".join(f"  {plain_text(problem)}" for problem in problems), end="\n" if problems else "")
    return STATUS_CODES[status]


@app.command
def tail(
    tape: Path | None = None,
    /,
    *,
    last: Annotated[NotNegative, Parameter(name=["--last", "-n"])] = 10,
    follow: bool = True,
    as_json: Json = False,
) -> int:
    """Follow a recording while it is written: one line a tick, until it is closed or Ctrl-C is pressed.

    Example: replay tail run.tape --last 3

    Only whole blocks are shown, so that a tick appears up to a second after it happened. Whoever writes the tape does
    not notice; if it dies, the tail waits for it to be resumed.

    Exit code: 0 the recording was closed or Ctrl-C was pressed, 5 no tape; with --no-follow as replay info: 0 sealed
    and whole, 3 incomplete, 4 corrupt.

    Parameters
    ----------
    tape
        The tape; by default the newest in recordings/.
    last
        Begin with so many of the ticks that are there already.
    follow
        With --no-follow, stop when all that is there has been shown.
    as_json
        Print one JSON object a line.
    """
    path = choose(tape)
    if not follow:
        with reading(path), Tape(path) as opened:
            code = CORRUPT if opened.check_blocks() else STATUS_CODES[opened.status]
    with Tail(path) as followed:
        lines = tail_lines(followed, last, follow=follow, as_json=as_json, wait=Waiting(path))
        try:
            while True:
                with reading(path):
                    line = next(lines, None)
                if line is None:
                    return code if not follow else SAME
                print(line, flush=True)
                ensure_reader()
        except KeyboardInterrupt:
            return SAME  # That is how one leaves a tail.


@app.command
def repair(
    tape: Path,
    /,
    *,
    output: Output = None,
    as_json: Json = False,
    sim: Sim = None,
) -> int:
    """Write a sound copy of a damaged tape: what is whole is copied, keyframes are re-simulated and proved by hash.

    Example: replay repair broken.tape -o repaired.tape

    The original is left as it is. Ticks whose inputs are lost cannot be made again: the new tape says which.

    Exit code: 0 nothing is lost, 3 some ticks are or there was no state yet, 4 no state can be read, 5 no tape.

    Parameters
    ----------
    tape
        The damaged tape.
    output
        The new tape, which must not exist; by default NAME-repaired.tape beside the old one.
    as_json
        Print one JSON object.
    sim
        module:factory of the simulation, for a tape that names no registered world.
    """
    if output is None and not tape.name:
        raise UsageError(f"{tape}: Is a directory")
    target = output if output is not None else tape.with_name(f"{tape.stem}-repaired{tape.suffix}")
    with reading(tape), Tape(tape):
        pass  # What is wrong with the original is told before anything is written.
    try:
        with writing(target), progress_bar("repairing", 100, quiet=as_json) as show:
            report = repair_tape(
                tape, target, factory_of(sim), progress=lambda done, total: show(100 * done // max(1, total))
            )
    except NothingToRepairError as error:
        raise UsageError(f"{tape}: {error}", CORRUPT if error.damaged else INCOMPLETE) from None
    if as_json:
        print(json.dumps(repair_facts(report), indent=1))
    else:
        print_repair(tape, report, sim)
    return SAME if report.whole else INCOMPLETE


app.command(check)
app.command(contracts)
app.command(drift)
app.command(explain)
app.command(export)
app.command(extract_tapes, name="extract")
app.command(certify_tape, name="certify")
app.command(plot)
app.command(diff)
app.command(results)
app.command(compare)
app.command(ls)

# --- inside


def _error_as_json(error: BaseException, line: str, code: int) -> None:
    """A mistake for programs; of a desync also what is known of it."""
    facts: dict[str, Any] = {"error": line, "exit_code": code}
    if isinstance(error, DesyncError):
        facts |= {
            "first_bad": error.tick,
            "expected_hash": f"{error.expected_hash:016x}",
            "actual_hash": f"{error.actual_hash:016x}",
            "fields": [difference.field for difference in error.finding.differences] if error.finding else [],
            "note": error.finding.note if error.finding else None,
            "dump": str(error.dump_path) if error.dump_path is not None else None,
        }
    print(json.dumps(facts, indent=1))


def main(arguments: Sequence[str] | None = None) -> None:
    """The console script ``replay``."""
    as_json = "--json" in (sys.argv[1:] if arguments is None else arguments)
    sys.exit(run_app(app, arguments, _error_as_json if as_json else None, unnamed="standard output"))
