"""Losses of a tape as printed lines: missing segments, damage, ticks without frames or events."""

from __future__ import annotations

from collections.abc import Sequence

from recorder.errors import MissingTickError
from recorder.exit_codes import CORRUPT, SAME
from recorder.format.recording.assembly import NOT_CHECKED
from recorder.text import counted, shown_path
from replayer.status import STATUS_CODES
from replayer.tape.stored_events import ticks_with_events_due
from replayer.tape.tape import Tape
from replayer.value_text import plain_text

PROBLEMS_SHOWN = 3


def tape_code(tape: Tape) -> int:
    """The exit code for the state of a tape alone; reads every block."""
    return CORRUPT if tape.missing_segments or tape.check_blocks() else STATUS_CODES[tape.status]


def incomplete_text(tape: Tape) -> str | None:
    """One line about a tape that is not complete, as far as headers and index tell; None if they show no fault.

    None, too, for a tape that is being recorded: it is as complete as it can be.
    """
    if tape.status in {NOT_CHECKED, "intact"} or (
        tape.status == "incomplete" and not tape.sealed and tape.is_being_written()
    ):
        return None
    faults = [f"the file of segment {number} is missing" for number in tape.missing_segments]
    faults += ["it is damaged"] if any(not damage.torn for damage in tape.damages) else []
    faults += [] if tape.sealed else ["it was not closed, and may be cut off"]
    if tape.drops:
        is_repaired = "repaired" in tape.meta
        faults.append(
            "ticks were dropped, or lost before it was repaired" if is_repaired else "the recording dropped ticks"
        )
    try:
        has = f"ticks {tape.first_tick:,} to {tape.last_tick:,}"
        has += f", without {counted(count, 'tick')}" if (count := _count(tape.missing_ticks())) else ""
    except MissingTickError:
        has = "no tick"
    name = plain_text(shown_path(tape.path))
    return f"{name} is not complete: {'; '.join(faults)}. It has {has}; replay info tells more"


def _count(ranges: Sequence[tuple[int, int]]) -> int:
    return sum(last - first + 1 for first, last in ranges)


def losses(tape: Tape, *, with_events: bool = True) -> tuple[list[str], int]:
    """Lines about everything the tape has lost, and the exit code; reads every block.

    with_events: add a line about the events that are not on the tape and were rebuilt.
    """
    problems = list(dict.fromkeys(str(error) for error in tape.check_blocks()))  # First: it distrusts the index.
    code = CORRUPT if tape.missing_segments or problems else STATUS_CODES[tape.status]
    if code == SAME:
        return [], code
    lines = [f"segment {number} is missing" for number in tape.missing_segments]
    lines += [f"damaged: {problem}" for problem in problems[:PROBLEMS_SHOWN]]
    if len(problems) > PROBLEMS_SHOWN:
        lines.append(f"damaged: {counted(len(problems) - PROBLEMS_SHOWN, 'more place')}, listed by replay verify")
    lines += _ranges("no frames for", tape.missing_ticks())
    if with_events:
        due, missing = ticks_with_events_due(tape.recording)[0], tape.missing_event_ticks()
        if tape.has_function_for("events"):
            due = tape.last_tick + 1  # None can be rebuilt.
        rebuilt = [(max(first, due), last) for first, last in missing if last >= due]
        lines += _ranges("events were not on the tape and were rebuilt for", rebuilt)
        lines += _ranges("no events for", [(first, min(last, due - 1)) for first, last in missing if first < due])
    if not tape.sealed:
        planned = planned_tick(tape)
        lines.append(
            f"the recording was not closed: its last tick is {tape.last_tick:,}"
            + (f" of {planned:,}" if planned > tape.last_tick else "")
        )
    return lines, code


def planned_tick(tape: Tape) -> int:
    """The last tick that the recording was meant to reach; its actual last tick if the tape has no plan."""
    match tape.meta.get("notes"):
        case {"ticks": int(ticks)}:
            return max(ticks, tape.last_tick)
    return tape.last_tick


def _ranges(what: str, ranges: Sequence[tuple[int, int]]) -> list[str]:
    if not ranges:
        return []
    shown = [f"{a:,}" if a == b else f"{a:,} to {b:,}" for a, b in ranges[:PROBLEMS_SHOWN]]
    more = f" and {len(ranges) - PROBLEMS_SHOWN} more ranges" if len(ranges) > PROBLEMS_SHOWN else ""
    return [f"{what} ticks {', '.join(shown)}{more}"]
