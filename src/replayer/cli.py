"""The command ``replay``: look at a tape, go to a tick, prove the whole of it."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, Parameter
from cyclopts.validators import Number

from recorder.console import CORRUPT, DIFFERS, INCOMPLETE, SAME, UsageError, bytes_text, progress_bar, run_app, version
from replayer.desync.dump import difference_lines, write_state
from replayer.desync.finding import Finding
from replayer.show import describe_field, picture, state_summary, to_json
from replayer.tape import Tape
from replayer.timeline import Timeline
from replayer.verify import Report, check_seal, verify_tape
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
    "  replay verify run.tape --jobs 2",
    help_format="plaintext",
    version=version,
)

Json = Annotated[bool, Parameter(name="--json", negative="")]
Sim = Annotated[str | None, Parameter(name="--sim")]


@app.command
def info(tape: Path | None = None, /, *, as_json: Json = False) -> int:
    """Say what a tape holds and what state it is in.

    Example: replay info recordings/quiet-meadow-1.tape

    Exit code: 0 sealed and whole, 3 incomplete (all before the end is good), 4 corrupt, 5 no tape.

    Parameters
    ----------
    tape
        The tape; by default the newest in recordings/.
    as_json
        Print one JSON object.
    """
    with Tape(_choose(tape)) as opened:
        facts = _facts(opened)
        if as_json:
            print(json.dumps(facts, indent=1))
        else:
            _print_facts(opened, facts)
        return STATUS_CODES[opened.status]


@app.command
def seek(
    tape: Path | None = None,
    /,
    *,
    tick: int,
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
    jobs: Annotated[int, Parameter(name=["--jobs", "-j"], validator=Number(gte=1))] = 1,
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
        tick_count = opened.last_tick - opened.first_tick + 1
    with progress_bar("verifying", tick_count, quiet=as_json) as show:
        report = verify_tape(
            path,
            _factory(sim),
            jobs=jobs,
            progress=lambda done, _: show(done),
            dump_folder=dump_folder or path.parent,
        )
    if as_json:
        print(json.dumps(_report_facts(report), indent=1))
    else:
        _print_report(path, report)
    if report.first_bad is not None:
        return DIFFERS
    return STATUS_CODES[report.status]


def _verify_headers(path: Path, *, as_json: bool) -> int:
    with Tape(path) as opened:
        opened.distrust_index()
        problems = [damage.what for damage in opened.damages] + [str(problem) for problem in check_seal(opened)]
        status = "corrupt" if problems and opened.status != "incomplete" else opened.status
        if as_json:
            print(
                json.dumps({"status": status, "blocks": len(opened.contents.entries), "problems": problems}, indent=1)
            )
        else:
            print(f"{path}: {status}, {len(opened.contents.entries):,} blocks")
            print("\n".join(f"  {problem}" for problem in problems), end="\n" if problems else "")
        return STATUS_CODES[status]


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


# --- printing


def _facts(tape: Tape) -> dict[str, Any]:
    meta, seal = tape.meta, tape.contents.seal
    world = meta.get("world") or {}
    has_state = bool(tape.keyframes)
    fulls = sum(place.is_full for place in tape.keyframes)
    return {
        "tape": str(tape.path),
        "run_id": tape.run_id,
        "world": world.get("name"),
        "world_version": world.get("version"),
        "scenario": world.get("config", {}).get("name"),
        "seed": world.get("config", {}).get("seed"),
        "simulation": meta.get("simulation"),
        "mode": meta.get("mode"),
        "first_tick": tape.first_tick if has_state else None,
        "last_tick": tape.last_tick if has_state else None,
        "sealed": tape.sealed,
        "status": tape.status,
        "outcome": to_json(seal.outcome) if seal is not None else None,
        "bytes": tape.contents.size_bytes,
        "full_keyframes": fulls,
        "delta_keyframes": len(tape.keyframes) - fulls,
        "keyframe_interval_ticks": meta.get("keyframe_interval_ticks"),
        "created": meta.get("created"),
        "environment": meta.get("environment"),
        "missing_ticks": [list(missing) for missing in tape.missing_ticks()] if has_state else [],
        "damages": [
            {"offset": damage.offset, "end_offset": damage.end_offset, "what": damage.what, "torn": damage.torn}
            for damage in tape.damages
        ],
    }


def _print_facts(tape: Tape, facts: dict[str, Any]) -> None:
    sealed = "sealed" if facts["sealed"] else "not sealed: the recording did not end properly, or is still going on"
    print(f"{facts['tape']}: {facts['status']}, {sealed}")
    if facts["world"] is not None:
        named = f"{facts['scenario']}, " if facts["scenario"] else ""
        print(f"  world: {facts['world']} version {facts['world_version']} ({named}seed {facts['seed']})")
    else:
        print(f"  simulation: {facts['simulation']} (no registered world; replay it with --sim module:factory)")
    if facts["first_tick"] is None:
        print("  ticks: none that can be reached yet")
    else:
        count = facts["last_tick"] - facts["first_tick"] + 1
        each = facts["bytes"] / max(1, count - 1)
        print(f"  ticks: {facts['first_tick']:,} to {facts['last_tick']:,}")
        print(f"  size: {bytes_text(facts['bytes'])}, {each:,.0f} bytes a tick")
    print(
        f"  keyframes: {facts['full_keyframes']:,} full, {facts['delta_keyframes']:,} delta, "
        f"every {facts['keyframe_interval_ticks']} ticks"
    )
    if facts["outcome"] is not None:
        print("  ended: " + ", ".join(f"{key} {value}" for key, value in facts["outcome"].items()))
    if facts["created"] is not None:
        environment = facts["environment"] or {}
        print(f"  recorded: {facts['created']}, " + ", ".join(f"{key} {value}" for key, value in environment.items()))
    print(f"  run: {facts['run_id'] or 'unknown, the file header is damaged'}")
    for first, final in facts["missing_ticks"]:
        print(f"  missing: ticks {first:,} to {final:,}")
    for damage in tape.damages:
        kind = "torn" if damage.torn else "damaged"
        print(f"  {kind}: bytes {damage.offset:,} to {damage.end_offset:,}: {damage.what}")


def _report_facts(report: Report) -> dict[str, Any]:
    return {
        "ok": report.ok,
        "status": report.status,
        "verified_ticks": report.verified_ticks,
        "tick_count": report.tick_count,
        "first_bad": report.first_bad,
        "fields": [difference.field for finding in report.findings for difference in finding.differences],
        "problems": [str(problem) for problem in report.problems],
        "dump": str(report.dump_path) if report.dump_path is not None else None,
    }


def _print_report(path: Path, report: Report) -> None:
    if report.ok:
        sealed = "" if report.status == "intact" else "; the tape is not sealed"
        print(f"{path}: all {report.tick_count:,} ticks are the same{sealed}")
        return
    if report.first_bad is not None:
        print(f"{path}: DESYNC at tick {report.first_bad:,}; all ticks before it are the same")
        for finding in report.findings:
            _print_finding(finding)
    else:
        print(f"{path}: corrupt; {report.verified_ticks:,} of {report.tick_count:,} ticks are proved the same")
    for problem in report.problems:
        print(f"  {problem}")
    if report.dump_path is not None:
        print(f"  dump: {report.dump_path}")


def _print_finding(finding: Finding) -> None:
    print(f"  recorded hash {finding.expected_hash:016x}, replayed {finding.actual_hash:016x}")
    if finding.differences:
        print(f"  at the next recorded keyframe, tick {finding.compared_tick:,}, these fields differ:")
    for difference in finding.differences:
        for line in difference_lines(difference)[:3]:
            print(f"    {line}")
    if finding.note:
        print(f"  note: {finding.note}")
    inputs = next((frame.inputs for frame in finding.frames if frame.tick == finding.tick), None)
    print(f"  inputs of the tick: {json.dumps(to_json(inputs))}")


def main(arguments: Sequence[str] | None = None) -> None:
    """The console script ``replay``."""
    sys.exit(run_app(app, arguments))
