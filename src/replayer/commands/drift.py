"""The command ``replay drift``: the error of a simulation that is not bit-exact, from keyframe to keyframe."""

from __future__ import annotations

from typing import Any

import attrs

from recorder.console.output import print_json
from recorder.console.progress import progress_bar
from recorder.exit_codes import DIFFERS, INCOMPLETE
from recorder.location.tape_location import Location
from recorder.storage.os_errors import reading
from recorder.text import counted
from recorder.visible_text import print_visible
from replayer.commands.arguments import choose, factory_of, ready_tape
from replayer.commands.options import Json, Sim, TapePath
from replayer.diagnose.drift.drift import DriftReport, FieldDrift, IntervalDrift, measure_drift
from replayer.status import STATUS_CODES
from replayer.value_text import plain_text, tick_range

INTERVALS_SHOWN = 20


def drift(
    tape: TapePath | None = None,
    /,
    *,
    sim: Sim = None,
    as_json: Json = False,
) -> int:
    """Replay a tape from keyframe to keyframe and measure the error of each interval.

    Example: replay drift run.tape --sim arm:Arm

    For simulations that give slightly different floats on a different machine. replay verify stops at the first
    different hash; this command continues, snaps to every keyframe, and compares the values there: rows, absolute and
    relative errors, ULPs.

    Exit code: 0 bit-exact, 1 something drifted, 3 exact as far as can be reached, 4 corrupt, 5 no tape.

    Parameters
    ----------
    tape
        The tape; by default the newest in recordings/.
    sim
        module:factory of the simulation, for a tape that names no registered world.
    as_json
        Print one JSON object, with every interval.
    """
    path = choose(tape)
    with ready_tape(path) as opened:
        total = opened.last_tick - opened.first_tick
    with reading(path), progress_bar("measuring", total, quiet=as_json) as show:
        report = measure_drift(path, factory_of(sim), progress=lambda done, _: show(done))
    if as_json:
        print_json(drift_facts(report))
    else:
        print_visible("\n".join(plain_text(line) for line in _lines(path, report)))
    if not report.exact:
        return DIFFERS
    if any(interval.unreached for interval in report.intervals) and report.status == "intact":
        return INCOMPLETE
    return STATUS_CODES[report.status]


def drift_facts(report: DriftReport) -> dict[str, Any]:
    """The report as ``replay drift --json`` prints it."""
    return {
        "exact": report.exact,
        "status": report.status,
        "compared_ticks": report.compared_ticks,
        "bad_ticks": report.bad_ticks,
        "worst": [
            {"start_tick": interval.start_tick, "growth": interval.growth(field_drift)} | attrs.asdict(field_drift)
            for interval, field_drift in report.worst().values()
        ],
        "intervals": [attrs.asdict(interval) for interval in report.intervals],
        "problems": [str(problem) for problem in report.problems],
    }


def _lines(path: Location, report: DriftReport) -> list[str]:
    drifted = [interval for interval in report.intervals if interval.drifted]
    if not drifted:
        lines = [f"{path}: bit-exact: {counted(report.compared_ticks, 'tick')} replayed, all with the recorded hash"]
    else:
        where = f"{len(drifted):,} of {counted(len(report.intervals), 'interval')}"
        ticks = f"{report.bad_ticks:,} of {counted(report.compared_ticks, 'tick')}"
        lines = [f"{path}: NOT EXACT: {ticks} differ, in {where}; snapped to each keyframe"]
        for interval in drifted[:INTERVALS_SHOWN]:
            lines += [f"  {line}" for line in _interval_lines(interval)]
        if len(drifted) > INTERVALS_SHOWN:
            lines.append(f"  … and {counted(len(drifted) - INTERVALS_SHOWN, 'interval')} more; --json names all")
        for name, (interval, field_drift) in list(report.worst().items())[:1]:
            growth = "" if field_drift.note else f", {interval.growth(field_drift):.3g} a tick"
            lines.append(f"  worst: {name} at tick {interval.end_tick:,}: {_error_text(field_drift)}{growth}")
    lines += [
        f"  not reached after tick {interval.end_tick:,}: {interval.unreached}"
        for interval in report.intervals
        if interval.unreached
    ]
    lines += [f"  {problem}" for problem in report.problems]
    return lines


def _interval_lines(interval: IntervalDrift) -> list[str]:
    first = (
        "" if interval.first_bad is None else f": first at tick {interval.first_bad:,}, {interval.bad_ticks:,} in all"
    )
    lines = [f"{tick_range(interval.start_tick, interval.end_tick)}{first}"]
    if interval.failed:
        lines.append(f"  the simulation failed: {interval.failed}")
    elif not interval.compared:
        lines.append("  no keyframe at its end: recorded values are not known there")
    elif not interval.fields and interval.bad_at_end:
        lines.append("  no value differs at its end: only the capacities of tables or blobs differ")
    elif not interval.fields:
        lines.append("  equal again at its end")
    lines += [f"  {field_drift.field}: {_error_text(field_drift)}" for field_drift in interval.fields]
    return lines


def _error_text(field_drift: FieldDrift) -> str:
    if field_drift.note:
        return field_drift.note
    if field_drift.not_finite and field_drift.max_ulp == 0:  # Floats whose bytes differ are one ULP apart or more.
        elements = f"{counted(field_drift.not_finite, 'element')} {'is' if field_drift.not_finite == 1 else 'are'}"
        return f"{counted(field_drift.row_count, 'row')}, {elements} NaN or infinite in one state or both: no error can be computed"
    ulp = "" if field_drift.max_ulp is None else f", {field_drift.max_ulp:,} ULP"
    not_finite = f", {field_drift.not_finite:,} not finite" if field_drift.not_finite else ""
    return (
        f"{counted(field_drift.row_count, 'row')}, error at most {field_drift.max_abs:.3g} (median {field_drift.median_abs:.3g}), "
        f"relative {field_drift.max_rel:.3g} (median {field_drift.median_rel:.3g}){ulp}{not_finite}"
    )
