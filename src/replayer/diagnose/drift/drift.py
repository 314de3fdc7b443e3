"""Measure the drift of a replay that is not bit-exact: interval by interval, snapping to each keyframe.

For simulations that give slightly different floats elsewhere (a different processor, a physics engine). A seek never
simulates further than from one keyframe to the next. So the drift at the end of an interval bounds the error of a seek.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import attrs
import numpy as np
import numpy.typing as npt

from recorder.errors import CorruptError, MissingTickError, RecordingError, SimulationFailedError, TornError
from replayer.playback.cursor import Cursor
from replayer.playback.make_simulation import Factory, make_simulation
from replayer.tape.tape import Tape
from replayer.timeline.intervals import Interval, list_intervals, run_each
from sim.kernel.schema import Slot
from sim.kernel.state import Snapshot

Progress = Callable[[int, int], None]  # Ticks done, total number of ticks.


@attrs.frozen
class FieldDrift:
    """The error of one field: recorded against replayed values, over the elements whose bytes differ.

    Attributes:
        field: its full name.
        row_count: the number of rows that differ.
        max_abs, median_abs: |recorded - replayed|; exact for integers, 0 if only not finite values differ.
        max_rel, median_rel: that divided by the larger of the two magnitudes.
        max_ulp: the largest distance in floats of this dtype; None for other dtypes. -0.0 and 0.0 are neighbours.
        not_finite: elements that are NaN or infinite in one state or both; the other figures leave them out.
        note: set where the field cannot be compared element by element.
    """

    field: str
    row_count: int
    max_abs: float = 0.0
    median_abs: float = 0.0
    max_rel: float = 0.0
    median_rel: float = 0.0
    max_ulp: int | None = None
    not_finite: int = 0
    note: str | None = None


@attrs.frozen
class IntervalDrift:
    """The drift of one interval.

    Attributes:
        start_tick: the tick of the keyframe that was snapped to.
        end_tick: the last simulated tick: that of the next keyframe, or the end of the tape.
        first_bad: the first tick whose hash differs; None if none does.
        bad_ticks: the number of ticks whose hashes differ.
        compared: True if recorded values are known at end_tick: only then are fields compared.
        fields: the fields that differ there.
        failed: the error that the simulation raised, None if it did not.
        unreached: why ticks are missing, None if none are.
        bad_at_end: True if the hash of end_tick differs; if no field does, only capacities of tables or blobs differ.
    """

    start_tick: int
    end_tick: int
    first_bad: int | None
    bad_ticks: int
    compared: bool
    fields: list[FieldDrift]
    failed: str | None = None
    unreached: str | None = None
    bad_at_end: bool = False

    @property
    def drifted(self) -> bool:
        """True if anything differs from the tape."""
        return self.first_bad is not None or self.failed is not None

    def growth(self, drift: FieldDrift) -> float:
        """The growth of a field's largest error per tick, from the first bad tick to the end."""
        assert self.first_bad is not None
        return drift.max_abs / (self.end_tick - self.first_bad + 1)


@attrs.frozen
class DriftReport:
    """The drift of a complete tape.

    Attributes:
        status: of the tape.
        compared_ticks: ticks whose hashes were compared.
        bad_ticks: the number of them that differ.
        intervals: all of them, in the order of their ticks.
        problems: damage.
    """

    status: str
    compared_ticks: int
    bad_ticks: int
    intervals: list[IntervalDrift]
    problems: list[RecordingError]

    @property
    def exact(self) -> bool:
        """True if no reachable tick differs."""
        return not any(interval.drifted for interval in self.intervals)

    def worst(self) -> dict[str, tuple[IntervalDrift, FieldDrift]]:
        """For each field that differs at the end of an interval: the interval where its relative error is largest."""
        worst: dict[str, tuple[IntervalDrift, FieldDrift]] = {}
        for interval in self.intervals:
            for drift in interval.fields:
                if drift.field not in worst or _badness(drift) > _badness(worst[drift.field][1]):
                    worst[drift.field] = (interval, drift)
        return dict(sorted(worst.items(), key=lambda item: _badness(item[1][1]), reverse=True))


def _badness(drift: FieldDrift) -> tuple[bool, int, float, float]:
    """Sort key: an error that cannot be measured is worse than any figure."""
    return drift.note is not None, drift.not_finite, drift.max_rel, drift.max_abs


def measure_drift(
    path: str | os.PathLike[str], world: Factory | None = None, *, progress: Progress | None = None
) -> DriftReport:
    """Replay a tape interval by interval and measure what differs.

    Each interval has a fresh simulation in a separate process, as in verify. One that had run the other intervals would
    carry hidden state along, and be exact where a seek is not.

    Raises as Timeline does on opening, and as make_simulation.
    """
    with Tape(path) as tape:
        problems = tape.check_blocks()
        if not tape.keyframes:
            return DriftReport("corrupt" if problems else tape.status, 0, 0, [], problems)
        make_simulation(tape, world)  # An unfit simulation raises here, not in a worker.
        # The tape may end with a keyframe, which the interval before it has reached.
        chosen = [interval for interval in list_intervals(tape) if interval.final_tick != interval.place.tick]
        intervals, compared, done = [], 0, 0

        def show(ahead: int) -> None:
            if progress is not None:
                progress(done + ahead, tape.last_tick - tape.first_tick)

        for interval in run_each(tape, world, chosen, 1, show, _run_interval):
            compared += interval.end_tick - interval.start_tick
            done = interval.end_tick - tape.first_tick
            intervals.append(interval)
            show(0)
        bad = sum(interval.bad_ticks for interval in intervals)
        return DriftReport("corrupt" if problems else tape.status, compared, bad, intervals, problems)


def _run_interval(cursor: Cursor, interval: Interval, on_progress: Callable[[int], None]) -> IntervalDrift:
    """Run one interval and measure its drift; on_progress is called with the number of ticks compared."""
    tape, start = cursor.tape, interval.place.tick
    tick, first_bad, last_bad, bad = start, None, None, 0
    failed, unreached = None, None
    try:
        cursor.put(start, tape.snapshot(interval.place))
        while tick < interval.final_tick:
            cursor.advance()
            tick += 1
            if cursor.difference() is not None:
                first_bad, last_bad, bad = first_bad or tick, tick, bad + 1
            on_progress(tick - start)
    except SimulationFailedError as error:
        failed = str(error)
    except (CorruptError, TornError, MissingTickError) as error:
        unreached = str(error)
    recorded = None if failed or unreached else _recorded_at(tape, tick)
    fields = [] if recorded is None or first_bad is None else compare_values(recorded, cursor.state.snapshot())
    return IntervalDrift(start, tick, first_bad, bad, recorded is not None, fields, failed, unreached, last_bad == tick)


def _recorded_at(tape: Tape, tick: int) -> Snapshot | None:
    place = tape.keyframe_at(tick)
    try:
        return tape.snapshot(place) if place is not None else None
    except (CorruptError, TornError):
        return None  # Reported with its own interval.


def compare_values(recorded: Snapshot, replayed: Snapshot) -> list[FieldDrift]:
    """The fields that differ between two states, with their errors, in the arena's order."""
    drifts = []
    for name in dict.fromkeys([*recorded, *replayed]):
        ours, theirs = (state[name] if name in state.layout.slots else None for state in (recorded, replayed))
        if ours is None or theirs is None:
            drifts.append(FieldDrift(name, 0, note=f"only {'replayed' if ours is None else 'recorded'}"))
        elif ours.shape != theirs.shape or ours.dtype != theirs.dtype:
            note = f"{ours.shape} {ours.dtype} recorded, {theirs.shape} {theirs.dtype} replayed"
            drifts.append(FieldDrift(name, 0, note=note))
        elif ours.tobytes() != theirs.tobytes():
            drifts.append(
                _measure(recorded.layout.slots[name], np.ascontiguousarray(ours), np.ascontiguousarray(theirs))
            )
    return drifts


def _measure(slot: Slot, recorded: npt.NDArray[Any], replayed: npt.NDArray[Any]) -> FieldDrift:
    rows = (
        recorded.reshape(-1).view(np.uint8).reshape(-1, slot.row_bytes)
        != replayed.reshape(-1).view(np.uint8).reshape(-1, slot.row_bytes)
    ).any(axis=1)
    ours, theirs = _numbers(recorded), _numbers(replayed)
    size = ours.dtype.itemsize
    differs = (ours.view(f"u{size}") != theirs.view(f"u{size}")).reshape(-1)
    ours, theirs = ours[differs], theirs[differs]
    if ours.dtype.kind != "f":
        distance = _integer_distance(ours, theirs)
        return _drift(slot.name, int(rows.sum()), distance, _relative(distance, ours, theirs), None, 0)
    finite = np.isfinite(ours) & np.isfinite(theirs)
    not_finite, ours, theirs = int((~finite).sum()), ours[finite], theirs[finite]
    ulps = _ulps(ours, theirs)
    with np.errstate(over="ignore"):  # Two finite floats may be further apart than the largest one.
        distance = np.minimum(abs(ours.astype(np.float64) - theirs.astype(np.float64)), np.finfo(np.float64).max)
    max_ulp = int(ulps.max()) if len(ulps) else 0
    return _drift(slot.name, int(rows.sum()), distance, _relative(distance, ours, theirs), max_ulp, not_finite)


def _drift(
    name: str,
    rows: int,
    distance: npt.NDArray[Any],
    relative: npt.NDArray[np.float64],
    ulp: int | None,
    not_finite: int,
) -> FieldDrift:
    if not len(distance):
        return FieldDrift(name, rows, max_ulp=ulp, not_finite=not_finite)
    return FieldDrift(
        name,
        rows,
        distance.max().item(),
        float(np.median(distance)),
        float(relative.max()),
        float(np.median(relative)),
        ulp,
        not_finite,
    )


def _numbers(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The elements as a flat array; a complex number as two floats, a boolean as 0 or 1."""
    flat = array.reshape(-1)
    if flat.dtype.kind == "c":
        return flat.view(f"<f{flat.dtype.itemsize // 2}")
    return flat.view(np.uint8) if flat.dtype.kind == "b" else flat


def _integer_distance(ours: npt.NDArray[Any], theirs: npt.NDArray[Any]) -> npt.NDArray[np.uint64]:
    """The exact distance, also beyond int64: unsigned arithmetic wraps to it."""
    larger, smaller = np.maximum(ours, theirs), np.minimum(ours, theirs)
    distance: npt.NDArray[np.uint64] = larger.astype(np.uint64) - smaller.astype(np.uint64)
    return distance


def _relative(distance: npt.NDArray[Any], ours: npt.NDArray[Any], theirs: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    larger = np.maximum(abs(ours.astype(np.float64)), abs(theirs.astype(np.float64)))
    relative: npt.NDArray[np.float64] = distance / np.where(larger == 0, 1.0, larger)
    return relative


def _ulps(ours: npt.NDArray[Any], theirs: npt.NDArray[Any]) -> npt.NDArray[np.uint64]:
    """The distance of each pair of floats, in steps from one float to the next."""
    first, second = _ordered(ours), _ordered(theirs)
    steps: npt.NDArray[np.uint64] = np.maximum(first, second) - np.minimum(first, second)
    return steps


def _ordered(floats: npt.NDArray[Any]) -> npt.NDArray[np.uint64]:
    """Integers in the order of the floats, neighbours one apart: the bits, reversed below zero."""
    width = 8 * floats.dtype.itemsize
    bits = floats.view(f"<u{floats.dtype.itemsize}").astype(np.uint64)
    sign = np.uint64(1 << (width - 1))
    ordered: npt.NDArray[np.uint64] = np.where(bits & sign != 0, np.uint64((1 << width) - 1) - bits, bits + sign)
    return ordered
