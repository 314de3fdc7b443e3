"""Reach a tick without a step: apply the recorded changes to a keyframe, block by block of the tape's change log.

Invariants:
    1. A returned state has the recorded hash of its tick. If the tick has a link instead, the state results from
       a state with a recorded hash by changes that match the recorded links, and these changes lead to the
       recorded hash of the next keyframe. The links alone are the check after the last keyframe, and where blocks before
       the next keyframe are lost.
    2. If the log does not lead to a tick, the result is None, and the caller runs the simulation.
"""

from __future__ import annotations

import bisect
import functools
from collections import OrderedDict

import attrs

from recorder.errors import CorruptError, MissingTickError, TornError
from recorder.format.blocks.block import BlockKind
from recorder.format.blocks.changes_block import ChangeBlock, decode_changes
from recorder.format.blocks.hash_chain import HashChain
from recorder.format.recording.recorded_hashes import RecordedHashes
from recorder.format.recording.state_reader import IndexedReader, StateReader
from recorder.format.segments.block_location import KeyframeLocation, OptionalBlock, optional_blocks
from sim.kernel.changes.tick_changes import flat_words
from sim.kernel.hashing import hash_arena
from sim.kernel.state import Snapshot

CACHE_BYTES_MAX = 64 << 20  # Of decoded blocks: some thousand ticks of a large state.
COPIES_MAX = 4  # Reading and applying a block of the log takes as long as copying its bytes this many times.


def blocks_of(reader: IndexedReader, kind: BlockKind) -> list[OptionalBlock]:
    """The optional blocks of one kind by first tick, then in file order; their content is not read."""
    blocks = reader.believing_index(lambda: optional_blocks(reader.segments))
    return sorted((block for block in blocks if block.entry.kind == kind), key=lambda block: block.entry.first_tick)


@attrs.frozen(eq=False)
class Reached:
    """A state reached by the log.

    Attributes:
        tick, snapshot, state_hash: of the state.
        start_tick: of the keyframe, or of the cached state, that the changes were applied to.
        applied_ticks: number of ticks whose changes were applied.
    """

    tick: int
    snapshot: Snapshot
    state_hash: int
    start_tick: int
    applied_ticks: int


class _Walk:
    """A state that the log moves from tick to tick."""

    def __init__(self, recording: StateReader, tick: int, start: Snapshot, *, owns_start: bool = False) -> None:
        """start: the state at tick. owns_start: True if it has no other user and may be changed."""
        self._recording = recording
        self.tick, self.layout = tick, start.layout
        if owns_start:
            self.arena = start.arena
            self.arena.flags.writeable = True
        else:
            self.arena = recording.copier.copy_of(start.arena)
        self._words = flat_words(self.arena, self.layout)
        self._hash_chain = HashChain(self.layout)

    def jump(self, block: ChangeBlock, tick: int) -> None:
        """Apply the changes of the block up to tick. Raises CorruptError."""
        block.apply(self._words, self.tick + 1, tick)
        self.tick = tick

    def is_right(self) -> bool:
        """Return True if the state has the recorded hash."""
        return self.hash() == self._recording.recorded_hashes.recorded_hash(self.tick)

    def hash(self) -> int:
        """The hash of the state."""
        return hash_arena(self.layout, self.arena)

    def go(self, block: ChangeBlock, tick: int) -> bool:
        """Go to tick in single ticks and check each against its recorded hash or link; False at the first mismatch.

        Raises MissingTickError for a tick without a record, and CorruptError.
        """
        hashes = self._recording.recorded_hashes
        while self.tick < tick:
            self.jump(block, self.tick + 1)
            if not hashes.is_chained(self.tick):
                if not self.is_right():
                    return False
                continue
            before, words = hashes.identity(self.tick - 1), block.words_of(self._words, self.tick)
            if self._hash_chain.extend(before, words) != hashes.identity(self.tick):
                return False
        return True

    def snapshot(self) -> Snapshot:
        """A copy of the state."""
        return Snapshot(self.layout, self._recording.copier.copy_of(self.arena))


@attrs.frozen
class _Start:
    """A state that a walk can begin with.

    Attributes:
        tick, snapshot: of the state.
        is_kept: True if the snapshot has or will have other users.
    """

    tick: int
    snapshot: Snapshot
    is_kept: bool = True

    def walk(self, recording: StateReader) -> _Walk:
        """Begin a walk at this state. It consumes the snapshot unless others keep it."""
        return _Walk(recording, self.tick, self.snapshot, owns_start=not self.is_kept)


class ChangeLog:
    """The change log of a tape. For a tape without changes it is empty and reaches no tick."""

    def __init__(self, recording: StateReader) -> None:
        self.recording = recording
        self._blocks = blocks_of(recording, BlockKind.CHANGES)
        self._starts = [block.entry.first_tick for block in self._blocks]
        self._decoded: OrderedDict[int, ChangeBlock] = OrderedDict()
        self._decoded_bytes = 0
        self._cached: list[_Start] = []  # The state that was reached last, and that at the start of its block.
        self._walk: _Walk | None = None  # Of the last requested hash.
        self._verified: dict[int, bool | None] = {}  # By tick of a keyframe: whether the changes lead to the next one.

    def __bool__(self) -> bool:
        """Return True if the tape has a change log."""
        return bool(self._blocks)

    def reach(self, tick: int) -> Reached | None:
        """The state at tick; None if the log does not lead there, or leads to a state other than the recorded one.

        Raises MissingTickError if neither a hash nor a link of the state is recorded.
        """
        is_linked = self.recording.recorded_hashes.is_chained(tick)
        is_verified = self._is_verified(tick) if is_linked else None
        if is_verified is False:
            return None
        start = self._start_before(tick)
        blocks = self.blocks_between(start.tick, tick) if start is not None else None
        if start is None or blocks is None:
            return None
        return self._apply(blocks, start, tick, by_links=is_linked and not is_verified)

    def _is_verified(self, tick: int) -> bool | None:
        """Return True if the changes lead from the keyframe before tick to the one after it, link by link.

        Only this check reveals a write that the simulation did not mark. None if it cannot be made.
        """
        place, following = next(self.recording.keyframes_at_or_before(tick), None), self.recording.keyframe_after(tick)
        if place is None or following is None:
            return None
        if place.tick not in self._verified:
            self._verified[place.tick] = self._leads_to(place, following.tick)
        return self._verified[place.tick]

    def _leads_to(self, place: KeyframeLocation, end: int) -> bool | None:
        blocks = self.blocks_between(place.tick, end)
        try:
            start = self.recording.snapshot(place)
            if blocks is None or any(block.layout != start.layout.hash_seed for block in blocks):
                return None
            walk = _Walk(self.recording, place.tick, start, owns_start=not place.is_full)
            return all(walk.go(block, min(block.last_tick, end)) for block in blocks)
        except (CorruptError, TornError, MissingTickError):
            return None

    def leads_to(self, start_tick: int, tick: int) -> bool:
        """Return True if the changes lead from the keyframe at start_tick to the recorded state, or link, of each tick up to tick."""
        place = next(self.recording.keyframes_at_or_before(start_tick), None)
        return place is not None and place.tick == start_tick and self._leads_to(place, tick) is True

    def state_hash(self, tick: int) -> int | None:
        """The hash of the state at a tick with a recorded link; None if the log does not lead there.

        Calls for ascending ticks continue from the last one.
        """
        if self._is_verified(tick) is False:
            return None
        walk, self._walk = self._walk, None
        place = next(self.recording.keyframes_at_or_before(tick), None)
        if walk is None or walk.tick > tick or (place is not None and place.tick > walk.tick):
            start = self._start_before(tick)
            if start is None:
                return None
            walk = start.walk(self.recording)
        blocks = self.blocks_between(walk.tick, tick)
        if blocks is None or any(block.layout != walk.layout.hash_seed for block in blocks):
            return None
        try:
            if not all(walk.go(block, min(block.last_tick, tick)) for block in blocks):
                return None
        except (CorruptError, TornError, MissingTickError):
            return None
        self._walk = walk
        return walk.hash()

    def forget(self) -> None:
        """Drop all cached states and blocks. Results of checks are kept."""
        self._cached, self._walk, self._decoded_bytes = [], None, 0
        self._decoded.clear()

    def missing_ticks(self) -> list[tuple[int, int]]:
        """Ranges of ticks, first and final, that neither a keyframe nor recorded changes reach."""
        missing: list[tuple[int, int]] = []
        next_tick, last_tick = self.recording.first_tick + 1, self.recording.last_tick
        keyframes = {place.tick for place in self.recording.keyframes}  # The tick of a new layout has no changes.
        covered = [(block.first_tick, block.last_tick) for n in range(len(self._blocks)) if (block := self._block(n))]
        for first, last in sorted([*covered, *((tick, tick) for tick in keyframes)]):
            if first > next_tick:
                missing.append((next_tick, first - 1))
            next_tick = max(next_tick, last + 1)
        return [*missing, (next_tick, last_tick)] if next_tick <= last_tick else missing

    def wrong_ticks(self) -> list[tuple[int, int]]:
        """Ranges of ticks whose changes, applied to the keyframe before, do not give the recorded states.

        Between two keyframes all ticks from the first wrong one on count as wrong.
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
        walk = _Walk(self.recording, tick, start)
        while walk.tick < end:
            blocks = self.blocks_between(walk.tick, walk.tick + 1)
            if not blocks or blocks[0].layout != start.layout.hash_seed:
                return None  # Missing, not wrong.
            for next_tick in range(walk.tick + 1, min(blocks[0].last_tick, end) + 1):
                try:
                    if not walk.go(blocks[0], next_tick):
                        # If the links match but the state does not, the changes may be wrong from the first one on.
                        return tick + 1 if self.recording.recorded_hashes.is_chained(next_tick - 1) else next_tick
                except MissingTickError:
                    pass  # Nothing is recorded to compare with.
                except (CorruptError, TornError):
                    return next_tick
        return None

    def _start_before(self, tick: int) -> _Start | None:
        """The nearest available state at or before tick: a cached one, or that of a keyframe."""
        place = next(self.recording.keyframes_at_or_before(tick), None)
        if place is None:
            return None
        near = [start for start in self._cached if place.tick <= start.tick <= tick]
        if near:
            return max(near, key=lambda start: start.tick)
        try:
            return _Start(place.tick, self.recording.snapshot(place), is_kept=place.is_full)
        except (CorruptError, TornError, MissingTickError):
            return None

    def blocks_between(self, start_tick: int, tick: int) -> list[ChangeBlock] | None:
        """Blocks that cover all ticks after start_tick up to tick; None if some are missing."""
        blocks: list[ChangeBlock] = []
        next_tick = start_tick + 1
        while next_tick <= tick:
            number = bisect.bisect_right(self._starts, next_tick) - 1
            block = self._block(number) if number >= 0 else None
            if block is None or block.last_tick < next_tick:
                return None
            blocks.append(block)
            next_tick = block.last_tick + 1
        return blocks

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

    def _apply(self, blocks: list[ChangeBlock], start: _Start, tick: int, *, by_links: bool) -> Reached | None:
        if any(block.layout != start.snapshot.layout.hash_seed for block in blocks):
            return None
        walk = start.walk(self.recording)
        cached = [start] if start.is_kept and len(blocks) == 1 else []
        is_long_way = COPIES_MAX * sum(block.size_bytes for block in blocks[:-1]) >= len(walk.arena)
        try:
            for block in blocks:
                if block is blocks[-1] and is_long_way and len(blocks) > 1:  # Scrubbing near tick starts from here.
                    cached = [_Start(walk.tick, walk.snapshot())]
                last = min(block.last_tick, tick)
                if not by_links:
                    walk.jump(block, last)
                elif not walk.go(block, last):
                    return None
        except (CorruptError, TornError, MissingTickError):  # The changes, or the frames with the links, are damaged.
            return None
        state_hash, hashes = walk.hash(), self.recording.recorded_hashes
        if not hashes.is_chained(tick) and state_hash != hashes.recorded_hash(tick):
            return None
        reached = Snapshot(walk.layout, walk.arena)
        self._cached = [*cached, _Start(tick, reached)]
        return Reached(tick, reached, state_hash, start.tick, tick - start.tick)


class StateHashes(RecordedHashes):
    """The recorded hashes of one tape, and the hashes of states reached by its change log."""

    def __init__(self, reader: StateReader) -> None:
        super().__init__(reader)
        self._states = reader

    def state_hash(self, tick: int) -> int:
        """The hash of the state at tick: the recorded one or, for a tick with a link, that of the reached state.

        Raises as Recording.frame and snapshot do, and MissingTickError if the recorded changes do not lead there.
        """
        recorded = self.recorded_hash(tick)
        if recorded is None:
            recorded = self._log.state_hash(tick)
        if recorded is None:
            raise MissingTickError(tick, "its frame has no state hash, and the recorded changes do not lead to it")
        return recorded

    @functools.cached_property
    def _log(self) -> ChangeLog:
        return ChangeLog(self._states)
