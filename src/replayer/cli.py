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
    progress_bar,
    run_app,
    version,
)
from replayer.desync.dump import write_state
from replayer.overview import print_tape, tape_facts
from replayer.repair import repair_tape
from replayer.reports import print_repair, print_report, repair_facts, report_facts, tail_lines
from replayer.show import describe_field, picture, state_summary, to_json
from replayer.tail import Tail
from replayer.tape import Tape
from replayer.timeline import Timeline
from replayer.verify import check_seal, verify_tape
from replayer.worlds import Factory, load_factory, version_note
from sim.kernel.registry import UnknownWorldError, World, find_world
from sim.kernel.state import Snapshot

RECORDINGS_FOLDER = "recordings"
STATUS_CODES = {"intact": SAME, "incomplete": INCOMPLETE, "corrupt": CORRUPT}

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
    "  replay repair broken.tape -o good.tape",
    help_format="plaintext",
    version=version,
    suppress_keyboard_interrupt=False,
)

Json = Annotated[bool, Parameter(name="--json", negative="")]
Sim = Annotated[str | None, Parameter(name="--sim")]


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
    with Tape(_choose(tape)) as opened:
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
    tick: Whole,
    field: Annotated[list[str] | None, Parameter(name="--field", negative="")] = None,
    output: Annotated[Path | None, Parameter(name=["--output", "-o"])] = None,
    picture_wanted: Annotated[bool, Parameter(name="--picture", negative="")] = False,
    as_json: Json = False,
    sim: Sim = None,
    dump_folder: Annotated[Path | None, Parameter(name="--dump-folder")] = None,
) -> int:
    """Go to a tick: the nearest keyframe before it, then the simulation's own steps; the hash is checked on arrival.

    Example: replay seek run.tape --tick 2500 --field plants.energy --output state.npz

    Exit code: 0 there, 1 desync (with a dump), 2 the tape has no such tick, 4 damage in the way.

    Parameters
    ----------
    tape
        The tape; by default the newest in recordings/.
    tick
        Where to go; negative ones count from the end, -1 is the last.
    field
        Show this field's values too; may be given several times.
    output
        Write the whole state to this .npz file, one array a field.
    picture_wanted
        Draw the world's layer (or the first --field that has two dimensions) as a map.
    as_json
        Print one JSON object.
    sim
        module:factory of the simulation, for a tape that names no registered world.
    dump_folder
        Where the dump of a desync goes; by default beside the tape.
    """
    path = _choose(tape)
    if output is not None and output.suffix != ".npz":
        raise UsageError(f"{output}: a name that ends in .npz was expected")
    with Timeline(path, _factory(sim), dump_folder=dump_folder or path.parent) as run:
        _note_version(run.tape)
        report = run.seek(tick)
        snapshot = run.state.snapshot()
        _ensure_fields(snapshot, field or [])
        if output is not None:
            write_state(output, snapshot)
        world = _world(run.tape)
        config = run.tape.meta["world"]["config"] if world is not None else {}
        if as_json:
            facts: dict[str, Any] = {
                "tick": report.tick,
                "state_hash": f"{report.state_hash:016x}",
                "keyframe_tick": report.keyframe_tick,
                "simulated_ticks": report.simulated_ticks,
                "milliseconds": round(report.milliseconds, 3),
                "summary": state_summary(snapshot, world, config),
                "fields": {name: to_json(snapshot[name]) for name in field or []},
            }
            print(json.dumps(facts, indent=1))
            return SAME
        print(
            f"tick {report.tick:,} of {path}: keyframe at tick {report.keyframe_tick:,}, "
            f"{report.simulated_ticks:,} ticks re-simulated, {report.milliseconds:.1f} ms"
        )
        print(f"  state hash: {report.state_hash:016x}, as recorded")
        for name, text in state_summary(snapshot, world, config).items():
            print(f"  {name}: {text}")
        for name in field or []:
            print(f"  {name}: {describe_field(snapshot, name)}")
            print(f"    {snapshot[name]}".replace("\n", "\n    "))
        if picture_wanted:
            print("\n".join(_picture(snapshot, field or [], world)))
        if output is not None:
            print(f"  written: {output}")
    return SAME


@app.command
def verify(
    tape: Path | None = None,
    /,
    *,
    jobs: Annotated[Positive, Parameter(name=["--jobs", "-j"])] = 1,
    fast: Annotated[bool, Parameter(negative="")] = False,
    as_json: Json = False,
    sim: Sim = None,
    dump_folder: Annotated[Path | None, Parameter(name="--dump-folder")] = None,
) -> int:
    """Prove a tape: read every block, check the seal, re-simulate every tick and compare every hash.

    Example: replay verify run.tape --jobs 2

    Exit code: 0 all the same, 1 desync (with a dump), 3 the same but not sealed, 4 corrupt, 5 no tape.

    Parameters
    ----------
    tape
        The tape; by default the newest in recordings/.
    jobs
        Processes that re-simulate side by side.
    fast
        Only read the blocks' headers and check the seal; no simulation is needed.
    as_json
        Print one JSON object.
    sim
        module:factory of the simulation, for a tape that names no registered world.
    dump_folder
        Where the dump of a desync goes; by default beside the tape.
    """
    path = _choose(tape)
    if fast:
        return _verify_headers(path, as_json=as_json)
    with Tape(path) as opened:
        _note_version(opened)
        tick_count = opened.last_tick - opened.first_tick + 1 if opened.keyframes else 0
    with progress_bar("verifying", tick_count, quiet=as_json) as show:
        report = verify_tape(
            path,
            _factory(sim),
            jobs=jobs,
            progress=lambda done, _: show(done),
            dump_folder=dump_folder or path.parent,
        )
    if as_json:
        print(json.dumps(report_facts(report), indent=1))
    else:
        print_report(path, report)
    if report.first_bad is not None:
        return DIFFERS
    return STATUS_CODES[report.status]


def _verify_headers(path: Path, *, as_json: bool) -> int:
    with Tape(path) as opened:
        opened.distrust_index()
        seals = check_seal(opened)
        problems = [damage.what for damage in opened.damages] + [str(problem) for problem in seals]
        problems += [f"segment {number} is missing" for number in opened.missing_segments]
        status = "corrupt" if seals else opened.status
        blocks = sum(len(segment.contents.entries) for segment in opened.segments)
        if as_json:
            print(json.dumps({"status": status, "blocks": blocks, "problems": problems}, indent=1))
        else:
            print(f"{path}: {status}, {blocks:,} blocks")
            print("\n".join(f"  {problem}" for problem in problems), end="\n" if problems else "")
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
    path = _choose(tape)
    with Tail(path) as followed:
        try:
            for line in tail_lines(followed, last, follow=follow, as_json=as_json):
                print(line, flush=True)
        except KeyboardInterrupt:
            return SAME  # That is how one leaves a tail.
    return SAME


@app.command
def repair(
    tape: Path,
    /,
    *,
    output: Annotated[Path | None, Parameter(name=["--output", "-o"])] = None,
    as_json: Json = False,
    sim: Sim = None,
) -> int:
    """Write a sound copy of a damaged tape: what is whole is copied, keyframes are re-simulated and proved by hash.

    Example: replay repair broken.tape -o repaired.tape

    The original is left as it is. Ticks whose inputs are lost cannot be made again: the new tape says which.

    Exit code: 0 nothing is lost, 3 some ticks are, 5 nothing can be read.

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
    with progress_bar("repairing", 1, quiet=as_json) as show:
        report = repair_tape(tape, target, _factory(sim), progress=lambda done, total: show(done / max(1, total)))
    if as_json:
        print(json.dumps(repair_facts(report), indent=1))
    else:
        print_repair(tape, report)
    return INCOMPLETE if report.lost_ticks or report.lost_keyframe_ticks else SAME


# --- choosing


def _choose(tape: Path | None) -> Path:
    """The tape that was named, or the newest in recordings/."""
    if tape is not None:
        return tape
    tapes = sorted(Path(RECORDINGS_FOLDER).glob("*.tape"), key=lambda path: path.stat().st_mtime_ns)
    if not tapes:
        raise UsageError(
            f"no tape was named and there is none in {RECORDINGS_FOLDER}/; make one with: record run quiet-meadow"
        )
    return tapes[-1]


def _factory(sim: str | None) -> Factory | None:
    if sim is None:
        return None
    try:
        return load_factory(sim)
    except ValueError as error:
        raise UsageError(f"--sim {error}") from None


def _world(tape: Tape) -> World | None:
    match tape.meta.get("world"):
        case {"name": str(name)}:
            try:
                return find_world(name)
            except UnknownWorldError:
                return None
    return None


def _ensure_fields(snapshot: Snapshot, names: list[str]) -> None:
    for name in names:
        if name not in list(snapshot):
            raise UsageError(f"no field {name!r}; the fields are {', '.join(snapshot)}")


def _note_version(tape: Tape) -> None:
    note = version_note(tape)
    if note is not None:
        print(f"note: {note}", file=sys.stderr)


def _picture(snapshot: Snapshot, names: list[str], world: World | None) -> list[str]:
    flat = [snapshot[name] for name in names if snapshot[name].ndim == 2]
    if not flat and world is not None and world.picture is not None:
        flat = [world.picture(snapshot)]
    if not flat:
        raise UsageError("--picture needs a field of two dimensions: name one with --field")
    return picture(flat[0], shutil.get_terminal_size().columns)


def main(arguments: Sequence[str] | None = None) -> None:
    """The console script ``replay``."""
    sys.exit(run_app(app, arguments))
