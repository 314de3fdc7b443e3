"""The keyframes and ticks that a repaired tape should have, derived from the damaged one."""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Sequence

import attrs

from recorder.errors import CorruptError, TornError
from recorder.format.segments.block_location import KeyframeLocation
from recorder.format.segments.segment_contents import Damage
from recorder.format.segments.segment_reader import Segment
from replayer.tape.tape import Tape
from sim.kernel.state import Snapshot


@attrs.define
class PlannedKeyframe:
    """A keyframe that the new tape should have."""

    tick: int
    place: KeyframeLocation | None  # None: it lies in a damaged stretch, and is inferred from the ticks around it.


def planned_keyframes(tape: Tape) -> list[PlannedKeyframe]:
    """List the keyframes on the tape and those that a damaged stretch must have held, by tick.

    Where a tick has several, as after a resume, it is the last full one that can be read, else the last that can be read.
    """
    places: dict[int, list[KeyframeLocation]] = {}
    for segment in tape.segments:
        for part in segment.parts:
            loaded = part.load()
            for row in loaded.keyframe_rows:
                place = KeyframeLocation.of(loaded, int(row), segment.number)
                places.setdefault(place.tick, []).append(place)
    planned = {tick: PlannedKeyframe(tick, _best(tape, of_tick)) for tick, of_tick in places.items()}
    for tick in _ticks_in_damage(tape):
        planned.setdefault(tick, PlannedKeyframe(tick, None))
    return [planned[tick] for tick in sorted(planned)]


def _best(tape: Tape, places: Sequence[KeyframeLocation]) -> KeyframeLocation:
    """The keyframe of a tick to copy, of at least one."""
    latest_first = places[::-1]
    preferred = [place for full in (True, False) for place in latest_first if place.is_full is full]
    if len(preferred) == 1:
        return preferred[0]
    return next((place for place in preferred if readable_state(tape, place) is not None), preferred[0])


def first_frame_tick(tape: Tape) -> int | None:
    """The first tick with a frame; None if there is no frame."""
    ticks = [int(p.load().frame_ticks[0]) for s in tape.segments for p in s.parts if len(p.load().frame_ticks)]
    ticks += [frame.tick for frame in tape.recording.journal[:1]]
    return min(ticks, default=None)


def last_frame_tick(tape: Tape) -> int:
    """The last tick that has a frame, or that had one according to a seal."""
    entries = [e for s in tape.segments for p in s.parts for e in p.load().entries() if e.tick_count]
    ticks = [entry.final_tick for entry in entries] + [frame.tick for frame in tape.recording.journal[-1:]]
    ticks += [s.contents.seal.last_tick for s in tape.segments if s.contents.seal is not None]
    return max(ticks, default=0)


def readable_state(tape: Tape, place: KeyframeLocation) -> Snapshot | None:
    """The state of a keyframe; None if it cannot be read."""
    try:
        return tape.snapshot(place)
    except (CorruptError, TornError):
        return None


def _ticks_in_damage(tape: Tape) -> list[int]:
    """Ticks in damaged stretches that are multiples of the keyframe interval."""
    settings = tape.meta.get("settings") or tape.meta
    interval = settings.get("keyframe_interval_ticks")
    if not isinstance(interval, int) or interval < 1:
        return []
    ticks: list[int] = []
    neighbours = {segment.number: _Neighbours(segment) for segment in tape.segments}
    for damage in tape.damages:
        around = neighbours[damage.segment].of(damage) if damage.segment in neighbours else None
        if around is None or damage.torn:
            continue
        before, after = around
        if after - before <= 2 * interval:
            ticks += range(-(-before // interval) * interval, after, interval)
    return ticks


class _Neighbours:
    """Ticks before and after any offset of a segment; its blocks are read once for all damages."""

    def __init__(self, segment: Segment) -> None:
        entries = [entry for part in segment.parts for entry in part.load().entries() if entry.tick_count]
        self._offsets = [entry.offset for entry in entries]
        self._last_before = [*itertools.accumulate((entry.final_tick for entry in entries), max)]
        self._first_after = [*itertools.accumulate((entry.first_tick for entry in reversed(entries)), min)][::-1]

    def of(self, damage: Damage) -> tuple[int, int] | None:
        """The last tick of the frames before a damage and the first tick after it; None if one of them is missing."""
        before = bisect.bisect_left(self._offsets, damage.offset) - 1
        after = bisect.bisect_left(self._offsets, damage.end_offset)
        if before < 0 or after == len(self._offsets):
            return None
        return self._last_before[before], self._first_after[after]
