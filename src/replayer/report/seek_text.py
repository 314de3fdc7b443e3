"""Output of ``replay seek``, as text and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from recorder.location.tape_location import Location
from recorder.text import counted
from recorder.visible_text import print_visible
from replayer.value_text import to_json

if TYPE_CHECKING:
    from replayer.timeline.timeline import SeekReport

SECTION_CHARS = 100  # Of a section in a line.


def seek_facts(
    report: SeekReport,
    summary: dict[str, str],
    fields: dict[str, Any],
    aux: dict[str, Any] | None = None,
    ended: Any = None,
) -> dict[str, Any]:
    """The JSON object of ``replay seek --json``.

    aux: the sections at the tick; None if the tape has none of any tick. ended: why the run ended at this tick.
    """
    sections = {} if aux is None else {"aux": to_json(aux)}
    return (
        sections
        | ({} if ended is None else {"ended": ended})
        | {
            "tick": report.tick,
            "state_hash": f"{report.state_hash:016x}",
            "keyframe_tick": report.keyframe_tick,
            "simulated_ticks": report.simulated_ticks,
            "applied_ticks": report.applied_ticks,
            "milliseconds": round(report.milliseconds, 3),
            "summary": summary,
            "fields": to_json(fields),
        }
    )


def ended_lines(ended: Any) -> list[str]:
    """A line for the end of the run, if it ended at this tick. ended: the outcome, as to_json returns it."""
    if ended is None:
        return []
    from replayer.report.tape_facts import outcome_text  # noqa: PLC0415 - it takes time, and few seeks go to the end

    return [f"ended: {outcome_text(ended)}"]


def section_lines(aux: dict[str, Any] | None) -> list[str]:
    """A line for each section at a tick."""
    return [f"aux {name}: {short_text(value)}" for name, value in (aux or {}).items()]


def short_text(value: Any) -> str:
    """The value of a section in a line."""
    if isinstance(value, bytes) and len(value) > SECTION_CHARS // 2:
        return f"{len(value):,} bytes, {value[:16].hex()}…"
    text = repr(to_json(value))
    return text if len(text) <= SECTION_CHARS else f"{text[:SECTION_CHARS]}… ({len(text):,} characters)"


def _route(report: SeekReport) -> str:
    if report.applied_ticks:
        return f"the changes of {counted(report.applied_ticks, 'tick')} applied"
    return f"{counted(report.simulated_ticks, 'tick')} re-simulated"


def print_seek(path: Location, report: SeekReport, summary: Sequence[str]) -> None:
    """Print the result of a seek and a summary of the state, as lines."""
    print_visible(
        f"tick {report.tick:,} of {path}: keyframe at tick {report.keyframe_tick:,}, "
        f"{_route(report)}, {report.milliseconds:.1f} ms"
    )
    print_visible(f"  state hash: {report.state_hash:016x}, as recorded")
    for line in summary:
        print_visible(f"  {line}")
