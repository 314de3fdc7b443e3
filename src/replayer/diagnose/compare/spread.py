"""What becomes of a difference: how many rows of each field differ at each tick, and whether that grows, stays or ends.

Two recordings are re-simulated side by side; each state is proved by its recorded hash before it is compared.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs
import numpy as np
import numpy.typing as npt

from recorder.errors import RecordingError
from replayer.desync.state_diff import compare_states
from replayer.diagnose.compare.tape_diff import Trend, trend_of_counts
from replayer.playback.cursor import Cursor, MismatchError
from replayer.tape.tape import Tape
from sim.kernel.state import Snapshot

Progress = Callable[[int, int], None]


@attrs.frozen(eq=False)
class DifferenceSpread:
    """How two runs part.

    Attributes:
        first_tick: the first bad one; the first column of counts.
        fields: those that differ at some tick, in the order in which they begin to.
        counts: (fields, ticks) int64, how many rows differ.
        trend: what became of it, by the number of rows: see TapeDifference.
        stopped: why it ends before the last tick that was asked for; None if it does not.
    """

    first_tick: int
    fields: list[str]
    counts: npt.NDArray[np.int64]
    trend: Trend
    stopped: str | None


def measure_spread(
    one: Cursor, other: Cursor, first_bad: int, last_tick: int, progress: Progress | None = None
) -> DifferenceSpread:
    """Count what differs from first_bad to last_tick. Both cursors are moved.

    Raises RecordingError or MismatchError if the state before first_bad cannot be had on one side.
    """
    for cursor in (one, other):
        cursor.seek(max(first_bad - 1, cursor.tape.first_tick))
    columns: list[dict[str, int]] = []
    stopped = None
    for tick in range(first_bad, last_tick + 1):
        try:
            for cursor in (one, other):
                if cursor.tick != tick:
                    cursor.advance()
                _ensure_recorded(cursor, cursor.tape, tick)
        except (RecordingError, MismatchError) as error:
            stopped = _why(cursor, error)
            break
        columns.append(_count(one.state.snapshot(), other.state.snapshot()))
        if progress is not None:
            progress(tick - first_bad + 1, last_tick - first_bad + 1)
    fields = list(dict.fromkeys(name for column in columns for name in column))
    counts = np.array([[column.get(name, 0) for column in columns] for name in fields], np.int64)
    counts = counts.reshape(len(fields), len(columns))
    totals = counts.sum(axis=0).tolist()
    trend: Trend = "transient" if totals and not totals[-1] else trend_of_counts(totals or [0])
    return DifferenceSpread(first_bad, fields, counts, trend, stopped)


def _ensure_recorded(cursor: Cursor, tape: Tape, tick: int) -> None:
    expected, actual = tape.state_hash(tick), cursor.state.hash()
    if expected != actual:
        raise MismatchError(tick, expected, actual)


def _why(cursor: Cursor, error: Exception) -> str:
    if isinstance(error, MismatchError):
        return f"the code at hand does not give the states of {cursor.tape.path} at tick {error.tick:,}"
    return f"{cursor.tape.path}: {error}"


def _count(left: Snapshot, right: Snapshot) -> dict[str, int]:
    """Rows that differ, by field; of fields that one side alone has, or in other sizes, all rows of the larger one.

    Another room of tables alone is a difference in one row of each: hashes differ, so that nothing is the same yet.
    """
    counts = {}
    for difference in compare_states(left, right):
        rows = 1 if difference.only_room else difference.row_count
        counts[difference.field] = rows or _all_rows(difference.field, left, right)
    return counts


def _all_rows(name: str, left: Snapshot, right: Snapshot) -> int:
    slots = [state.layout.slots[name] for state in (left, right) if name in state.layout.slots]
    return max((slot.row_count for slot in slots), default=1)
