"""Follow a tape while it is written: whole blocks, in order, without locks and without a false alarm.

Invariants:
    1. What has been given out is a beginning of what the tape holds; each tick comes once, in order.
    2. A block counts when it is whole and its checksums are right. A half-written one is waited for: the writer may
       still be at it, or it died there and whoever resumes the tape will cut it off.
    3. Bytes that are no block are called damage only when a sound block follows them.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import attrs

from recorder.errors import CorruptError, TornError, UnreadableError, UnsupportedVersionError
from recorder.format.blocks.block import OPTIONAL_KIND, TAG, BlockHeader, BlockKind, Flags
from recorder.format.blocks.drop_block import decode_drop
from recorder.format.blocks.file_header import HEADER_BYTES as FILE_HEADER_BYTES
from recorder.format.blocks.file_header import FileHeader, decode_file_header, marker_of
from recorder.format.blocks.frame import Frame, decode_frames
from recorder.format.segments.contents_by_scan import find_block
from recorder.format.segments.seal import TRAILER_BYTES, Seal, decode_seal, decode_trailer
from recorder.format.segments.segment_contents import Damage, Read, read_header, read_payload
from recorder.storage.file_names import segment_numbers, segment_path
from recorder.storage.open_tape import no_tape, reader
from sim.kernel.plain_data import decode_plain

_KINDS = {int(kind) for kind in BlockKind}
POLL_S = 0.05  # Twenty looks a second: quick for people, nothing for the machine.


@attrs.frozen
class KeyframeSeen:
    """A keyframe has been written.

    Attributes:
        tick: of its state.
        is_full: or a delta.
    """

    tick: int
    is_full: bool


@attrs.frozen
class Missed:
    """Ticks that the tail will not see.

    Attributes:
        first_tick, last_tick: which.
        why: the recording dropped them, they are damaged, or a ring has moved on.
    """

    first_tick: int
    last_tick: int
    why: str


@attrs.frozen
class Ended:
    """The recording was closed.

    Attributes:
        outcome: why and how.
    """

    outcome: Any


Seen = Frame | KeyframeSeen | Missed | Damage | Ended


class Tail:
    """A reader that keeps its place in a growing tape; a context manager."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Raises FileNotFoundError if there is no such file."""
        self.path = Path(path).absolute()
        self._name = os.fspath(path)  # As it was given, for messages.
        self.path.stat()
        self._number = -1
        self._descriptor = -1
        self._read: Read = lambda *_: b""
        self._header: FileHeader | None = None
        self._run_id = b""
        self._offset = 0
        self._seal: Seal | None = None
        self._next_tick: int | None = None
        self._last_keyframe: KeyframeSeen | None = None
        self._ended = False

    def follow(self, *, poll_s: float = POLL_S, wait: Callable[[float], None] = time.sleep) -> Iterator[Seen]:
        """What is on the tape and what comes, until the recording is closed; wait is called when there is nothing new."""
        while True:
            some = self.poll()
            yield from some
            if self._ended:
                return
            if not some:
                wait(poll_s)

    def poll(self) -> list[Seen]:
        """What has come since the last call.

        Raises UnsupportedVersionError for a newer format or a kind of block that a reader must know and this one does
        not, UnreadableError if no block is in what should be a tape.
        """
        return list(self.news())

    def news(self) -> Iterator[Seen]:
        """What poll returns, one by one, so that a long tape need not fit into memory. Raises as poll does."""
        more = True
        while more:
            seen: list[Seen] = []
            more = self._step(seen)
            yield from seen

    def _step(self, seen: list[Seen]) -> bool:
        """Take one thing from the tape; False when there is nothing more for now."""
        if self._header is None and not self._open_next(seen):
            return False
        assert self._header is not None
        size_bytes = os.fstat(self._descriptor).st_size
        place = self._offset
        try:
            first = header = read_header(self._read, place, self._header.marker)
            while True:
                if header.end_offset > size_bytes:
                    return self._finished_segment(size_bytes, seen)  # Not whole yet.
                payload = read_payload(self._read, header)
                if not header.flags & Flags.CONTINUES:
                    break
                # A keyframe counts with its last piece: without it, whoever resumes the tape takes the others away.
                place = header.end_offset
                header = read_header(self._read, place, self._header.marker)
            place = self._offset
            self._take(first, payload, seen)
        except (CorruptError, TornError) as error:
            return self._pass_over(error, place, size_bytes, seen)
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
            return False  # A ring has just dropped it: the next look finds a later one.
        try:
            header = self._read_file_header(reader(descriptor), os.fstat(descriptor).st_size, number, seen)
        except BaseException:
            os.close(descriptor)
            raise
        if header is None or (self._run_id and header.run_id != self._run_id):
            os.close(descriptor)
            return False
        self.close()
        self._descriptor, self._read, self._header, self._run_id = descriptor, reader(descriptor), header, header.run_id
        self._number, self._offset, self._seal = number, header.size_bytes, None
        return True

    def _following(self) -> int | None:
        """The number of the segment that comes after the current one, if there is one.

        It may be the same: a writer whose syncs fail one after the other begins a segment anew, under its old name.
        """
        if self._is_replaced():
            return self._number
        return min((number for number in segment_numbers(self.path) if number > self._number), default=None)

    def _is_replaced(self) -> bool:
        """Whether another file has the name of the one that is open."""
        if self._descriptor < 0:
            return False
        try:
            named = segment_path(self.path, self._number).stat()
        except FileNotFoundError:
            return False  # A ring has dropped it.
        return not os.path.samestat(named, os.fstat(self._descriptor))

    def _read_file_header(self, read: Read, size_bytes: int, number: int, seen: list[Seen]) -> FileHeader | None:
        """The header of a segment; None if it is not written yet. A damaged one is made up for by the blocks."""
        try:
            return decode_file_header(read(0, FILE_HEADER_BYTES))
        except (CorruptError, TornError) as error:
            if size_bytes < FILE_HEADER_BYTES:
                return None
            found = find_block(read, 0, size_bytes, marker_of(self._run_id, number) if self._run_id else None)
            if found is not None:
                seen.append(Damage(0, found.offset, _what(error), torn=False, segment=number))
                return FileHeader(self._run_id, found.marker, number, size_bytes=found.offset)
            if number:
                return None
            raise UnreadableError(self._name, no_tape(empty=False)) from None

    def _finished_segment(self, size_bytes: int, seen: list[Seen]) -> bool:
        """Go on to the next segment if there is one; this one gets no more blocks then."""
        if self._following() is None:
            return False
        if os.fstat(self._descriptor).st_size != size_bytes:
            return True  # It was finished after the last look at it: there is more to take.
        return self._open_next(seen)

    def _pass_over(self, error: CorruptError | TornError, place: int, size_bytes: int, seen: list[Seen]) -> bool:
        """What is at place is no whole block: a trailer, the end, or damage."""
        assert self._header is not None
        if place == self._offset and self._is_trailer():
            self._offset += TRAILER_BYTES
            if self._seal is not None and self._seal.final and self._offset == size_bytes:
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
        """Whether a trailer of this segment is at the current place."""
        assert self._header is not None
        try:
            marker, _ = decode_trailer(self._read(self._offset, TRAILER_BYTES), self._offset)
        except CorruptError:
            return False
        return marker == self._header.marker

    def _take(self, header: BlockHeader, payload: bytes, seen: list[Seen]) -> None:
        """What one whole block, or the first of several, says. Raises CorruptError."""
        match header.kind:
            case BlockKind.META:
                self._begin_session(payload)
            case BlockKind.FRAMES:
                for frame in decode_frames(header, payload):
                    self._expect(frame.tick, seen, "their block is damaged, or a ring has moved on")
                    if frame.tick == self._next_tick:
                        seen.append(frame)
                        self._next_tick = frame.tick + 1
            case BlockKind.FULL | BlockKind.DELTA if not header.flags & Flags.CONTINUATION:
                self._expect(header.first_tick + 1, seen, "their block is damaged, or a ring has moved on")
                keyframe = KeyframeSeen(header.first_tick, header.kind == BlockKind.FULL)
                if keyframe.tick + 1 == self._next_tick and keyframe != self._last_keyframe:  # Else it is repeated.
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
        """A tape that was resumed goes on from its last tick: what was dropped after that one comes again."""
        try:
            plain = decode_plain(payload)
        except ValueError:
            return  # What META should say is for those to report who read the whole tape.
        match plain:
            case {"resumed_at_tick": int(tick)} if self._next_tick is not None:
                self._next_tick = min(self._next_tick, tick + 1)

    def _expect(self, tick: int, seen: list[Seen], why: str) -> None:
        """Note the ticks between the last one and tick as missed; the first tick ever seen is where it starts."""
        if self._next_tick is None:
            self._next_tick = tick
        elif tick > self._next_tick:
            seen.append(Missed(self._next_tick, tick - 1, why))
            self._next_tick = tick

    def close(self) -> None:
        """Close the file; a second call does nothing."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def _what(error: CorruptError | TornError) -> str:
    """What is wrong, without the place, which a Damage names itself."""
    return error.what if isinstance(error, CorruptError) else "the file ends inside a block"
