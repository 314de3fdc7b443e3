"""Write blocks to the segments of a tape. Nothing is lost as long as the disk accepts new blocks again.

Blocks wait in a backlog until their append has returned. If the tape is synced, they are kept until a sync has returned.

Invariants:
    1. Groups of blocks reach the tape in the order in which they were put.
    2. After a failed append, the segment is truncated to its last complete block. If that fails, too, nothing more is
       written to it, and the next segment continues from there.
    3. After a failed sync, nothing more is written to that segment, and it is never synced again: the kernel may have
       dropped the pages and would report success. Blocks that were not yet durable are written again, to a new segment.
    4. A segment's META states the offset in the segment before from which on it repeats or follows it. A segment gets
       its name when it has repeated everything: a process that is killed before changes nothing.
"""

from __future__ import annotations

import errno
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import attrs

from recorder.format.segments.large_group import Group, LargeGroup
from recorder.format.segments.segment_encoder import SegmentEncoder
from recorder.storage.file_interfaces import IO, Files
from sim.kernel.memory.free_memory import give_back_free_memory

MakeMeta = Callable[[int, int], bytes]  # Takes a segment's number and the offset that it continues from; returns META.

APPEND_BYTES = 8 << 20  # Joined for one append. The keyframe of a large state is not in memory once more.
LARGE_GROUP_BYTES = 64 << 20  # What took so much, such as the keyframe of a large state, is given back to the system.


class SizeChangedError(OSError):
    """Another program changed the size of a file that is being written; what it held may be gone."""


@attrs.frozen
class Rotation:
    """An item of the backlog: the groups after it go into a new segment."""


@attrs.frozen
class _Past:
    """A finished segment that a ring still keeps."""

    number: int
    last_tick: int
    closed_s: float


class SegmentedLog:
    """Owns the files of one tape while it is written; called by the writer's thread only.

    Attributes:
        encoder: of the segment that is being written.
        backlog_bytes: of blocks that are not in a file yet, or have to be written again.
        undurable_bytes: of blocks that are in a file, and kept until it is synced.
        sync_count, sync_s_max: number of syncs, and the longest duration of one.
        written_bytes: appended to all segments.
    """

    def __init__(
        self,
        files: Files,
        io: IO,
        encoder: SegmentEncoder,
        make_meta: MakeMeta,
        *,
        syncs: bool,
        record_durable: bool,
        past: Sequence[tuple[int, int]] = (),
    ) -> None:
        """io, encoder: of the last segment, with the blocks that it has already.

        past: number and last tick of the segments before, for a ring, which will remove them.
        syncs: True if sync will be called; blocks are kept for it. record_durable: write into blocks the length of
        the file that is known to be durable.
        """
        self._files = files
        self._io = io
        self._make_meta = make_meta
        self._syncs = syncs
        self._record_durable = record_durable
        self._backlog: deque[Group | Rotation] = deque()
        self._undurable: deque[Group] = deque()
        self._synced_offset = encoder.next_offset
        self._unusable = False  # The current segment failed; the next blocks go into a new one.
        self._repeat: list[Group] = []  # Blocks in the failed segment that are not durable.
        self._index_written = False
        self._sealed = False
        self._after = 0  # Offset in the segment before at which the current one takes over.
        self._past: list[_Past] = [_Past(number, tick, time.monotonic()) for number, tick in past]
        self._given_up: list[int] = []  # Segments that failed since the last rotation; later deltas refer to them.
        self._had_large_group = False
        self.encoder = encoder
        self.backlog_bytes = 0
        self.undurable_bytes = 0
        self.sync_count = 0
        self.sync_s_max = 0.0
        self.written_bytes = encoder.next_offset

    @property
    def is_empty(self) -> bool:
        """True if all groups that were put are in a file."""
        return not self._backlog and not self._unusable

    def put(self, group: Group) -> None:
        """Add blocks to the backlog; write appends them to the file."""
        self._backlog.append(group)
        size = _size(group)
        self.backlog_bytes += size
        self._had_large_group |= size >= LARGE_GROUP_BYTES

    def hold(self) -> None:
        """Keep the blocks that may have to be written again without what they are made from, which then may change."""
        for groups in (self._backlog, self._undurable, self._repeat):
            for number, group in enumerate(groups):
                if isinstance(group, LargeGroup):
                    groups[number] = list(group)
        self.undurable_bytes = sum(map(_size, self._undurable))
        waiting = [group for group in self._backlog if not isinstance(group, Rotation)]
        self.backlog_bytes = sum(map(_size, [*waiting, *self._repeat]))

    def put_rotation(self) -> None:
        """Begin a new segment after the groups that were put so far."""
        self._backlog.append(Rotation())

    def start(self) -> None:
        """Write the file header and META of the first segment. Raises OSError; the file is not a tape then."""
        head = self.encoder.start()
        self._io.append(head)
        self.written_bytes += len(head)

    def write(self) -> None:
        """Append the backlog to the file. Raises OSError; groups that were not written stay in the backlog."""
        if self._had_large_group and self.backlog_bytes + self.undurable_bytes < LARGE_GROUP_BYTES:
            give_back_free_memory()
            self._had_large_group = False
        if self._unusable:
            self._take_over()
        while self._backlog:
            if isinstance(self._backlog[0], Rotation):
                self._rotate()
                self._backlog.popleft()
            else:
                self._write_group(self._backlog[0])
                self._backlog.popleft()

    def _write_group(self, group: Group) -> None:
        mark = self.encoder.mark()
        self._append_or_roll_back(_placed(group, self.encoder), mark)
        self._note_written(group)

    def _note_written(self, group: Group) -> None:
        size = _size(group)
        self.backlog_bytes -= size
        if self._syncs:
            self._undurable.append(group)
            self.undurable_bytes += size

    def ensure_size(self) -> None:
        """Raise SizeChangedError if the current segment has not the size that was written; it is given up then."""
        if not self._unusable:
            self._ensure_size(self.encoder.next_offset)

    def _ensure_size(self, expected: int) -> None:
        size = self._io.size()
        if size != expected:
            self._give_up_segment()
            what = f"another program changed the size of the tape: it has {size:,} of {expected:,} bytes"
            raise SizeChangedError(errno.EIO, what)

    def _append_or_roll_back(self, parts: Iterable[bytes], mark: Any) -> None:
        try:
            self._ensure_size(mark.next_offset)
        except OSError:
            self.encoder.roll_back(mark)
            raise
        try:
            for data in parts:
                self._io.append(data)
        except BaseException:  # Large groups are compressed meanwhile, for which memory may be lacking.
            self.encoder.roll_back(mark)
            try:
                self._io.truncate(mark.next_offset)
            except OSError:
                self._give_up_segment()
            raise
        self.written_bytes += self.encoder.next_offset - mark.next_offset

    def sync(self) -> None:
        """Make the file durable. Raises OSError; the next write then repeats the blocks that were not durable."""
        if self._unusable or self.encoder.next_offset <= self._synced_offset:
            return
        start_s = time.monotonic()
        try:
            self._io.fdatasync()
        except OSError:
            self._give_up_segment()
            raise
        self._synced_offset = self.encoder.next_offset
        self._undurable.clear()
        self.undurable_bytes = 0
        if self._record_durable:
            self.encoder.durable_bytes = self._synced_offset
        self.sync_count += 1
        self.sync_s_max = max(self.sync_s_max, time.monotonic() - start_s)

    def _give_up_segment(self) -> None:
        """Write nothing more into this segment (invariants 2 and 3)."""
        self._unusable = True
        self._index_written = self._sealed = False
        self._repeat = list(self._undurable)
        self.backlog_bytes += self.undurable_bytes
        self._undurable.clear()
        self.undurable_bytes = 0

    def _take_over(self) -> None:
        """Continue in a new segment that takes over from the failed one. Raises OSError, and changes nothing then."""
        number = self.encoder.header.segment
        if number and self._syncs and not self._synced_offset:
            # Nothing in it is durable and all of it is repeated: the new one takes its place.
            self._begin(number, self._after, self.encoder.previous_digest)
        else:
            self._begin(number + 1, self._synced_offset if self._syncs else self.encoder.next_offset, b"")
            self._given_up.append(number)
            self._close(number)
        for group in self._repeat:
            self._note_written(group)
        self._repeat.clear()
        self._unusable = False

    def _begin(self, number: int, after: int, previous_digest: bytes) -> None:
        """Begin a segment with META and the repeated blocks. It gets its name only when all of them are in it."""
        following = self.encoder.next_segment(number, self._make_meta(number, after), previous_digest)
        io = self._files.create(number)
        io.append(following.start(0))
        for group in self._repeat:
            for data in _placed(group, following):
                io.append(data)
        self._files.publish(number)
        self._io, self.encoder, self._after = io, following, after
        self.written_bytes += following.next_offset
        self._synced_offset = 0
        self._index_written = self._sealed = False

    def _rotate(self) -> None:
        """Seal the segment and begin the next."""
        self._seal(None, final=False)
        end_offset, past = self.encoder.next_offset, self.encoder
        self._begin(past.header.segment + 1, end_offset, past.sealed_digest)
        for number in [*self._given_up, past.header.segment]:
            self._past.append(_Past(number, past.last_tick, time.monotonic()))
        self._given_up.clear()
        self._close(past.header.segment)

    def _close(self, number: int) -> None:
        if number:  # The first one holds the lock.
            self._files.close(number)

    def end(self, outcome: Any, keep_ticks: int | None = None, keep_s: float | None = None) -> None:
        """Write the backlog and seal the tape. Raises OSError; a second call continues where the first failed.

        keep_ticks, keep_s: of a ring. Its END names the oldest segment: nothing else shows that one before it is missing.
        """
        self.write()
        self.drop_front(keep_ticks, keep_s)
        numbers = [*(past.number for past in self._past), *self._given_up, self.encoder.header.segment]
        is_ring = keep_ticks is not None or keep_s is not None
        self._seal(outcome, final=True, oldest_segment=min(filter(None, numbers), default=0) if is_ring else 0)

    def _seal(self, outcome: Any, *, final: bool, oldest_segment: int = 0) -> None:
        if self._sealed:
            return  # Sealed by an earlier call, which failed later.
        if not self._index_written:
            mark = self.encoder.mark()
            self._append_or_roll_back([self.encoder.last_index()], mark)
            self._index_written = True
        if self._syncs:
            self.sync()  # An END on the disk then proves that everything before it is durable.
        mark = self.encoder.mark()
        self._append_or_roll_back([self.encoder.end(outcome, final=final, oldest_segment=oldest_segment)], mark)
        self._index_written, self._sealed = False, True
        if self._syncs:
            self.sync()

    def drop_front(self, keep_ticks: int | None, keep_s: float | None) -> None:
        """Remove the segments that a ring no longer needs, until it is sealed. Raises OSError."""
        if self._sealed:
            return  # END names the oldest one.
        if keep_ticks is None and keep_s is None:
            self._past.clear()  # Only a ring needs them.
            self._given_up.clear()
            return
        now_s, last_tick = time.monotonic(), self.encoder.last_tick
        while self._past:
            past = self._past[0]
            if keep_ticks is not None and past.last_tick > last_tick - keep_ticks:
                break
            if keep_s is not None and past.closed_s > now_s - keep_s:
                break
            if self._syncs:
                self.sync()  # What is kept may not be durable yet: a power cut would leave nothing.
            if past.number:  # The first segment has the tape's name, and contains only META.
                self._files.remove(past.number)
            del self._past[0]


def _placed(group: Group, encoder: SegmentEncoder) -> Iterator[bytes]:
    """Place the blocks of a group, and yield their bytes: joined, but never many more than APPEND_BYTES at once."""
    joined: list[bytes] = []
    size = 0
    for piece in group:
        joined.append(encoder.place(piece))
        size += len(joined[-1])
        if size >= APPEND_BYTES:
            yield b"".join(joined)
            joined, size = [], 0
    yield b"".join(joined) + encoder.index_if_due()


def _size(group: Group) -> int:
    if isinstance(group, LargeGroup):
        return group.size_bytes
    return sum(len(piece.padded) for piece in group)
