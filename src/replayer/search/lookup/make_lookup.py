"""Make the facts of all intervals of a tape: each tick is re-simulated once, and has the recorded hash.

The states of some ticks are put side by side, and measured together: a field costs some calls of NumPy for hundreds of
small states.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import attrs
import numpy as np
import numpy.typing as npt

from replayer.playback.sampled_states import Missing, Walker
from replayer.search.counted_cursor import CountedCursor
from replayer.search.lookup.interval_facts import ChangedRows, IntervalFacts, packed
from replayer.search.lookup.path_facts import PathFacts
from replayer.search.lookup.zone import Zone, measure
from replayer.tape.fields import GRAPH_MARK
from replayer.tape.tape import Tape
from sim.kernel.schema import COUNTS_FIELD, Blob, Layout
from sim.kernel.state import State

BATCH_BYTES = 4 << 20  # Of states side by side.
BATCH_TICKS_MAX = 512

Progress = Callable[[int, int], None]  # Ticks done, ticks in all.


@attrs.define
class Measured:
    """Intervals with their facts, and what could not be measured.

    Attributes:
        missing: ticks that could not be reached; their intervals have no facts.
        simulated: the number of steps that were run.
    """

    missing: list[Missing] = attrs.field(factory=list)
    simulated: int = 0


def interval_starts(tape: Tape, begin: int, end: int) -> list[int]:
    """The first ticks of the parts of a range, cut at keyframes."""
    return [begin, *dict.fromkeys(place.tick for place in tape.keyframes if begin < place.tick <= end)]


def measured_intervals(
    tape: Tape, cursor: CountedCursor, report: Measured, progress: Progress | None = None
) -> Iterator[IntervalFacts]:
    """Yield the facts of each interval of which every tick was reached. Raises as make_simulation and the steps do."""
    first, last = tape.first_tick, tape.last_tick
    starts = interval_starts(tape, first, last)
    ends = [*(start - 1 for start in starts[1:]), last]
    walker = Walker(cursor)
    number, facts, expected = 0, _Interval(starts[0], ends[0]), first
    for tick, _ in walker.samples(range(first, last + 1)):
        if tick != expected:
            facts.is_whole = False
        expected = tick + 1
        while tick > facts.last_tick:  # The step to a keyframe belongs to the interval before it.
            facts.add(tick, cursor.state, measures=False)
            if facts.is_whole and facts.next_tick == facts.last_tick + 2:
                yield facts.done()
            number += 1
            facts = _Interval(starts[number], ends[number])
        facts.add(tick, cursor.state)
        if progress is not None:
            progress(tick - first + 1, last - first + 1)
    if facts.is_whole and facts.next_tick == last + 1:
        yield facts.done()
    report.missing, report.simulated = walker.missing, cursor.steps


class _Interval:
    """Collects the facts of one interval, tick by tick."""

    def __init__(self, first_tick: int, last_tick: int) -> None:
        self.first_tick, self.last_tick, self.next_tick = first_tick, last_tick, first_tick
        self.is_whole = True
        self._layout: Layout | None = None
        self._same_layout = True
        self._buffer: npt.NDArray[np.uint8] = np.empty((0, 0), np.uint8)
        self._count = self._measured = 0  # States in the buffer; those of them that zones are made of.
        self._changed: dict[str, npt.NDArray[np.bool_]] = {}
        self._zones: dict[str, Zone] | None = None
        self._has_objects = False
        self._paths: PathFacts | None = None

    def add(self, tick: int, state: State, *, measures: bool = True) -> None:
        """Add the state of the next tick. measures: False for that of the next keyframe, to which a step leads."""
        if tick != self.next_tick:
            self.is_whole = False
            return
        self.next_tick += 1
        if GRAPH_MARK in state.layout.slots:
            if self._paths is None:
                self._paths = PathFacts(tick, state)
            else:
                self._paths.add(tick, state, measures=measures)
        if self._layout is None or self._layout.hash_seed != state.layout.hash_seed:
            self._same_layout = self._layout is None
            self._flush()
            self._layout, self._count, self._measured = state.layout, 0, 0
            rows = min(BATCH_TICKS_MAX, max(2, BATCH_BYTES // max(1, state.layout.size_bytes)))
            self._buffer = np.empty((rows, state.layout.size_bytes), np.uint8)
        elif self._count == len(self._buffer):
            self._flush()
            self._buffer[0] = self._buffer[self._count - 1]  # The next step is compared with it.
            self._count, self._measured = 1, 1
            self._skip_first = True
        self._buffer[self._count] = state.arena
        self._count += 1
        self._measured += measures

    _skip_first = False

    def _flush(self) -> None:
        """Measure the states in the buffer."""
        if self._layout is None or not self._count:
            return
        if self._same_layout:
            self._note_changes(self._layout)
        begin = 1 if self._skip_first else 0
        self._skip_first = False
        if self._measured > begin:
            self._measure(self._layout, self._buffer[begin : self._measured])

    def _note_changes(self, layout: Layout) -> None:
        states = self._buffer[: self._count]
        differs_at: Any = (states[1:] != states[:-1]).any(axis=0) if self._count > 1 else np.zeros(0, np.bool_)
        if not differs_at.any():
            return
        for name, slot in layout.slots.items():
            if not slot.size_bytes:
                continue
            of_rows = differs_at[slot.offset : slot.offset + slot.size_bytes].reshape(slot.row_count, -1)
            changed: npt.NDArray[np.bool_] = np.asarray(of_rows.any(axis=1))
            if changed.any():
                before = self._changed.get(name)
                self._changed[name] = changed if before is None else changed | before

    def _measure(self, layout: Layout, states: npt.NDArray[np.uint8]) -> None:
        blobs = {entry.name for entry in layout.schema.entries if isinstance(entry, Blob)}
        self._has_objects = self._has_objects or GRAPH_MARK in layout.slots
        if self._has_objects:
            return
        counts = _values(states, layout, COUNTS_FIELD) if COUNTS_FIELD in layout.slots else None
        zones = {}
        for name, slot in layout.slots.items():
            if name == COUNTS_FIELD or name in blobs:
                continue
            rows = None if slot.owner is None or counts is None else counts[:, layout.count_index[slot.owner]]
            zones[name] = measure(slot, _values(states, layout, name), rows)
        before = self._zones
        if before is not None:
            slots = layout.slots
            zones = {
                name: before[name].with_other(zone, slots[name].owner) for name, zone in zones.items() if name in before
            }
        self._zones = zones

    def done(self) -> IntervalFacts:
        """The facts of the interval."""
        self._flush()
        assert self._layout is not None
        bits = {name: packed(np.flatnonzero(flags), len(flags)) for name, flags in self._changed.items()}
        layout = self._layout.hash_seed if self._same_layout else None
        changed = ChangedRows(self.first_tick + 1, self.next_tick - 1, layout, bits if layout is not None else {})
        of_fields = None if self._has_objects else self._zones
        known = self._paths.zones() if self._paths is not None else of_fields
        zones = None if known is None else {name: zone.to_plain() for name, zone in known.items()}
        kept = frozenset(self._paths.kept) if self._paths is not None else frozenset[str]()
        return IntervalFacts(self.first_tick, self.last_tick, changed, zones, kept)


def _values(states: npt.NDArray[np.uint8], layout: Layout, name: str) -> npt.NDArray[Any]:
    """A field in each of these states: (states, *shape)."""
    slot = layout.slots[name]
    field = np.ascontiguousarray(states[:, slot.offset : slot.offset + slot.size_bytes])
    if not slot.size_bytes:
        return np.zeros((len(states), *slot.shape), slot.dtype)
    return field.view(slot.dtype).reshape(len(states), *slot.shape)
