"""Compare two recordings tick by tick by their frames alone: hashes of states, fields and phases, and inputs.

No simulation and no state is needed: 16 bits for each field show the fields that differ at every tick. The tapes may
differ in keyframe interval, block size, durability and version of the code. The ticks that both have are compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Literal

import attrs

from recorder.errors import CorruptError, RecordingError, TornError
from recorder.format.blocks.frame import Frame
from replayer.desync.state_diff import STATE_LABELS, FieldDifference, compare_states
from replayer.tape.tape import Tape
from sim.kernel.hashing import FIELD_HASH_BYTES, split_short
from sim.kernel.plain_data import encode_plain
from sim.kernel.state import Snapshot

Progress = Callable[[int, int], None]
Trend = Literal["transient", "bounded", "spreading"]

SPREAD_FACTOR = 2.0  # A difference spreads if it is this many times as large in the last quarter as at the beginning.
PROGRESS_TICKS = 2000


@attrs.frozen
class TickDifference:
    """One tick at which the states differ.

    Attributes:
        tick: the tick.
        fields: names of the fields that differ; None where the tapes have no hashes of the fields.
    """

    tick: int
    fields: tuple[str, ...] | None


@attrs.frozen(eq=False)
class TapeDifference:
    """The difference between two recordings.

    Attributes:
        first_tick, last_tick: of the ticks that both have.
        compared_ticks: the number of them that could be compared.
        unreadable_ticks: the number that could not, because one of the tapes lacks the frame.
        inputs_tick: the first tick with different inputs; None if there is none.
        ticks: the ticks with different states, in order.
        phase: the first phase of the first of them after which the states differ; None if the tapes do not have it.
        trend: how the difference develops; None without one. "transient": the states become equal again and stay so;
            "spreading": more and more differs; "bounded": as much as in the beginning, or less.
        keyframe_tick: the first tick, from the first bad one, of which both have a keyframe; None if there is none.
        differences: by field, at keyframe_tick; recorded is the value on the first tape, replayed on the second.
        states: of both tapes at keyframe_tick; None without one.
        is_key_order: True if the inputs of inputs_tick differ only in the order of the keys of dicts.
    """

    first_tick: int
    last_tick: int
    compared_ticks: int
    unreadable_ticks: int
    inputs_tick: int | None
    ticks: list[TickDifference]
    phase: str | None
    trend: Trend | None
    keyframe_tick: int | None
    differences: list[FieldDifference]
    states: tuple[Snapshot, Snapshot] | None
    is_key_order: bool = False

    @property
    def first_bad(self) -> int | None:
        """The first tick with different states; None if there is none."""
        return self.ticks[0].tick if self.ticks else None

    @property
    def same(self) -> bool:
        """True if all ticks that both have could be compared and are equal, inputs included."""
        return not self.ticks and self.inputs_tick is None and not self.unreadable_ticks


def diff_tapes(one: Tape, other: Tape, progress: Progress | None = None) -> TapeDifference:
    """Compare two tapes. Raises MissingTickError if one has no state, ValueError if they have no tick in common."""
    first, last = max(one.first_tick, other.first_tick), min(one.last_tick, other.last_tick)
    if first > last:
        raise ValueError(
            f"expected tapes with common ticks, got {one.first_tick:,} to {one.last_tick:,} "
            f"and {other.first_tick:,} to {other.last_tick:,}"
        )
    tapes = _ComparedTape(one), _ComparedTape(other)
    ticks: list[TickDifference] = []
    phase, inputs_tick, compared, unreadable, is_key_order = None, None, 0, 0, False
    if (states := _states_at(one, other, first)) is not None:
        compared = 1
        if differences := _differences(states):
            ticks.append(TickDifference(first, tuple(entry.field for entry in differences)))
    elif (hashes := _hashes_at(one, other, first)) is not None:
        compared = 1
        if hashes[0] != hashes[1]:
            ticks.append(TickDifference(first, None))
    for tick, pair in _pairs(one, other, first + 1, last):
        if progress is not None and tick % PROGRESS_TICKS == 0:
            progress(tick - first, last - first)
        equal = _equal(one, other, *pair) if pair is not None else None
        if pair is None or equal is None:
            unreadable += 1
            continue
        compared += 1
        if inputs_tick is None and pair[0].encoded_inputs != pair[1].encoded_inputs:
            inputs_tick = tick
            is_key_order = _differ_in_order(pair[0].inputs, pair[1].inputs)
        if not equal:
            if not ticks:
                phase = _first_phase(tapes, *pair)
            ticks.append(_compare(tapes, *pair))
    keyframe_tick, states = _later_states(one, other, ticks[0].tick) if ticks else (None, None)
    differences = _differences(states) if states is not None else []
    trend = _trend(ticks, last)
    return TapeDifference(
        first,
        last,
        compared,
        unreadable,
        inputs_tick,
        ticks,
        phase,
        trend,
        keyframe_tick,
        differences,
        states,
        is_key_order,
    )


def _differ_in_order(one: Any, other: Any) -> bool:
    """Return True if two inputs that are encoded differently are equal but for the order of the keys of dicts."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_differ_in_order(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple) and type(one) is type(other):
        return len(one) == len(other) and all(map(_differ_in_order, one, other))
    return type(one) is type(other) and encode_plain(one) == encode_plain(other)


class _ComparedTape:
    """One of the tapes, with the names of its fields and phases."""

    def __init__(self, tape: Tape) -> None:
        self.tape = tape
        self._names: dict[int, list[str] | None] = {}
        phases = tape.meta.get("phases")
        self.phases = phases if isinstance(phases, list) else []

    def names(self, frame: Frame) -> list[str] | None:
        """The names of the fields that a frame has hashes of; None if it has none, or no keyframe names them."""
        count = len(frame.field_hashes) // FIELD_HASH_BYTES
        if count not in self._names:
            self._names[count] = self._find_names(frame.tick, count) if count else None
        return self._names[count]

    def _find_names(self, tick: int, count: int) -> list[str] | None:
        """From a keyframe before with as many fields, or the next one after: a schema may change between keyframes."""
        following = self.tape.keyframe_after(tick)
        for place in [*self.tape.keyframes_at_or_before(tick), *([following] if following else [])]:
            try:
                names = list(self.tape.snapshot(place).layout.slots)
            except (CorruptError, TornError):
                continue
            if len(names) == count:
                return names
        return None

    def hashes(self, frame: Frame) -> dict[str, bytes] | None:
        """The hashes of the fields by name; None as for names."""
        names = self.names(frame)
        if names is None:
            return None
        hashes, count = frame.field_hashes, len(names)
        return {name: hashes[i : i + 1] + hashes[count + i : count + i + 1] for i, name in enumerate(names)}


def _pairs(one: Tape, other: Tape, first: int, last: int) -> Iterator[tuple[int, tuple[Frame, Frame] | None]]:
    """Each tick with both frames; None where one is missing or damaged."""
    for tick, (left, right) in enumerate(
        zip(_frames(one, first, last), _frames(other, first, last), strict=True), first
    ):
        yield tick, (left, right) if left is not None and right is not None else None


def _frames(tape: Tape, first: int, last: int) -> Iterator[Frame | None]:
    for run in tape.recording.runs(first, last):
        if run.error is not None:
            yield from (None for _ in range(run.first_tick, run.last_tick + 1))
        else:
            yield from run.frames


def _equal(one: Tape, other: Tape, left: Frame, right: Frame) -> bool | None:
    """Whether the states of a tick are equal; None if that is not known.

    A frame may have a link in place of the hash of the state. Equal links mean equal states; different ones do not mean
    different states, since each tape begins its chain at its own keyframes.
    """
    if left.identity == right.identity:
        return True
    if left.state_hash is not None and right.state_hash is not None:
        return False
    hashes = _hashes_at(one, other, left.tick)
    return None if hashes is None else hashes[0] == hashes[1]


def _compare(tapes: tuple[_ComparedTape, _ComparedTape], left: Frame, right: Frame) -> TickDifference:
    """The difference between two frames of a tick whose states differ."""
    if left.field_hashes == right.field_hashes != b"" and tapes[0].names(left) == tapes[1].names(right):
        # Only capacities differ, or 16 bits are equal by chance: no field can be named.
        return TickDifference(left.tick, ())
    hashes = tapes[0].hashes(left), tapes[1].hashes(right)
    if hashes[0] is None or hashes[1] is None:
        return TickDifference(left.tick, None)
    names = dict.fromkeys([*hashes[0], *hashes[1]])
    return TickDifference(left.tick, tuple(name for name in names if hashes[0].get(name) != hashes[1].get(name)))


def _first_phase(tapes: tuple[_ComparedTape, _ComparedTape], left: Frame, right: Frame) -> str | None:
    """The first phase after which the states of a tick differ."""
    names = tapes[0].phases
    ours, theirs = split_short(left.phase_hashes), split_short(right.phase_hashes)
    if names != tapes[1].phases or not len(ours) == len(theirs) == len(names):
        return None
    return next((str(name) for name, one, other in zip(names, ours, theirs, strict=True) if one != other), None)


def _states_at(one: Tape, other: Tape, tick: int) -> tuple[Snapshot, Snapshot] | None:
    """The states in the keyframes of a tick, which need not have a frame; None if a keyframe is missing."""
    states = []
    for tape in (one, other):
        place = tape.keyframe_at(tick)
        if place is None:
            return None
        try:
            states.append(tape.snapshot(place))
        except RecordingError:
            return None
    return states[0], states[1]


def _hashes_at(one: Tape, other: Tape, tick: int) -> tuple[int, int] | None:
    """The hashes of the states of a tick, from a frame or a keyframe of each tape; None if one has neither."""
    try:
        return one.state_hash(tick), other.state_hash(tick)
    except RecordingError:
        return None


def _differences(states: tuple[Snapshot, Snapshot]) -> list[FieldDifference]:
    return [] if states[0].hash() == states[1].hash() else compare_states(*states, STATE_LABELS)


def _later_states(one: Tape, other: Tape, tick: int) -> tuple[int | None, tuple[Snapshot, Snapshot] | None]:
    """The first tick, from tick on, of which both have a keyframe, and the states there."""
    left, right = one.keyframe_after(tick), other.keyframe_after(tick)
    while left is not None and right is not None:
        if left.tick == right.tick:
            states = _states_at(one, other, left.tick)
            if states is not None:
                return left.tick, states
        last = max(left.tick, right.tick) + (left.tick == right.tick)
        left, right = one.keyframe_after(last), other.keyframe_after(last)
    return None, None


def _trend(ticks: list[TickDifference], last_tick: int) -> Trend | None:
    """The trend of a difference by the number of fields that differ; see TapeDifference."""
    if not ticks:
        return None
    if ticks[-1].tick < last_tick:
        return "transient"
    return trend_of_counts([len(one.fields) if one.fields else 1 for one in ticks])


def trend_of_counts(counts: list[int]) -> Trend:
    """Decide if a difference spreads, by how much differs at each tick since it began."""
    quarter = max(1, len(counts) // 4)
    beginning, end = sum(counts[:quarter]) / quarter, sum(counts[-quarter:]) / quarter
    return "spreading" if end >= SPREAD_FACTOR * min(beginning, counts[0]) and end > counts[0] else "bounded"
