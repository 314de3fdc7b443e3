"""What is missing on a tape, in lines for people, so that nobody takes what is left for the whole."""

from __future__ import annotations

from collections.abc import Sequence

from recorder.exit_codes import CORRUPT, SAME
from recorder.text import counted
from replayer.status import STATUS_CODES
from replayer.tape.tape import Tape

PLACES_SHOWN = 3


def tape_code(tape: Tape) -> int:
    """What the state of a tape alone gives; every block is read."""
    return CORRUPT if tape.missing_segments or tape.check_blocks() else STATUS_CODES[tape.status]


def losses(tape: Tape, *, events_wanted: bool = True) -> tuple[list[str], int]:
    """What the tape has lost, and the exit code that this gives; every block is read.

    events_wanted: whether events that are not on the tape are made again, which is told then.
    """
    problems = list(dict.fromkeys(str(error) for error in tape.check_blocks()))  # First: it distrusts the index.
    code = CORRUPT if tape.missing_segments or problems else STATUS_CODES[tape.status]
    if code == SAME:
        return [], code
    found = [f"segment {number} is missing" for number in tape.missing_segments]
    found += [f"damaged: {problem}" for problem in problems[:PLACES_SHOWN]]
    if len(problems) > PLACES_SHOWN:
        found.append(f"damaged: {counted(len(problems) - PLACES_SHOWN, 'more place')}, which replay verify tells")
    found += _ranges("no frames are left of", tape.missing_ticks())
    if events_wanted:
        found += _ranges("no events are on the tape, so that they were made again, of", tape.missing_event_ticks())
    if not tape.sealed:
        planned = planned_tick(tape)
        found.append(
            f"it was not closed: its last tick is {tape.last_tick:,}"
            + (f" of {planned:,}" if planned > tape.last_tick else "")
        )
    return found, code


def planned_tick(tape: Tape) -> int:
    """The tick that the recording was to reach; where it is if it does not say."""
    match tape.meta.get("notes"):
        case {"ticks": int(ticks)}:
            return max(ticks, tape.last_tick)
    return tape.last_tick


def _ranges(what: str, ranges: Sequence[tuple[int, int]]) -> list[str]:
    if not ranges:
        return []
    shown = [f"{a:,}" if a == b else f"{a:,} to {b:,}" for a, b in ranges[:PLACES_SHOWN]]
    more = f" and {len(ranges) - PLACES_SHOWN} more ranges" if len(ranges) > PLACES_SHOWN else ""
    return [f"{what} ticks {', '.join(shown)}{more}"]
