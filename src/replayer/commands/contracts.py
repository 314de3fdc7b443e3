"""The command ``replay contracts``: find writes of phases to fields that they do not declare."""

from __future__ import annotations

from typing import Any

import attrs

from recorder.console.output import print_json
from recorder.console.progress import progress_bar
from recorder.exit_codes import DIFFERS, INCOMPLETE, SAME, UsageError
from recorder.location.tape_location import Location
from recorder.storage.os_errors import reading
from recorder.text import counted
from recorder.visible_text import print_visible
from replayer.commands.arguments import choose, factory_of, ready_tape
from replayer.commands.options import Json, Sim, TapePath
from replayer.diagnose.write_contracts.guarded_replay import WriteContractReport, check_contracts
from replayer.diagnose.write_contracts.write_guard import WriteContractError
from replayer.status import worst_code
from replayer.tape.completeness import tape_code
from replayer.value_text import plain_text


def contracts(
    tape: TapePath | None = None,
    /,
    *,
    sim: Sim = None,
    as_json: Json = False,
) -> int:
    """Replay a tape; while a phase runs, all fields that it does not declare are read-only.

    Example: replay contracts run.tape --sim flock:Flock

    A phase declares its fields by Phase(..., writes={"x", "plants"}), a simulation without phases by an attribute writes;
    a table's name stands for its columns and its row count. The first undeclared write of each phase to each field is
    reported with tick, file and line. A recording does not check declarations.

    Exit code: 0 all writes are declared, 1 some are not (or the tape differs even without the guard), 2 nothing is
    declared, 3 the tape is not sealed, or a part of it cannot be reached, 4 corrupt, 5 no tape.

    Parameters
    ----------
    tape
        The tape; by default the newest in recordings/.
    sim
        module:factory of the simulation, for a tape that names no registered world.
    as_json
        Print one JSON object; "unused" are the declared fields that a phase never changed on this tape.
    """
    path = choose(tape)
    with ready_tape(path) as opened:
        total = opened.last_tick - opened.first_tick
        code = tape_code(opened)
    try:
        with reading(path), progress_bar("checking", total, quiet=as_json) as show:
            report = check_contracts(path, factory_of(sim), progress=lambda done, _: show(done))
    except WriteContractError as error:
        raise UsageError(f"expected a simulation with valid write contracts: {error}") from None
    if as_json:
        print_json({"ok": report.ok} | attrs.asdict(report))
    else:
        print_visible(plain_text_lines(path, report))
    return worst_code((code, SAME if report.ok else DIFFERS, INCOMPLETE if report.unreached else SAME))


def plain_text_lines(path: Location, report: WriteContractReport) -> str:
    """The command's output for people."""
    return "\n".join(plain_text(line) for line in _lines(path, report))


def _lines(path: Location, report: WriteContractReport) -> list[str]:
    held = [name for name, fields in report.contracts.items() if fields is not None]
    free = [name for name, fields in report.contracts.items() if fields is None and name != "step"]
    what = "1 contract" if len(held) == 1 else f"{len(held)} contracts"
    if report.first_bad is not None:
        head = f"{path}: not checked to its end"
    elif report.violations:
        head = f"{path}: {counted(len(report.violations), 'undeclared write')}"
    else:
        head = f"{path}: every write is declared"
    lines = [f"{head}; {counted(report.checked_ticks, 'tick')} under {what} ({', '.join(held)})"]
    lines += [f"  {_violation_line(attrs.asdict(violation))}" for violation in report.violations]
    if report.first_bad is not None:
        lines.append(f"  the check ends at tick {report.first_bad:,}, which differs from the tape: run replay verify")
    if report.unreached:
        lines.append(f"  not reached because of damage: {counted(report.unreached, 'tick')}")
    if report.unrun:
        lines.append(f"  never ran, not checked: {', '.join(report.unrun)}")
    if free:
        lines.append(f"  declares nothing: {', '.join(free)}")
    return lines


def _violation_line(facts: dict[str, Any]) -> str:
    where = f" in {facts['function']}" if facts["function"] else ""
    field = facts["field"] or "not known"
    place = facts["place"] or "(line not known)"
    return f"tick {facts['tick']:,} {place} {facts['message']} (phase {facts['phase']}, field {field}{where})"
