"""Follow a tape while it is written: complete blocks, in order, without locks and without false reports of damage.

Invariants:
    1. The items yielded so far are a prefix of the tape's content; each tick comes once, in order.
    2. A block counts when it is complete and its checksums are right. The tail waits for an incomplete one: the writer
       may still be writing it, or died there, and the next resume removes it.
    3. Bytes that are not a block are reported as damage only when an intact block follows them.
    4. Ticks that are in the journal only come when the blocks are read. The journal is read before the blocks: ticks that
       the writer moves into a block meanwhile are then read twice instead of never.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs

from recorder.errors import CorruptError, TornError, UnreadableError, UnsupportedVersionError
from recorder.format.blocks.block import OPTIONAL_KIND, TAG, BlockHeader, BlockKind, Flags
from recorder.format.blocks.drop_block import decode_drop
from recorder.format.blocks.file_header import HEADER_BYTES as FILE_HEADER_BYTES
from recorder.format.blocks.file_header import FileHeader, decode_file_header, marker_of
from recorder.format.blocks.frame import Frame, decode_frames
from recorder.format.recording.assembly import decode_meta, taken_over_at
from recorder.format.segments.contents_by_scan import find_block
from recorder.format.segments.seal import TRAILER_BYTES, Seal, decode_seal, decode_trailer
from recorder.format.segments.segment_contents import Damage, Read, read_header, read_payload
from recorder.storage.file_names import segment_numbers, segment_path
from recorder.storage.open_tape import LocalFiles, no_tape, read_journal, reader
from recorder.storage.remote.tape_folder import OpenedFile
from sim.closed_on_exit import ClosedOnExit
from sim.kernel.plain_data import decode_plain

_KINDS = {int(kind) for kind in BlockKind}
POLL_S = 0.05  # 20 polls per second: fast enough for people, negligible load.


@attrs.frozen
class KeyframeSeen:
    """A keyframe was written. It comes when it is on the tape: the frames of later ticks may have come before it.

    Attributes:
        tick: the tick of its state.
        is_full: False for a delta.
    """

    tick: int
    is_full: bool


@attrs.frozen
class Missed:
    """A range of ticks that the tail cannot yield.

    Attributes:
        first_tick, last_tick: the range.
        why: the recording dropped them, they are damaged, or a ring has removed them.
    """

    first_tick: int
    last_tick: int
    why: str


@attrs.frozen
class Ended:
    """The recording was closed.

    Attributes:
        outcome: the recorded reason, with details.
    """

    outcome: Any


Seen = Frame | KeyframeSeen | Missed | Damage | Ended


class Tail(ClosedOnExit):
    """A reader that keeps its position in a growing tape; a context manager."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Start at the beginning of a tape. Raises FileNotFoundError if there is no such file."""
        self.path = Path(path).absolute()
        self._name = os.fspath(path)  # As the caller wrote it, for messages.
        self.path.stat()
        self._number = -1
        self._descriptor = -1
        self._read: Read = lambda *_: b""
        self._header: FileHeader | None = None
        self._run_id = b""
        self._offset = 0
        self._end: int | None = None
        self._seal: Seal | None = None
        self._next_tick: int | None = None  # Of what was yielded.
        self._next_in_blocks: int | None = None  # What was yielded may be ahead, from the journal.
        self._sessions = 0  # That were resumed.
        self._files = LocalFiles(self.path)
        self._journal_file: OpenedFile | None = None
        self._last_keyframe: KeyframeSeen | None = None
        self._ended = False

    def follow(self, *, poll_s: float = POLL_S, wait: Callable[[float], None] = time.sleep) -> Iterator[Seen]:
        """Yield the content of the tape and everything added to it, until the recording is closed.

        poll_s: seconds between two looks. wait: called with poll_s when there is nothing new. Raises as poll does.
        """
        while True:
            new_items = self.poll()
            yield from new_items
            if self._ended:
                return
            if not new_items:
                wait(poll_s)

    def poll(self) -> list[Seen]:
        """Return everything new since the last call.

        Raises UnsupportedVersionError for a newer format or an unknown required kind of block, UnreadableError if the
        file has no block of a tape.
        """
        return list(self.news())

    def news(self) -> Iterator[Seen]:
        """Yield the items of poll one by one: a long tape need not fit into memory. Raises as poll does."""
        sessions = -1
        while sessions != self._sessions:  # After a resume, the journal was that of the session before.
            self._journal_file, journal = read_journal(self._files, self._journal_file)
            sessions = self._sessions
            more = True
            while more:
                seen: list[Seen] = []
                more = self._step(seen)
                yield from seen
        if self._next_tick is None or self._ended or journal.run_id != self._run_id:
            return
        for frame in journal.following(self._next_tick - 1).values():
            self._next_tick = frame.tick + 1
            yield frame

    def _step(self, seen: list[Seen]) -> bool:
        """Read one item from the tape; False if there is nothing more at the moment."""
        if self._header is None and not self._open_next(seen):
            return False
        assert self._header is not None
        size_bytes = self._size_bytes()
        place = self._offset
        try:
            first = header = read_header(self._read, place, self._header.marker)
            while True:
                if header.end_offset > size_bytes:
                    return self._finished_segment(size_bytes, seen)  # Not complete yet.
                payload = read_payload(self._read, header)
                if not header.flags & Flags.CONTINUES:
                    break
                # A keyframe counts with its last piece: without it, a resume removes the others.
                place = header.end_offset
                header = read_header(self._read, place, self._header.marker)
            place = self._offset
            self._take(first, payload, seen)
        except (CorruptError, TornError) as error:
            return self._skip(error, place, size_bytes, seen)
        self._offset = header.end_offset
        return True

    def _open_next(self, seen: list[Seen]) -> bool:
        """Open the segment after the current one; False if there is none yet."""
        number = self._following()
        if number is None:
            return False
        try:
            descriptor = os.open(segment_path(self.path, number), os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return False  # A ring has just dropped it: the next poll finds a later one.
        try:
            header = self._read_file_header(reader(descriptor), os.fstat(descriptor).st_size, number, seen)
        except BaseException:
            os.close(descriptor)
            raise
        if header is None or (self._run_id and header.run_id != self._run_id):
            os.close(descriptor)
            return False
        self._close_segment()
        self._descriptor, self._read, self._header, self._run_id = descriptor, reader(descriptor), header, header.run_id
        self._number, self._offset, self._seal = number, header.size_bytes, None
        self._end = self._taken_over_at(number + 1)
        return True

    def _size_bytes(self) -> int:
        """The size of the open file, without the blocks that the next one had replaced when it was opened."""
        size_bytes = os.fstat(self._descriptor).st_size
        return size_bytes if self._end is None else min(size_bytes, self._end)

    def _taken_over_at(self, following: int) -> int | None:
        """The offset in the open file at which a segment took over after a failed sync; None if there is no such one.

        It repeats the blocks from there on. If it was damaged and resumed since, it has other ticks in their place.
        """
        try:
            descriptor = os.open(segment_path(self.path, following), os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        try:
            read = reader(descriptor)
            header = decode_file_header(read(0, FILE_HEADER_BYTES))
            first = read_header(read, header.size_bytes, header.marker)
            if header.run_id != self._run_id or first.kind != BlockKind.META:
                return None
            return taken_over_at(decode_meta(read_payload(read, first)) or {})
        except (CorruptError, TornError):
            return None
        finally:
            os.close(descriptor)

    def _following(self) -> int | None:
        """The number of the segment to read after the current one; None if there is none.

        The number may be the current one: a writer whose syncs fail repeatedly starts a segment again under its name.
        """
        if self._is_replaced():
            return self._number
        return min((number for number in segment_numbers(self.path) if number > self._number), default=None)

    def _is_replaced(self) -> bool:
        """Return True if the name of the open file now belongs to a different file."""
        if self._descriptor < 0:
            return False
        try:
            named = segment_path(self.path, self._number).stat()
        except FileNotFoundError:
            return False  # A ring has dropped it.
        return not os.path.samestat(named, os.fstat(self._descriptor))

    def _read_file_header(self, read: Read, size_bytes: int, number: int, seen: list[Seen]) -> FileHeader | None:
        """The header of a segment; None if it is not written yet. A damaged one is reconstructed from the blocks."""
        try:
            return decode_file_header(read(0, FILE_HEADER_BYTES))
        except (CorruptError, TornError) as error:
            if size_bytes < FILE_HEADER_BYTES and (number or isinstance(error, TornError)):
                return None  # What is there is the beginning of a header.
            found = find_block(read, 0, size_bytes, marker_of(self._run_id, number) if self._run_id else None)
            if found is not None:
                seen.append(Damage(0, found.offset, _what(error), torn=False, segment=number))
                return FileHeader(self._run_id, found.marker, number, size_bytes=found.offset)
            if number:
                return None
            raise UnreadableError(self._name, no_tape(empty=False)) from None

    def _finished_segment(self, size_bytes: int, seen: list[Seen]) -> bool:
        """Open the next segment if there is one; the current one then gets no more blocks."""
        if self._following() is None:
            return False
        if self._size_bytes() != size_bytes:
            return True  # It grew before it was finished: there is more to read.
        return self._open_next(seen)

    def _skip(self, error: CorruptError | TornError, place: int, size_bytes: int, seen: list[Seen]) -> bool:
        """Skip what is not a complete block at place: a trailer, the end, or damage."""
        assert self._header is not None
        if place == self._offset and self._is_trailer():
            self._offset += TRAILER_BYTES
            if self._seal is not None and self._seal.final and self._offset == size_bytes:
                if self._following() is not None and self._open_next(seen):
                    return True  # It was resumed since, in a further file.
                seen.append(Ended(self._seal.outcome))
                self._ended = True
                return False
            return True
        following = find_block(self._read, place + len(TAG), size_bytes, self._header.marker)
        if following is None:
            return self._finished_segment(size_bytes, seen)
        seen.append(Damage(self._offset, following.offset, _what(error), torn=False, segment=self._number))
        self._offset = following.offset
        return True

    def _is_trailer(self) -> bool:
        """Return True if a trailer of this segment is at the current offset."""
        assert self._header is not None
        try:
            marker, _ = decode_trailer(self._read(self._offset, TRAILER_BYTES), self._offset)
        except CorruptError:
            return False
        return marker == self._header.marker

    def _take(self, header: BlockHeader, payload: bytes, seen: list[Seen]) -> None:
        """Handle one complete block, or a keyframe of several pieces by its first block. Raises CorruptError."""
        match header.kind:
            case BlockKind.META:
                self._begin_session(payload)
            case BlockKind.FRAMES:
                for frame in decode_frames(header, payload):
                    self._expect(frame.tick, seen, "their block is damaged, or a ring has dropped it")
                    if frame.tick == self._next_tick:
                        seen.append(frame)
                        self._next_tick = frame.tick + 1
                    if frame.tick == self._next_in_blocks:
                        self._next_in_blocks = frame.tick + 1
            case BlockKind.FULL | BlockKind.DELTA if not header.flags & Flags.CONTINUATION:
                self._expect(header.first_tick + 1, seen, "their block is damaged, or a ring has dropped it")
                keyframe = KeyframeSeen(header.first_tick, header.kind == BlockKind.FULL)
                if (
                    keyframe.tick + 1 == self._next_in_blocks and keyframe != self._last_keyframe
                ):  # Else it is repeated.
                    seen.append(keyframe)
                    self._last_keyframe = keyframe
            case BlockKind.DROP:
                drop = decode_drop(payload, header.offset)
                self._expect(drop.last_tick + 1, seen, drop.why)
            case BlockKind.END:
                self._seal = decode_seal(payload, header.offset)
                if self._next_tick is not None:
                    self._expect(self._seal.last_tick + 1, seen, "their block is damaged")
            case kind if kind not in _KINDS and not kind & OPTIONAL_KIND:
                raise UnsupportedVersionError(f"blocks of kind {kind}", f"kinds {sorted(_KINDS)}")

    def _begin_session(self, payload: bytes) -> None:
        """Continue at the tick where the recording was resumed: ticks dropped after it are recorded again."""
        try:
            plain = decode_plain(payload)
        except ValueError:
            return  # Readers of the complete tape report a damaged META.
        match plain:
            case {"resumed_at_tick": int(tick)} if self._next_tick is not None and self._next_in_blocks is not None:
                self._sessions += 1
                self._ended = False  # It goes on behind its end.
                self._next_tick = min(self._next_tick, tick + 1)
                self._next_in_blocks = min(self._next_in_blocks, tick + 1)

    def _expect(self, tick: int, seen: list[Seen], why: str) -> None:
        """Report the ticks between the last one and tick as missed; the first call sets the start."""
        if self._next_tick is None or self._next_in_blocks is None:
            self._next_tick = self._next_in_blocks = tick
        elif tick > self._next_tick:
            seen.append(Missed(self._next_tick, tick - 1, why))
            self._next_tick = tick
        self._next_in_blocks = max(self._next_in_blocks, tick)

    def close(self) -> None:
        """Close the files; a second call does nothing."""
        self._close_segment()
        if self._journal_file is not None:
            self._journal_file.close()
            self._journal_file = None

    def _close_segment(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def _what(error: CorruptError | TornError) -> str:
    """The text of an error without its offset, which a Damage has as a field."""
    return error.what if isinstance(error, CorruptError) else "the file ends inside a block"
