"""Reach a tick by what the ticks changed, without a step: from a keyframe on, block by block of the tape's change log.

Invariants:
    1. A state that is given has the recorded hash of its tick.
    2. Where the log does not lead, None is given: the simulation does.
"""

from __future__ import annotations

import bisect
from collections import OrderedDict

import attrs
import numpy as np

from recorder.errors import CorruptError, MissingTickError, TornError
from recorder.format.block import Kind
from recorder.format.change_log import ChangeBlock, decode_changes
from recorder.format.places import OptionalBlock, optional_blocks
from recorder.format.recording import Recording
from sim.kernel.hashing import hash_arena
from sim.kernel.state import Snapshot, make_arena
from sim.kernel.tick_changes import flat_words

CACHE_BYTES_MAX = 64 << 20  # Of blocks that were read, decoded: some thousand ticks of a large state.


@attrs.frozen(eq=False)
class Reached:
    """A state that the log has led to.

    Attributes:
        tick, snapshot, state_hash: where, and what.
        start_tick: of the keyframe, or of the state still in memory, that it began with.
        applied_ticks: how many ticks' changes came upon that.
    """

    tick: int
    snapshot: Snapshot
    state_hash: int
    start_tick: int
    applied_ticks: int


class ChangeLog:
    """The change log of a tape; of a tape without one it leads nowhere."""

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        found = recording.believing_index(lambda: optional_blocks(recording.segments))
        self._blocks = sorted((one for one in found if one.entry.kind == Kind.CHANGES), key=_by_tick)
        self._starts = [one.entry.first_tick for one in self._blocks]
        self._decoded: OrderedDict[int, ChangeBlock] = OrderedDict()
        self._decoded_bytes = 0
        self._known: list[tuple[int, Snapshot]] = []  # Where it was last, and the state at the start of that block.

    def __bool__(self) -> bool:
        """Whether there is one."""
        return bool(self._blocks)

    def reach(self, tick: int) -> Reached | None:
        """The state at tick; None if the log does not lead there, or to another state than was recorded.

        Raises MissingTickError if it is not recorded which state that should be.
        """
        for start_tick, snapshot in self._starts_before(tick):
            blocks = self._blocks_between(start_tick, tick)
            if blocks is None:
                continue
            found = self._apply(blocks, start_tick, snapshot, tick)
            if found is not None:
                return found
        return None

    def forget(self) -> None:
        """Keep no state and no block in memory: the next one is read from the tape."""
        self._known, self._decoded_bytes = [], 0
        self._decoded.clear()

    def missing_ticks(self) -> list[tuple[int, int]]:
        """Ranges of ticks, first and final, to which neither a keyframe nor what the ticks changed leads."""
        missing: list[tuple[int, int]] = []
        next_tick, last_tick = self.recording.first_tick + 1, self.recording.last_tick
        keyframes = {place.tick for place in self.recording.keyframes}  # Of a new layout: its tick tells no changes.
        told = [(block.first_tick, block.last_tick) for n in range(len(self._blocks)) if (block := self._block(n))]
        for first, last in sorted([*told, *((tick, tick) for tick in keyframes)]):
            if first > next_tick:
                missing.append((next_tick, first - 1))
            next_tick = max(next_tick, last + 1)
        return [*missing, (next_tick, last_tick)] if next_tick <= last_tick else missing

    def wrong_ticks(self) -> list[tuple[int, int]]:
        """Ranges of ticks whose changes, upon the keyframe before, do not give the recorded states.

        Of each stretch between keyframes only what is up to the first wrong one is known: the rest counts as wrong.
        """
        wrong: list[tuple[int, int]] = []
        places = self.recording.keyframes
        ends = [place.tick for place in places[1:]] + [self.recording.last_tick]
        for place, end in zip(places, ends, strict=True):
            try:
                snapshot = self.recording.snapshot(place)
            except (CorruptError, TornError, MissingTickError):
                continue
            bad = self._first_wrong(place.tick, snapshot, end)
            if bad is not None:
                wrong.append((bad, end))
        return wrong

    def _first_wrong(self, tick: int, start: Snapshot, end: int) -> int | None:
        arena = start.arena.copy()
        words = flat_words(arena, start.layout)
        while tick < end:
            blocks = self._blocks_between(tick, tick + 1)
            if not blocks or blocks[0].layout != start.layout.hash_seed:
                return None  # Not there, which is another matter.
            for now in range(tick + 1, min(blocks[0].last_tick, end) + 1):
                try:
                    blocks[0].apply(words, now, now)
                    if hash_arena(start.layout, arena) != self.recording.state_hash(now):
                        return now
                except MissingTickError:
                    pass  # Nobody knows what the state should be.
                except (CorruptError, TornError):
                    return now
            tick = min(blocks[0].last_tick, end)
        return None

    def _starts_before(self, tick: int) -> list[tuple[int, Snapshot]]:
        """States that are at hand at or before tick, the nearest first: remembered ones, and the nearest keyframe."""
        near = [one for one in self._known if one[0] <= tick]
        place = next(self.recording.keyframes_at_or_before(tick), None)
        if place is None:
            return []
        if any(known >= place.tick for known, _ in near):
            return sorted(near, key=lambda one: -one[0])[:1]
        try:
            return [(place.tick, self.recording.snapshot(place))]
        except (CorruptError, TornError, MissingTickError):
            return []

    def _blocks_between(self, start_tick: int, tick: int) -> list[ChangeBlock] | None:
        """Blocks that tell of all ticks behind start_tick up to tick; None if there are not all of them."""
        found: list[ChangeBlock] = []
        next_tick = start_tick + 1
        while next_tick <= tick:
            number = bisect.bisect_right(self._starts, next_tick) - 1
            block = self._block(number) if number >= 0 else None
            if block is None or block.last_tick < next_tick:
                return None
            found.append(block)
            next_tick = block.last_tick + 1
        return found

    def _block(self, number: int) -> ChangeBlock | None:
        if number in self._decoded:
            self._decoded.move_to_end(number)
            return self._decoded[number]
        place: OptionalBlock = self._blocks[number]
        try:
            block = decode_changes(place.payload(), place.entry.first_tick, place.entry.offset)
        except (CorruptError, TornError):
            return None
        self._decoded[number] = block
        self._decoded_bytes += block.size_bytes
        while self._decoded_bytes > CACHE_BYTES_MAX and len(self._decoded) > 1:
            _, oldest = self._decoded.popitem(last=False)
            self._decoded_bytes -= oldest.size_bytes
        return block

    def _apply(self, blocks: list[ChangeBlock], start_tick: int, start: Snapshot, tick: int) -> Reached | None:
        layout = start.layout
        if any(block.layout != layout.hash_seed for block in blocks):
            return None
        arena = make_arena(layout.size_bytes)
        np.copyto(arena, start.arena)
        words, now = flat_words(arena, layout), start_tick
        known: list[tuple[int, Snapshot]] = []
        try:
            for block in blocks:
                if block is blocks[-1]:  # Scrubbing about here begins with this state.
                    known = [(now, Snapshot(layout, arena.copy()) if now > start_tick else start)]
                last = min(block.last_tick, tick)
                block.apply(words, now + 1, last)
                now = last
        except CorruptError:
            return None
        reached = Snapshot(layout, arena)
        state_hash = reached.hash()
        if state_hash != self.recording.state_hash(tick):
            return None
        self._known = [*known, (tick, reached)]
        return Reached(tick, reached, state_hash, start_tick, tick - start_tick)


def _by_tick(block: OptionalBlock) -> int:
    return block.entry.first_tick
