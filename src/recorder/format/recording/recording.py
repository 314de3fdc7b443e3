"""Read frames and states from the segments of a tape and from its journal; bytes in, no files.

Invariants:
    1. A state is returned only after its hash was compared with the recorded one.
    2. If the index is wrong, the blocks are found by their headers instead; results are the same with and without
       an index.
    3. Frames of the journal are used if they follow the last tick of the blocks without a gap.
"""

from __future__ import annotations

import bisect
import functools
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from recorder.errors import CorruptError, MissingTickError, TornError, UnsupportedVersionError
from recorder.format.blocks.block import OPTIONAL_KIND, BlockKind
from recorder.format.blocks.delta_keyframe import decode_delta
from recorder.format.blocks.drop_block import Drop
from recorder.format.blocks.frame import Frame
from recorder.format.blocks.full_keyframe import decode_digest
from recorder.format.copier import Copier
from recorder.format.journal_bytes import JournalContents
from recorder.format.recording.cached_blocks import CachedBlocks, owner_of
from recorder.format.recording.change_replay import StateHashes
from recorder.format.recording.tick_gaps import drop_at, gap_at, share_out
from recorder.format.segments.block_location import TICK_MAX, BlockLocation, FrameRun, KeyframeLocation
from recorder.format.segments.segment_reader import Segment
from sim.kernel.state import Snapshot

_KINDS = {int(kind) for kind in BlockKind}
T = TypeVar("T")


def _with_rescan(method: Callable[[Recording], T]) -> Callable[[Recording], T]:
    """Decorate a method: if it fails because of a wrong index, find the blocks by their headers and run it again."""

    @functools.wraps(method)
    def run(self: Recording) -> T:
        return self.believing_index(lambda: method(self))

    return run


class Recording:
    """All segments of one tape, and the frames that its journal adds.

    Attributes:
        hopped: True if an index was wrong and the blocks were found by their headers instead.
        copier: copies and reads large states, possibly with a second thread.
    """

    def __init__(self, segments: Sequence[Segment], journal: JournalContents | None = None) -> None:
        """segments: ascending by number."""
        self.segments = list(segments)
        self._all_journal = journal or JournalContents()
        self.hopped, self.copier = False, Copier()
        self._arrange()

    def _arrange(self) -> None:
        places = [BlockLocation(segment, part) for segment in self.segments for part in segment.parts]
        ticking = [(place.summary.first_tick, place.summary.last_tick) != (0, 0) for place in places]
        first = ticking.index(True) if any(ticking) else len(places)
        # Before the first tick above 0, (0, 0) may be the keyframe of tick 0; after it, it means that there is no tick.
        own_places = [place for n, place in enumerate(places) if n < first or ticking[n]]
        part_ticks = [place.summary.first_tick for place in own_places]
        seq_places = [place for place in places if place.summary.first_seq or place is places[0]]
        part_seqs = [place.summary.first_seq for place in seq_places]
        seals = [s.contents.seal for s in self.segments if s.clip is None and s.contents.seal is not None]
        block_last_tick = max(
            [place.summary.last_tick for place in own_places] + [seal.last_tick for seal in seals], default=0
        )
        journal = self._all_journal.following(block_last_tick)
        by_number = {segment.number: segment for segment in self.segments}
        # All at once: where memory runs out before, the arrangement stays as it was.
        self._places, self._part_ticks = own_places, part_ticks
        self._seq_places, self._part_seqs = seq_places, part_seqs
        self._block_last_tick, self._journal, self._by_number = block_last_tick, journal, by_number
        self._near: tuple[int, int, list[Frame]] = (1, 0, [])  # Ticks and frames of the block that was used last.
        self._cached_blocks = CachedBlocks(by_number)
        for name in ("_kinds", "_gaps", "_frame_starts", "keyframes", "drops", "recorded_hashes"):
            self.__dict__.pop(name, None)

    def clip(self, number: int, offset: int) -> None:
        """Ignore the blocks of a segment from offset on."""
        segment = self._by_number[number]
        segment.clip = offset
        segment.take(segment.contents)
        self._arrange()

    @property
    def journal(self) -> list[Frame]:
        """The frames that are only in the journal, in the order of their ticks."""
        return list(self._journal.values())

    @property
    def journal_ticks(self) -> int:
        """The number of ticks that are only in the journal."""
        return len(self._journal)

    @functools.cached_property
    @_with_rescan
    def keyframes(self) -> list[KeyframeLocation]:
        """All keyframes whose baseline is available, in the order of their ticks."""
        return [place for places in self._places for place in places.keyframes() if self._has_baseline(place)]

    def _has_baseline(self, place: KeyframeLocation) -> bool:
        return place.is_full or self._find_full(place) is not None

    def _find_full(self, place: KeyframeLocation) -> KeyframeLocation | None:
        """The full keyframe of a delta."""
        seq = place.entry.seq - place.entry.baseline
        index = bisect.bisect_right(self._part_seqs, seq) - 1
        if index >= 0:
            part = self._seq_places[index].load()
            row = part.row_of_seq(seq)
            if row is not None and part.columns["kind"][row] == BlockKind.FULL:
                return self._seq_places[index].keyframe(part, row)
        return None

    @functools.cached_property
    @_with_rescan
    def drops(self) -> list[Drop]:
        """The missing ticks that DROP blocks name, with their reasons, ascending and without overlaps.

        Damaged DROP blocks are left out. A tick that a DROP block names is not missing if the journal has it.
        """
        recorded = []
        if BlockKind.DROP in self._kinds:
            for segment, part in ((owner, lazy.load()) for owner in self.segments for lazy in owner.parts):
                for row in np.flatnonzero(part.columns["kind"] == BlockKind.DROP):
                    drop = segment.drop(part, int(row))
                    recorded += [drop] if drop is not None else []
        try:
            return share_out([*self._gaps, (self.last_tick + 1, TICK_MAX)], recorded) if recorded else []
        except MissingTickError:
            return share_out([(0, TICK_MAX)], recorded)

    @functools.cached_property
    def _kinds(self) -> set[int]:
        """The kinds of blocks on the tape."""
        return {kind for segment in self.segments for kind in segment.kinds()}

    @property
    @_with_rescan
    def first_tick(self) -> int:
        """The first tick whose state can be read. Raises MissingTickError if there is none."""
        for place in self._places:
            for keyframe in place.keyframes():
                if self._has_baseline(keyframe):
                    return keyframe.tick
        raise MissingTickError(0, "the tape has no keyframe that can be read, so no state either")

    @property
    def last_tick(self) -> int:
        """The last tick with a frame or a keyframe. Raises MissingTickError if there is no keyframe."""
        return max(self._block_last_tick + len(self._journal), self.first_tick)

    def missing_ticks(self) -> list[tuple[int, int]]:
        """Ranges of ticks, first and final, between first_tick and last_tick that have no frame."""
        return list(self._gaps)

    @functools.cached_property
    @_with_rescan
    def _gaps(self) -> list[tuple[int, int]]:
        missing, next_tick = [], self.first_tick + 1
        for place in self._places:
            part = place.load()
            counts = part.columns["tick_count"][part.frame_rows].tolist()
            for first, count in zip(part.frame_ticks.tolist(), counts, strict=True):
                if first > next_tick:
                    missing.append((next_tick, first - 1))
                next_tick = max(next_tick, first + count)
        if next_tick <= self._block_last_tick:  # The frames of the journal follow without a gap.
            missing.append((next_tick, self._block_last_tick))
        return missing

    def gap_at(self, tick: int) -> tuple[int, int] | None:
        """The range of missing_ticks that contains tick."""
        return gap_at(self._gaps, tick)

    def drop_at(self, tick: int) -> Drop | None:
        """The drop that contains tick; None if the recording did not drop it."""
        return drop_at(self.drops, tick)

    def frame(self, tick: int) -> Frame:
        """The frame of one tick.

        Raises MissingTickError, CorruptError if its block is damaged, UnsupportedVersionError if the tape has unknown
        kinds of blocks that a reader must know.
        """
        first, last, near = self._near
        if first <= tick <= last:
            return near[tick - first]
        in_journal = self._journal.get(tick)
        return in_journal if in_journal is not None else self.believing_index(lambda: self._frame(tick))

    def _frame(self, tick: int) -> Frame:
        frames = self._frames_around(tick)
        return frames[tick - frames[0].tick]

    def _frames_around(self, tick: int) -> list[Frame]:
        """The frames of the block that contains tick. Raises as frame does."""
        self._ensure_known_kinds()
        index = bisect.bisect_right(self._part_ticks, tick) - 1
        while index >= 0 and self._places[index].summary.last_tick >= tick:
            place = self._places[index]
            block = place.frames_block(tick)
            if block is not None:
                frames = self._cached_blocks.frames(place.segment.number, *block)
                end = min([place.next_block_tick(tick), *self._part_ticks[index + 1 : index + 2]])
                self._near = frames[0].tick, min(frames[-1].tick, end - 1), frames
                return frames
            index -= 1
        raise self._missing(tick)

    def runs(self, first_tick: int, last_tick: int) -> Iterator[FrameRun]:
        """Frames of these ticks, or their errors, in runs: the frames of a block are decoded once, a gap is one run.

        Raises UnsupportedVersionError as frame does.
        """
        tick = first_tick
        while tick <= last_tick:
            run = self._run_from(tick, last_tick)
            yield run
            tick = run.last_tick + 1

    def _run_from(self, tick: int, last_tick: int) -> FrameRun:
        frames: Sequence[Frame]
        if tick in self._journal:
            journal_end = self._block_last_tick + len(self._journal)
            frames = [self._journal[number] for number in range(tick, min(last_tick, journal_end) + 1)]
            return FrameRun(tick, frames[-1].tick, frames, None)
        try:
            frames = self.believing_index(lambda: self._frames_around(tick))
        except (CorruptError, TornError, MissingTickError) as error:
            return FrameRun(tick, min(last_tick, self._next_start(tick) - 1), (), error)
        end = min(last_tick, self._next_start(tick) - 1, frames[-1].tick)
        return FrameRun(tick, end, frames[tick - frames[0].tick : end + 1 - frames[0].tick], None)

    def _next_start(self, tick: int) -> int:
        """The next tick after this one at which a block of frames, or the journal, begins."""
        starts = self._frame_starts
        index = int(np.searchsorted(starts, np.uint64(tick), side="right")) if tick <= TICK_MAX else len(starts)
        if index < len(starts):
            return int(starts[index])
        journal = next(iter(self._journal), tick)
        return journal if journal > tick else TICK_MAX + 1

    @functools.cached_property
    @_with_rescan
    def _frame_starts(self) -> npt.NDArray[np.uint64]:
        starts = [place.load().frame_ticks for place in self._places]
        return np.unique(np.concatenate([np.empty(0, np.uint64), *starts]))

    def _missing(self, tick: int) -> MissingTickError:
        drop = self.drop_at(tick)
        if drop is not None:
            return MissingTickError(tick, f"its frame could not be kept ({drop.why})", damaged=True)
        inside = bool(self._places) and self._block_last_tick >= tick
        try:
            inside = inside and self.first_tick < tick
        except MissingTickError:
            inside = False
        why = "the block that held its frame is damaged" if inside else "there is no frame of this tick on the tape"
        return MissingTickError(tick, why, damaged=inside)

    def keyframes_at_or_before(self, tick: int) -> Iterator[KeyframeLocation]:
        """Keyframes from which tick may be reached, the nearest first.

        What the caller does between two of them may show that the index is wrong. The walk then begins again, with the
        keyframes that headers show, and leaves out those that it had before.
        """
        yielded: set[tuple[int, int]] = set()
        while True:
            places = self._places
            try:
                for keyframe in self._keyframes_down_from(places, min(tick, TICK_MAX)):
                    if (keyframe.segment, keyframe.entry.offset) not in yielded:
                        yielded.add((keyframe.segment, keyframe.entry.offset))
                        yield keyframe
                        if self._places is not places:
                            break
                else:
                    return
            except (CorruptError, TornError):  # In the index: nothing else has been read.
                if self.hopped:
                    raise
                self.distrust_index()

    def _keyframes_down_from(self, places: list[BlockLocation], tick: int) -> Iterator[KeyframeLocation]:
        starts = [place.summary.first_tick for place in places]
        for place in places[: bisect.bisect_right(starts, tick)][::-1]:
            yield from filter(self._has_baseline, place.keyframes_down_from(tick))

    def keyframe_after(self, tick: int) -> KeyframeLocation | None:
        """The first keyframe at or after tick."""
        return self.believing_index(lambda: self._keyframe_after(min(max(0, tick), TICK_MAX)))

    def keyframe_at(self, tick: int) -> KeyframeLocation | None:
        """The first keyframe of exactly this tick."""
        place = self.keyframe_after(tick)
        return place if place is not None and place.tick == tick else None

    def state_hash(self, tick: int) -> int:
        """The hash of the state at tick, see StateHashes.state_hash."""
        return self.recorded_hashes.state_hash(tick)

    @functools.cached_property
    def recorded_hashes(self) -> StateHashes:
        """The recorded identity of each state."""
        return StateHashes(weakref.proxy(self))  # No circle: a recording that is not used any more closes its files.

    def _keyframe_after(self, tick: int) -> KeyframeLocation | None:
        start = max(0, bisect.bisect_right(self._part_ticks, tick) - 1)
        while start > 0 and self._places[start - 1].summary.last_tick >= tick:
            start -= 1
        for place in self._places[start:]:
            keyframe = next(filter(self._has_baseline, place.keyframes_up_from(tick)), None)
            if keyframe is not None:
                return keyframe
        return None

    def snapshot(self, place: KeyframeLocation) -> Snapshot:
        """The state at a keyframe, checked against its hash. Raises CorruptError, TornError or as frame does."""
        return self.believing_index(lambda: self._snapshot(place))

    def payload(self, place: KeyframeLocation) -> bytes:
        """The payload of a keyframe as on the tape. Raises CorruptError or TornError."""
        return owner_of(self._by_number, place).joined(place.entry, place.end_offset)

    def value_digest(self, place: KeyframeLocation) -> bytes:
        """The digest of the simulation's values at a keyframe; empty if it has none. Raises CorruptError or TornError."""
        pieces = owner_of(self._by_number, place).pieces(place.entry, place.end_offset)
        return decode_digest(pieces, place.entry.offset)

    def _snapshot(self, place: KeyframeLocation) -> Snapshot:
        self._ensure_known_kinds()
        if place.is_full:
            return self._cached_blocks.full(place, self.copier)
        if (known := self._cached_blocks.small(place)) is not None:
            return known
        full = self._find_full(place)
        if full is None:
            raise CorruptError(place.entry.offset, f"the full keyframe of the delta at tick {place.tick} is missing")
        baseline = self._cached_blocks.full(full, self.copier)
        tick, snapshot = decode_delta(self.payload(place), baseline, place.entry.offset)
        self._cached_blocks.keep_small(place, place.ensure_its_own(tick, snapshot))
        return snapshot

    def believing_index(self, action: Callable[[], T]) -> T:
        """Run action; if it fails because of a wrong index, find the blocks by their headers and run it again."""
        hopped = self.hopped
        try:
            return action()
        except (CorruptError, TornError, MissingTickError) as error:
            if isinstance(error, MissingTickError) and (not error.damaged or self.drop_at(error.tick) is not None):
                raise
            if hopped or not (self.hopped or self.distrust_index()):  # The action may have rescanned already.
                raise
            try:
                return action()
            except (CorruptError, TornError, MissingTickError):
                raise error from None  # It has the offset; without the index the block is only missing.

    def distrust_index(self) -> bool:
        """Find the blocks by their headers; return True if they differ from those of the index.

        If reading fails, nothing has changed.
        """
        by_index = [segment for segment in self.segments if segment.contents.by_index]
        if not by_index:
            return False
        before = [(segment, segment.contents, segment.entries_or_none()) for segment in by_index]
        scanned = [segment.scanned() for segment in by_index]
        try:
            for segment, contents in zip(by_index, scanned, strict=True):
                segment.take(contents)
            self._arrange()
        except BaseException:
            for segment, contents, _ in before:
                segment.take(contents)
            raise
        self.hopped = True
        return any(entries != segment.contents.entries for segment, _, entries in before)

    def _ensure_known_kinds(self) -> None:
        unknown = sorted(kind for kind in self._kinds if kind not in _KINDS and not kind & OPTIONAL_KIND)
        if unknown:
            raise UnsupportedVersionError(f"blocks of kind {unknown}", f"kinds {sorted(_KINDS)}")
