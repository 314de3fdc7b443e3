"""The lines of replay explain for a tape on which no tick differs."""

from __future__ import annotations

from recorder.location.tape_location import Location
from recorder.text import counted
from replayer.timeline.verify import VerificationReport
from replayer.value_text import tick_range


def nothing_to_explain_lines(path: Location | str, report: VerificationReport | None) -> list[str]:
    """The lines for a tape without a bad tick, with the range that was verified."""
    if report is None:
        return [f"{path}: every variant verifies all ticks: there is nothing to explain"]
    if report.verified_ticks == report.tick_count and not report.problems and not report.wrong_keyframes:
        return [f"{path}: every variant verifies all ticks: there is nothing to explain; the tape is not sealed"]
    ticks = f"{report.verified_ticks:,} of {counted(report.tick_count, 'tick')}"
    lines = [f"{path}: {report.status}; every variant verifies {ticks}: there is nothing to explain in those"]
    if report.dropped_ticks:
        lines.append(f"  {counted(report.dropped_ticks, 'tick')} were dropped when it was recorded")
    lines += [f"  {problem}" for problem in (*report.problems, *report.wrong_keyframes)]
    return lines + [
        f"  not reached: {tick_range(one.first_tick, one.last_tick)}: {one.why}" for one in report.unreached
    ]
