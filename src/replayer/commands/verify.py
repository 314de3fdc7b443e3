"""The command ``replay verify``: check every block and every hash of a tape."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import attrs
from cyclopts import Parameter

from recorder.console.argument_types import LocalPath, Positive
from recorder.console.engine_option import EngineOption, engine_arguments
from recorder.console.output import print_json
from recorder.console.progress import progress_bar
from recorder.errors import SimulationFailedError
from recorder.exception_text import STEP_RAISED
from recorder.exit_codes import DIFFERS, UsageError
from recorder.location.shards_manifest import shards_folder
from recorder.location.tape_location import Location
from recorder.processes.lifetimes.stuck_workers import PATIENCE_S
from recorder.processes.pool import processor_count
from recorder.storage.os_errors import reading
from recorder.text import counted
from recorder.visible_text import print_visible
from replayer.commands.arguments import choose, factory_of, folder_beside, note_version
from replayer.commands.options import DumpFolder, Json, Sim, TapePath
from replayer.playback.cursor import Cursor
from replayer.playback.field_map import FieldMapError, read_field_map
from replayer.playback.make_simulation import Factory, make_simulation
from replayer.report.report_text import print_report, print_values, report_facts
from replayer.status import STATUS_CODES
from replayer.tape.tape import Tape
from replayer.timeline.values_check import NoValuesError, ValuesReport, check_values, measure_values_alone
from replayer.timeline.verify import VerificationReport, check_seal, verify_tape
from replayer.value_text import plain_text
from replayer.view.finding_folder import dumps_beside

SLOW_CPU_S = 5.0  # Of a verification, from which on a faster one is spoken of.
FieldMapFile = Annotated[
    LocalPath | None,
    Parameter(
        name="--map",
        help="A TOML file that says how the fields of the tape are called in the code now: [renamed] and [added].",
    ),
]
FASTER_MIN = 2.0  # So many times as fast at least.


def verify(
    tape: TapePath | None = None,
    /,
    *,
    jobs: Annotated[Positive | None, Parameter(name=["--jobs", "-j"])] = None,
    engine: EngineOption = None,
    fast: Annotated[bool, Parameter(negative="")] = False,
    values: Annotated[bool, Parameter(negative="")] = False,
    as_json: Json = False,
    sim: Sim = None,
    field_map: FieldMapFile = None,
    dump_folder: DumpFolder = None,
    patience: Positive = PATIENCE_S,
) -> int:
    """Verify a tape: read every block, re-simulate every tick and compare every hash.

    Examples:
    replay verify run.tape --jobs 4
    replay verify old.tape --sim game:Game --map fields.toml

    Exit code: 0 intact and every hash equal, 1 desync (a dump is written) or a keyframe that restores other values,
    3 every hash equal, but the tape is incomplete, 4 corrupt, 5 not a tape.

    Parameters
    ----------
    tape
        The tape; by default the newest in recordings/.
    jobs
        The number of processes that re-simulate at once. By default one for each processor.
    fast
        Only read the block headers and check the seal, without a simulation.
    values
        Of a recorded object or environment: compare its values at keyframes alone, without a state of each tick,
        which may take a tenth of the time. The states between keyframes are not compared. Where values differ, all
        ticks are verified next.
    as_json
        Print one JSON object.
    sim
        module:factory of the simulation, for a tape that names no registered world.
    dump_folder
        The folder for the dump of a desync. By default the folder of the tape.
    patience
        Seconds. A process that does nothing for longer is ended: one that waits for a thread that it lacks, for example.
    """
    path, place = choose(tape), engine_arguments(engine, jobs, processor_count())
    _ensure_together(field_map, fast=fast, values=values)
    if fast:
        return _verify_headers(path, as_json=as_json)
    with reading(path), Tape(path) as opened:
        note_version(opened)
        tick_count = opened.last_tick - opened.first_tick + 1 if opened.keyframes else 0
        first_tick = opened.first_tick if opened.keyframes else None
    checked = _compare_values(path, sim, tick_count, as_json=as_json) if values else None
    if checked is not None and checked.differing is None:
        return STATUS_CODES[checked.status]
    start_s = _cpu_s()
    try:
        factory = _factory(path, sim, field_map)
        report = _verify(path, factory, tick_count, place, dump_folder, patience, quiet=as_json)
    except SimulationFailedError as error:
        if first_tick is None or not is_desync(path, sim, error, first_tick):
            raise
        return _tell_of_raised(path, sim, error, as_json=as_json)
    if as_json:
        facts = {} if checked is None else {"values": {"differing": checked.differing, "path": checked.path}}
        print_json(report_facts(report) | facts | _shard_facts(path, report))
    else:
        _print_report(path, report, sim, has_first_inputs=first_tick == 0)
        if checked is not None and report.ok:
            print_visible(
                "  only the run in one go, without states, differs: the tape is verified (docs: Values alone)"
            )
        elif checked is None:
            _tell_of_values(path, sim, report, _cpu_s() - start_s)
    return DIFFERS if report.first_bad is not None or report.wrong_keyframes else STATUS_CODES[report.status]


def _tell_of_older_dumps(path: Location) -> None:
    """Name the dumps of the tape that an earlier verification wrote: replay view shows them."""
    with reading(path), Tape(path) as opened:
        run_id = opened.run_id
    for finding, when in dumps_beside(path, run_id):
        print_visible(f"  not found again: {finding.folder} of {when}, with the code of then")


def _shard_facts(path: Location, report: VerificationReport) -> dict[str, Any]:
    """The facts about shards for the JSON object, if the run has tapes of them."""
    if not report.findings or not isinstance(path, Path) or not shards_folder(path).exists():
        return {}
    from replayer.timeline.shards.shard_parts import differing_shards  # noqa: PLC0415 - only runs in shards need it

    return attrs.asdict(differing_shards(path, report.findings[0].tick, report.findings[0].replayed))


def _print_report(path: Location, report: VerificationReport, sim: str | None, *, has_first_inputs: bool) -> None:
    """Print the report; after a desync of a run in shards, name those whose recorded rows are not the replayed ones."""
    print_report(path, report, sim, has_first_inputs=has_first_inputs)
    if report.ok:
        _tell_of_older_dumps(path)
    facts = _shard_facts(path, report)
    if not facts:
        return
    if facts["shards_unknown"] is not None:
        print_visible(f"  shards: not known: {plain_text(facts['shards_unknown'])}")
        return
    for one in facts["shards"]:
        rows, fields = f"rows {one['first_row']:,} to {one['last_row']:,}", ", ".join(one["fields"])
        print_visible(f"  shard {one['shard']} of {facts['shard_count']} ({rows}) recorded other values of {fields}")
    same = facts["shard_count"] - len(facts["shards"])
    print_visible(f"  the rows of {counted(same, 'shard')} are as recorded")


def _ensure_together(field_map: Path | None, *, fast: bool, values: bool) -> None:
    if field_map is not None and (fast or values):
        raise UsageError("--map re-simulates the ticks: expected it without --fast and --values")


def _factory(path: Location, sim: str | None, field_map: Path | None) -> Factory | None:
    """The factory of --sim, through the map of --map. Raises UsageError."""
    factory = factory_of(sim)
    if field_map is None:
        return factory
    from replayer.playback.mapped_simulation import with_field_map  # noqa: PLC0415 - rarely used

    try:
        with reading(field_map):
            read_field_map(field_map)
        return with_field_map(factory, field_map, path)
    except FieldMapError as error:
        raise UsageError(plain_text(str(error))) from None


def _verify(
    path: Location,
    factory: Factory | None,
    ticks: int,
    place: Mapping[str, Any],
    dump_folder: Path | None,
    patience: int,
    *,
    quiet: bool,
) -> VerificationReport:
    with progress_bar("verifying", ticks, quiet=quiet) as show:
        return verify_tape(
            path,
            factory,
            **place,
            progress=lambda done, _: show(done),
            dump_folder=dump_folder or folder_beside(path),
            patience_s=patience,
        )


def is_desync(path: Location, sim: str | None, error: SimulationFailedError, first_tick: int) -> bool:
    """Return True for a step that raises where the recorded one did not, of a simulation that fits the tape.

    It fits if steps before this one gave the recorded states, or if this step does in a simulation into which nothing
    was restored. Memory that runs out is no finding.
    """
    if error.why is None or not error.why.startswith(STEP_RAISED) or isinstance(error.__cause__, MemoryError):
        return False
    return error.tick > first_tick + 1 or _gives_recorded_as_made(path, sim, error.tick)


def _gives_recorded_as_made(path: Location, sim: str | None, tick: int) -> bool:
    from replayer.desync.isolated_rerun import gives_recorded_as_made  # noqa: PLC0415 - only after an exception

    with Tape(path) as opened:
        factory, recorded_hash = factory_of(sim), opened.state_hash(tick)
        return gives_recorded_as_made(lambda: Cursor(opened, make_simulation(opened, factory)), tick, recorded_hash)


def _tell_of_raised(path: Location, sim: str | None, error: SimulationFailedError, *, as_json: bool) -> int:
    is_restore = _gives_recorded_as_made(path, sim, error.tick)
    if as_json:
        print_json({"ok": False, "first_bad": error.tick, "raised": error.why})
    else:
        print_visible(
            f"{path}: DESYNC at tick {error.tick:,}; the ticks before it that were replayed match the recording"
        )
        print_visible(f"  {plain_text(str(error.why))}; when it was recorded, it did not raise")
        if is_restore:
            print_visible(
                "  run from the first tick as it was made, with nothing restored, it does not raise and the tick has the "
                "recorded hash"
            )
        words = f"{shlex.quote(str(path))} --tick {error.tick}" + (
            f" --sim {shlex.quote(sim)}" if sim is not None else ""
        )
        print_visible(f"next: replay explain {words}  # searches the line")
    return DIFFERS


def _cpu_s() -> float:
    """The processor time of this process and of its children that have ended, in seconds."""
    return sum(os.times()[:4])


def _tell_of_values(path: Location, sim: str | None, report: VerificationReport, cpu_s: float) -> None:
    """After a long verification of a captured object: say what --values takes, by stepping some ticks in that way."""
    if cpu_s < SLOW_CPU_S or not (report.ok and report.proved_keyframes and report.verified_ticks):
        return
    speed = measure_values_alone(path, factory_of(sim))
    if speed is None:
        return
    times = cpu_s / report.verified_ticks * speed.ticks / max(speed.cpu_s, 1e-9)
    if times >= FASTER_MIN:
        print_visible(
            f"  took {cpu_s:,.1f} s of processor time. replay verify --values compares keyframes only: its steps took "
            f"1/{times:,.0f} of that, measured on {counted(speed.ticks, 'tick')}"
        )


def _compare_values(path: Location, sim: str | None, tick_count: int, *, as_json: bool) -> ValuesReport:
    """Compare the values at the keyframes, and print the result; as JSON only if nothing follows."""
    with progress_bar("comparing values", tick_count, quiet=as_json) as show:
        try:
            checked = check_values(path, factory_of(sim), progress=lambda done, _: show(done))
        except NoValuesError as error:
            raise UsageError(f"--values: {error}") from None
    if not as_json:
        print_values(path, checked)
    elif checked.differing is None:
        print_json(attrs.asdict(checked) | {"problems": [str(problem) for problem in checked.problems]})
    return checked


def _verify_headers(path: Location, *, as_json: bool) -> int:
    with reading(path), Tape(path) as opened:
        opened.distrust_index()
        seals = check_seal(opened)
        damages = [damage.what if damage.torn else str(damage.as_error()) for damage in opened.damages]
        problems = list(dict.fromkeys([*damages, *map(str, seals)]))
        problems += [f"segment {number} is missing" for number in opened.missing_segments]
        status = "corrupt" if seals else opened.status
        blocks = sum(len(segment.contents.entries) for segment in opened.segments)
    if as_json:
        print_json({"status": status, "blocks": blocks, "problems": problems})
    else:
        print_visible(f"{path}: {status}, {counted(blocks, 'block')}")
        print_visible("\n".join(f"  {plain_text(problem)}" for problem in problems), end="\n" if problems else "")
    return STATUS_CODES[status]
