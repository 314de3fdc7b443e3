"""Reach a tick by what the ticks changed, without a step: from a keyframe on, block by block of the tape's change log.

Invariants:
    1. A state that is given has the recorded hash of its tick; or, where that has a link instead, comes upon one that
       has, by changes whose links are the recorded ones, which lead to the recorded hash of the next keyframe. Behind
       the last keyframe, and where blocks before the next one are lost, the links have to do.
    2. Where the log does not lead, None is given: the simulation does.
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

CACHE_BYTES_MAX = 64 << 20  # Of blocks that were read, decoded: some thousand ticks of a large state.
COPIES_MAX = 4  # To read and apply a block of the log takes as long as to copy so many times its bytes.


def blocks_of(reader: IndexedReader, kind: BlockKind) -> list[OptionalBlock]:
    """The optional blocks of one kind by their first ticks, of equal ones in file order; their content is not read."""
    blocks = reader.believing_index(lambda: optional_blocks(reader.segments))
    return sorted((one for one in blocks if one.entry.kind == kind), key=lambda one: one.entry.first_tick)


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


class _Walk:
    """A state of its own that the log moves along."""

    def __init__(self, recording: StateReader, tick: int, start: Snapshot, *, spends: bool = False) -> None:
        """start: the state at tick. spends: nobody else has it, so that it may be changed."""
        self._recording = recording
        self.tick, self.layout = tick, start.layout
        if spends:
            self.arena = start.arena
            self.arena.flags.writeable = True
        else:
            self.arena = recording.copier.copy_of(start.arena)
        self._words = flat_words(self.arena, self.layout)
        self._hash_chain = HashChain(self.layout)

    def jump(self, block: ChangeBlock, tick: int) -> None:
        """Go to tick, up to which the block leads. Raises CorruptError."""
        block.apply(self._words, self.tick + 1, tick)
        self.tick = tick

    def is_right(self) -> bool:
        """Whether the state has the recorded hash."""
        return self.hash() == self._recording.recorded_hashes.recorded_hash(self.tick)

    def hash(self) -> int:
        """Of the state."""
        return hash_arena(self.layout, self.arena)

    def go(self, block: ChangeBlock, tick: int) -> bool:
        """Go to tick, one after the other, and look at what is recorded of each; False at the first that is wrong.

        Raises MissingTickError where nothing is recorded, and CorruptError.
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
        tick, snapshot: which.
        is_kept: whether others have it, too, or will.
    """

    tick: int
    snapshot: Snapshot
    is_kept: bool = True

    def walk(self, recording: StateReader) -> _Walk:
        """One that begins here; the snapshot is spent if nobody keeps it."""
        return _Walk(recording, self.tick, self.snapshot, spends=not self.is_kept)


class ChangeLog:
    """The change log of a tape; of a tape without one it leads nowhere."""

    def __init__(self, recording: StateReader) -> None:
        self.recording = recording
        self._blocks = blocks_of(recording, BlockKind.CHANGES)
        self._starts = [one.entry.first_tick for one in self._blocks]
        self._decoded: OrderedDict[int, ChangeBlock] = OrderedDict()
        self._decoded_bytes = 0
        self._known: list[_Start] = []  # Where it was last, and the state at the start of that block.
        self._walk: _Walk | None = None  # Of the last hash that was asked for.
        self._whole: dict[int, bool | None] = {}  # Whether what follows a keyframe leads to the next one.

    def __bool__(self) -> bool:
        """Whether there is one."""
        return bool(self._blocks)

    def reach(self, tick: int) -> Reached | None:
        """The state at tick; None if the log does not lead there, or to another state than was recorded.

        Raises MissingTickError if it is not recorded which state that should be.
        """
        is_linked = self.recording.recorded_hashes.is_chained(tick)
        is_whole = self._is_whole(tick) if is_linked else None
        if is_whole is False:
            return None
        start = self._start_before(tick)
        blocks = self._blocks_between(start.tick, tick) if start is not None else None
        if start is None or blocks is None:
            return None
        return self._apply(blocks, start, tick, by_links=is_linked and not is_whole)

    def _is_whole(self, tick: int) -> bool | None:
        """Whether the changes between the keyframes around tick lead from one to the other, link by link.

        A write that the simulation did not mark shows there only. None if that cannot be known.
        """
        place, following = next(self.recording.keyframes_at_or_before(tick), None), self.recording.keyframe_after(tick)
        if place is None or following is None:
            return None
        if place.tick not in self._whole:
            self._whole[place.tick] = self._leads_to(place, following.tick)
        return self._whole[place.tick]

    def _leads_to(self, place: KeyframeLocation, end: int) -> bool | None:
        blocks = self._blocks_between(place.tick, end)
        try:
            start = self.recording.snapshot(place)
            if blocks is None or any(block.layout != start.layout.hash_seed for block in blocks):
                return None
            walk = _Walk(self.recording, place.tick, start, spends=not place.is_full)
            return all(walk.go(block, min(block.last_tick, end)) for block in blocks)
        except (CorruptError, TornError, MissingTickError):
            return None

    def state_hash(self, tick: int) -> int | None:
        """The hash of the state at a tick of which a link is recorded; None if the log does not lead there.

        Asked for one tick after the other it goes from one to the next.
        """
        if self._is_whole(tick) is False:
            return None
        walk, self._walk = self._walk, None
        place = next(self.recording.keyframes_at_or_before(tick), None)
        if walk is None or walk.tick > tick or (place is not None and place.tick > walk.tick):
            start = self._start_before(tick)
            if start is None:
                return None
            walk = start.walk(self.recording)
        blocks = self._blocks_between(walk.tick, tick)
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
        """Keep no state and no block in memory: the next one is read from the tape. What was proved remains so."""
        self._known, self._walk, self._decoded_bytes = [], None, 0
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
        walk = _Walk(self.recording, tick, start)
        while walk.tick < end:
            blocks = self._blocks_between(walk.tick, walk.tick + 1)
            if not blocks or blocks[0].layout != start.layout.hash_seed:
                return None  # Not there, which is another matter.
            for now in range(walk.tick + 1, min(blocks[0].last_tick, end) + 1):
                try:
                    if not walk.go(blocks[0], now):
                        # Changes whose links are right, and which lead elsewhere, may be wrong from the first one on.
                        return tick + 1 if self.recording.recorded_hashes.is_chained(now - 1) else now
                except MissingTickError:
                    pass  # Nobody knows what the state should be.
                except (CorruptError, TornError):
                    return now
        return None

    def _start_before(self, tick: int) -> _Start | None:
        """The nearest state that is at hand at or before tick: a remembered one, or that of a keyframe."""
        place = next(self.recording.keyframes_at_or_before(tick), None)
        if place is None:
            return None
        near = [one for one in self._known if place.tick <= one.tick <= tick]
        if near:
            return max(near, key=lambda one: one.tick)
        try:
            return _Start(place.tick, self.recording.snapshot(place), is_kept=place.is_full)
        except (CorruptError, TornError, MissingTickError):
            return None

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

    def _apply(self, blocks: list[ChangeBlock], start: _Start, tick: int, *, by_links: bool) -> Reached | None:
        if any(block.layout != start.snapshot.layout.hash_seed for block in blocks):
            return None
        walk = start.walk(self.recording)
        known = [start] if start.is_kept and len(blocks) == 1 else []
        is_long_way = COPIES_MAX * sum(one.size_bytes for one in blocks[:-1]) >= len(walk.arena)
        try:
            for block in blocks:
                if (
                    block is blocks[-1] and is_long_way and len(blocks) > 1
                ):  # Scrubbing about here begins with this state.
                    known = [_Start(walk.tick, walk.snapshot())]
                last = min(block.last_tick, tick)
                if not by_links:
                    walk.jump(block, last)
                elif not walk.go(block, last):
                    return None
        except (CorruptError, TornError, MissingTickError):  # Of the changes, or of the frames with the links.
            return None
        state_hash, hashes = walk.hash(), self.recording.recorded_hashes
        if not hashes.is_chained(tick) and state_hash != hashes.recorded_hash(tick):
            return None
        reached = Snapshot(walk.layout, walk.arena)
        self._known = [*known, _Start(tick, reached)]
        return Reached(tick, reached, state_hash, start.tick, tick - start.tick)


class StateHashes(RecordedHashes):
    """The recorded hashes of one tape, and those to which its change log leads."""

    def __init__(self, reader: StateReader) -> None:
        super().__init__(reader)
        self._states = reader

    def state_hash(self, tick: int) -> int:
        """The hash of the state at tick: the recorded one, or, of a tick with a link, that to which its changes lead.

        Raises as Recording.frame and snapshot do, and MissingTickError where they do not lead there.
        """
        recorded = self.recorded_hash(tick)
        if recorded is None:
            recorded = self._log.state_hash(tick)
        if recorded is None:
            raise MissingTickError(tick, "its frame has no state hash, and what the ticks changed does not lead to it")
        return recorded

    @functools.cached_property
    def _log(self) -> ChangeLog:
        return ChangeLog(self._states)
