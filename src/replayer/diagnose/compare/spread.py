"""The trend of a difference: the number of rows of each field that differ at each tick, and how that number develops.

Two recordings are re-simulated side by side. Each state is proved by its recorded hash before it is compared.
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
    """The rows in which two runs differ, tick by tick.

    Attributes:
        first_tick: the first bad tick; the first column of counts.
        fields: the fields that differ at some tick, in the order in which they begin to differ.
        counts: (fields, ticks) int64, the number of rows that differ.
        trend: of the number of rows: see TapeDifference.
        stopped: why it ends before the requested last tick; None if it does not.
        states: of both runs at first_tick; None if it was not reached.
    """

    first_tick: int
    fields: list[str]
    counts: npt.NDArray[np.int64]
    trend: Trend
    stopped: str | None
    states: tuple[Snapshot, Snapshot] | None = None

    @property
    def last_tick(self) -> int:
        """The last tick whose rows were counted."""
        return self.first_tick + int(self.counts.shape[1]) - 1


def measure_spread(
    one: Cursor, other: Cursor, first_bad: int, last_tick: int, progress: Progress | None = None
) -> DifferenceSpread:
    """Count the rows that differ from first_bad to last_tick. Both cursors are moved.

    Raises RecordingError or MismatchError if one of the cursors cannot reach the state before first_bad.
    """
    for cursor in (one, other):
        cursor.seek(max(first_bad - 1, cursor.tape.first_tick))
    columns: list[dict[str, int]] = []
    stopped, first_states = None, None
    for tick in range(first_bad, last_tick + 1):
        try:
            for cursor in (one, other):
                if cursor.tick != tick:
                    cursor.advance()
                _ensure_recorded(cursor, cursor.tape, tick)
        except (RecordingError, MismatchError) as error:
            stopped = _why(cursor, error)
            break
        states = one.state.snapshot(), other.state.snapshot()
        first_states = first_states or states
        columns.append(_count(*states))
        if progress is not None:
            progress(tick - first_bad + 1, last_tick - first_bad + 1)
    fields = list(dict.fromkeys(name for column in columns for name in column))
    counts = np.array([[column.get(name, 0) for column in columns] for name in fields], np.int64)
    counts = counts.reshape(len(fields), len(columns))
    totals = counts.sum(axis=0).tolist()
    trend: Trend = "transient" if totals and not totals[-1] else trend_of_counts(totals or [0])
    return DifferenceSpread(first_bad, fields, counts, trend, stopped, first_states)


def _ensure_recorded(cursor: Cursor, tape: Tape, tick: int) -> None:
    expected, actual = tape.state_hash(tick), cursor.state.hash()
    if expected != actual:
        raise MismatchError(tick, expected, actual)


def _why(cursor: Cursor, error: Exception) -> str:
    if isinstance(error, MismatchError):
        return f"the simulation that was named does not give the recorded state of {cursor.tape.path} at tick {error.tick:,}"
    return f"{cursor.tape.path}: {error}"


def _count(left: Snapshot, right: Snapshot) -> dict[str, int]:
    """Count the rows that differ, by field. A field that one state lacks, or has in another size, counts completely.

    A different capacity alone counts as one row of each table: the hashes differ, and the states are not equal yet.
    """
    counts = {}
    for difference in compare_states(left, right):
        rows = 1 if difference.only_room else difference.row_count
        counts[difference.field] = rows or _all_rows(difference.field, left, right)
    return counts


def _all_rows(name: str, left: Snapshot, right: Snapshot) -> int:
    slots = [state.layout.slots[name] for state in (left, right) if name in state.layout.slots]
    return max((slot.row_count for slot in slots), default=1)
