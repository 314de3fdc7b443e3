"""Whether the step to a tick may iterate over a set whose order differs between processes, in words."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from recorder.ambient.roots import objects_of
from recorder.errors import RecordingError
from recorder.processes.fork_call import in_a_copy
from replayer.desync.finding import TestedCause
from replayer.desync.sets.set_making import set_line
from replayer.desync.sets.state_sets import OBJECTS_MAX, TooManyError, ordered_by_seed
from replayer.value_text import plain_text
from sim.kernel.state import Snapshot

if TYPE_CHECKING:
    from replayer.playback.cursor import Cursor

_OPEN = "whether the step iterates over such a set is not known"
_BEFORE, _AFTER = "before the step, ", "after the step, "
NOT_FOUND_OUT = f"{_OPEN}: it could not be run again to look"


def set_use(
    make_cursor: Callable[[], Cursor], tick: int, before: Snapshot | None, code: TestedCause | None
) -> str | None:
    """Where such a set is, or why that is not known; None if neither the code nor the state has one.

    before: the state at tick - 1. code: the result of compared_code: of the code that was recorded, nothing else is known.
    """
    try:
        told: str | None = in_a_copy(partial(_looked, make_cursor, tick, before))["told"]
    except RuntimeError:
        return NOT_FOUND_OUT
    if told is None and (code is None or code.suspicious is not False):
        return "whether the recorded code iterates over such a set is not known: it is not known to be the code of now"
    return None if told is None else plain_text(told)


def is_known_set(told: str) -> bool:
    """Return True if a result of set_use names a set, and not the reason why none is known."""
    return told.startswith((_BEFORE, _AFTER))


def _looked(make_cursor: Callable[[], Cursor], tick: int, before: Snapshot | None) -> dict[str, Any]:
    """In a copy of the process: the state before the step and after it, and the code, after what the step imports."""
    cursor = make_cursor()
    try:
        if before is not None:
            cursor.put(tick - 1, before)
            if (held := _held(cursor)) is not None:
                return {"told": f"{_BEFORE}{held}"}
            cursor.advance()
    except RecordingError:  # Of a step that raises; or the state cannot be put.
        before = None
    except TooManyError:
        return {"told": f"{_OPEN}: the state has more than {OBJECTS_MAX:,} objects"}
    if before is None:
        return {"told": NOT_FOUND_OUT}
    try:
        if (held := _held(cursor)) is not None:
            return {"told": f"{_AFTER}{held}"}
    except TooManyError:
        return {"told": f"{_OPEN}: the state has more than {OBJECTS_MAX:,} objects"}
    line = set_line()
    if line is None:
        return {"told": None}
    if line.imported:
        return {"told": f"{_OPEN}: the code of {line.imported} ({line.place}) was not searched for one"}
    return {"told": f"{_OPEN}: {line.place} may make one"}


def _held(cursor: Cursor) -> str | None:
    """Where such a set is in the simulation's objects; None without one."""
    for one in objects_of(cursor.simulation):
        held = ordered_by_seed(one, type(one).__name__)
        if held is not None:
            return held
    return None
