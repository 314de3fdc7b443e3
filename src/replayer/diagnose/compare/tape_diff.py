"""Compare two recordings tick by tick by what their frames say alone: hashes of states, fields and phases, and inputs.

No simulation is needed, and no state: 16 bits a field name what differs at every tick. They may differ in cadence of
keyframes, size of blocks, durability, version of the code; ticks are compared that both have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal

import attrs

from recorder.errors import CorruptError, RecordingError, TornError
from recorder.format.blocks.frame import Frame
from replayer.desync.state_diff import STATE_LABELS, FieldDifference, compare_states
from replayer.tape.tape import Tape
from sim.kernel.hashing import FIELD_HASH_BYTES, split_short

Progress = Callable[[int, int], None]
Trend = Literal["transient", "bounded", "spreading"]

SPREAD_FACTOR = 2.0  # So many times as much differs in the last quarter as at the beginning: it spreads.
TELL_TICKS = 2000


@attrs.frozen
class TickDifference:
    """One tick at which the states differ.

    Attributes:
        tick: which.
        fields: names of the fields that differ; None where the tapes do not say it of this tick.
    """

    tick: int
    fields: tuple[str, ...] | None


@attrs.frozen(eq=False)
class TapeDifference:
    """How two recordings differ.

    Attributes:
        first_tick, last_tick: of the ticks that both have.
        compared_ticks: how many of them could be compared.
        unreadable_ticks: how many could not, because one of the tapes has no frame of theirs.
        inputs_tick: the first with other inputs; None if there is none.
        ticks: those with other states, in order.
        phase: of the first of them, behind which the states differ first; None if the tapes do not say.
        trend: what became of the difference; None without one. "transient": states were the same again up to the end;
            "spreading": more and more differs; "bounded": as much as in the beginning, or less.
        keyframe_tick: the first, from the first bad tick on, of which both have a keyframe; None if there is none.
        differences: by field, at keyframe_tick; recorded is the first tape's, replayed the second's.
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

    @property
    def first_bad(self) -> int | None:
        """The first tick with another state; None if there is none."""
        return self.ticks[0].tick if self.ticks else None

    @property
    def same(self) -> bool:
        """All ticks that both have could be compared and are the same, inputs included."""
        return not self.ticks and self.inputs_tick is None and not self.unreadable_ticks


def diff_tapes(one: Tape, other: Tape, progress: Progress | None = None) -> TapeDifference:
    """Compare two tapes. Raises MissingTickError if one has no state, ValueError if they have no tick in common."""
    first, last = max(one.first_tick, other.first_tick), min(one.last_tick, other.last_tick)
    if first > last:
        raise ValueError(
            f"ticks {one.first_tick:,} to {one.last_tick:,} and {other.first_tick:,} to {other.last_tick:,} "
            "have nothing in common"
        )
    sides = _Side(one), _Side(other)
    ticks: list[TickDifference] = []
    phase, inputs_tick, compared, unreadable = None, None, 0, 0
    if (state := _first_states(one, other, first)) is not None:
        compared = 1
        if state:
            ticks.append(TickDifference(first, tuple(difference.field for difference in state)))
    for tick, pair in _pairs(one, other, first + 1, last):
        if progress is not None and tick % TELL_TICKS == 0:
            progress(tick - first, last - first)
        if pair is None:
            unreadable += 1
            continue
        compared += 1
        if inputs_tick is None and pair[0].encoded_inputs != pair[1].encoded_inputs:
            inputs_tick = tick
        found = _compare(sides, *pair)
        if found is not None:
            if not ticks:
                phase = _first_phase(sides, *pair)
            ticks.append(found)
    keyframe_tick, differences = _values(one, other, ticks[0].tick) if ticks else (None, [])
    trend = _trend(ticks, last)
    return TapeDifference(
        first, last, compared, unreadable, inputs_tick, ticks, phase, trend, keyframe_tick, differences
    )


class _Side:
    """One of the tapes, and the names that its hashes are of."""

    def __init__(self, tape: Tape) -> None:
        self.tape = tape
        self._names: dict[int, list[str] | None] = {}
        phases = tape.meta.get("phases")
        self.phases = phases if isinstance(phases, list) else []

    def names(self, frame: Frame) -> list[str] | None:
        """Of the fields of a frame's hashes, in their order; None if it has none, or no keyframe names them."""
        count = len(frame.field_hashes) // FIELD_HASH_BYTES
        if count not in self._names:
            self._names[count] = self._find_names(frame.tick, count) if count else None
        return self._names[count]

    def _find_names(self, tick: int, count: int) -> list[str] | None:
        """From the keyframe before that has as many fields, or the one behind: a schema may change between them."""
        behind = self.tape.keyframe_after(tick)
        for place in [*self.tape.keyframes_at_or_before(tick), *([behind] if behind else [])]:
            try:
                names = list(self.tape.snapshot(place).layout.slots)
            except (CorruptError, TornError):
                continue
            if len(names) == count:
                return names
        return None

    def hashes(self, frame: Frame) -> dict[str, bytes] | None:
        """Of the fields, by name; None as for names."""
        names = self.names(frame)
        if names is None:
            return None
        found, count = frame.field_hashes, len(names)
        return {name: found[i : i + 1] + found[count + i : count + i + 1] for i, name in enumerate(names)}


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


def _compare(sides: tuple[_Side, _Side], left: Frame, right: Frame) -> TickDifference | None:
    """How two frames of a tick differ; None if their states are the same."""
    if left.state_hash == right.state_hash:
        return None
    if left.field_hashes == right.field_hashes != b"" and sides[0].names(left) == sides[1].names(right):
        # Only capacities differ, or 16 bits are equal by chance: no field can be named.
        return TickDifference(left.tick, ())
    hashes = sides[0].hashes(left), sides[1].hashes(right)
    if hashes[0] is None or hashes[1] is None:
        return TickDifference(left.tick, None)
    names = dict.fromkeys([*hashes[0], *hashes[1]])
    return TickDifference(left.tick, tuple(name for name in names if hashes[0].get(name) != hashes[1].get(name)))


def _first_phase(sides: tuple[_Side, _Side], left: Frame, right: Frame) -> str | None:
    """The phase behind which the states of a tick differ first."""
    names = sides[0].phases
    ours, theirs = split_short(left.phase_hashes), split_short(right.phase_hashes)
    if names != sides[1].phases or not len(ours) == len(theirs) == len(names):
        return None
    return next((str(name) for name, one, other in zip(names, ours, theirs, strict=True) if one != other), None)


def _first_states(one: Tape, other: Tape, tick: int) -> list[FieldDifference] | None:
    """How the states of the first common tick differ, which need not have a frame; None if a keyframe is missing."""
    states = []
    for tape in (one, other):
        place = tape.keyframe_at(tick)
        if place is None:
            return None
        try:
            states.append(tape.snapshot(place))
        except RecordingError:
            return None
    if states[0].hash() == states[1].hash():
        return []
    return compare_states(states[0], states[1], STATE_LABELS)


def _values(one: Tape, other: Tape, tick: int) -> tuple[int | None, list[FieldDifference]]:
    """The first keyframes of one tick that both have, at or behind tick, and how their states differ."""
    left, right = one.keyframe_after(tick), other.keyframe_after(tick)
    while left is not None and right is not None:
        if left.tick == right.tick:
            found = _first_states(one, other, left.tick)
            if found is not None:
                return left.tick, found
        last = max(left.tick, right.tick) + (left.tick == right.tick)
        left, right = one.keyframe_after(last), other.keyframe_after(last)
    return None, []


def _trend(ticks: list[TickDifference], last_tick: int) -> Trend | None:
    """What became of a difference, by the number of fields that differ; see TapeDifference."""
    if not ticks:
        return None
    if ticks[-1].tick < last_tick:
        return "transient"
    return trend_of_counts([len(one.fields) if one.fields else 1 for one in ticks])


def trend_of_counts(counts: list[int]) -> Trend:
    """Whether a difference spreads, from how much differed at each tick since it began."""
    quarter = max(1, len(counts) // 4)
    beginning, end = sum(counts[:quarter]) / quarter, sum(counts[-quarter:]) / quarter
    return "spreading" if end >= SPREAD_FACTOR * min(beginning, counts[0]) and end > counts[0] else "bounded"
