"""Put blocks into the segments of a tape so that nothing is lost while there is a disk that takes them.

Blocks wait in a backlog until an append has returned, and, if the tape is synced at all, are kept until a sync has.

Invariants:
    1. Groups of blocks reach the tape in the order in which they were put.
    2. After an append that failed, the segment is cut back to its last whole block; if that fails, too, nothing more is
       written to it and the next segment goes on from there.
    3. After a sync that failed, nothing more is written to that segment, and it is never synced again: the kernel may
       have dropped the pages and would report success. What was not yet durable is written again, into a new segment.
    4. A segment's META says from which offset on it repeats or follows the segment before. It gets its name when it has
       repeated everything: a process that is killed before leaves what was there.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import attrs

from recorder.format.segments.segment_encoder import Piece, SegmentEncoder
from recorder.storage.tape_files import IO, Files

MakeMeta = Callable[[int, int], bytes]  # From a segment's number, and the offset it goes on from, to its META.
Group = list[Piece]  # The blocks of one payload: they are placed together.


@attrs.frozen
class Rotation:
    """In the backlog: what comes after it goes into a new segment."""


@attrs.frozen
class _Past:
    """A segment that was finished, while a ring still keeps it."""

    number: int
    last_tick: int
    closed_s: float


class SegmentedLog:
    """Owns the files of one tape while it is written; called by the writer's thread only.

    Attributes:
        encoder: of the segment that is being written.
        backlog_bytes: of blocks that are not in a file yet, or have to be written again.
        undurable_bytes: of blocks that are in a file, and kept until it is synced.
        sync_count, sync_s_max: how often files were synced, and the longest time that took.
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
        tell_durable: bool,
        past: Sequence[tuple[int, int]] = (),
    ) -> None:
        """io, encoder: of the last segment, as far as it is written already.

        past: number and last tick of the segments before, for a ring, which goes on dropping them.
        syncs: whether sync will be called; blocks are kept for it. tell_durable: write into blocks how far syncs have
        made the file durable.
        """
        self._files = files
        self._io = io
        self._make_meta = make_meta
        self._syncs = syncs
        self._tell_durable = tell_durable
        self._backlog: deque[Group | Rotation] = deque()
        self._undurable: deque[Group] = deque()
        self._synced_offset = encoder.next_offset
        self._unusable = False  # The current segment failed us; what comes next goes into a new one.
        self._repeat: list[Group] = []  # What is in the segment that failed, and not durable.
        self._index_written = False
        self._sealed = False
        self._after = 0  # Where in the segment before the current one takes over.
        self._past: list[_Past] = [_Past(number, tick, time.monotonic()) for number, tick in past]
        self._given_up: list[int] = []  # Segments that failed since the last rotation; what follows builds upon them.
        self.encoder = encoder
        self.backlog_bytes = 0
        self.undurable_bytes = 0
        self.sync_count = 0
        self.sync_s_max = 0.0
        self.written_bytes = encoder.next_offset

    @property
    def is_empty(self) -> bool:
        """Whether all that was put is in a file."""
        return not self._backlog and not self._unusable

    def put(self, group: Group) -> None:
        """Take blocks over; write puts them into the file."""
        self._backlog.append(group)
        self.backlog_bytes += _size(group)

    def put_rotation(self) -> None:
        """Let a new segment begin behind what was put so far."""
        self._backlog.append(Rotation())

    def start(self) -> None:
        """Write the file header and META of the first segment. Raises OSError; then the tape is no tape."""
        self._append(self.encoder.start())

    def write(self) -> None:
        """Append all that was put. Raises OSError; what is not in a file stays in the backlog."""
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

    def _append_or_roll_back(self, data: bytes, mark: Any) -> None:
        try:
            self._append(data)
        except OSError:
            self.encoder.roll_back(mark)
            try:
                self._io.truncate(mark.next_offset)
            except OSError:
                self._give_up_segment()
            raise

    def _append(self, data: bytes) -> None:
        self._io.append(data)
        self.written_bytes += len(data)

    def sync(self) -> None:
        """Make durable what is in the file. Raises OSError; what was not yet durable is written again by write then."""
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
        if self._tell_durable:
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
        """Go on in a segment that takes over from the one that failed; raises OSError, and changes nothing then."""
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
        """A new segment, with META and with what it repeats, that has its name only once all of that is in it."""
        following = self.encoder.next_segment(number, self._make_meta(number, after), previous_digest)
        io = self._files.create(number)
        io.append(following.start(0))
        for group in self._repeat:
            io.append(_placed(group, following))
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

    def end(self, outcome: Any) -> None:
        """Write all that was put and seal the tape. Raises OSError; a second call goes on where it failed."""
        self.write()
        self._seal(outcome, final=True)

    def _seal(self, outcome: Any, *, final: bool) -> None:
        if self._sealed:
            return  # Before something that came after it failed.
        if not self._index_written:
            mark = self.encoder.mark()
            self._append_or_roll_back(self.encoder.last_index(), mark)
            self._index_written = True
        if self._syncs:
            self.sync()  # So that an END on the disk proves what stands before it.
        mark = self.encoder.mark()
        self._append_or_roll_back(self.encoder.end(outcome, final=final), mark)
        self._index_written, self._sealed = False, True
        if self._syncs:
            self.sync()

    def drop_front(self, keep_ticks: int | None, keep_s: float | None) -> None:
        """Remove the segments that a ring no longer needs. Raises OSError."""
        if keep_ticks is None and keep_s is None:
            self._past.clear()  # Only a ring asks for them.
            self._given_up.clear()
            return
        now_s, last_tick = time.monotonic(), self.encoder.last_tick
        while self._past:
            past = self._past[0]
            if keep_ticks is not None and past.last_tick > last_tick - keep_ticks:
                break
            if keep_s is not None and past.closed_s > now_s - keep_s:
                break
            if past.number:  # The first segment holds nothing but META, and the tape's name.
                self._files.remove(past.number)
            del self._past[0]


def _placed(group: Group, encoder: SegmentEncoder) -> bytes:
    return b"".join([encoder.place(piece) for piece in group]) + encoder.index_if_due()


def _size(group: Group) -> int:
    return sum(len(piece.padded) for piece in group)
