"""Open a tape and read frames and keyframes from it, without any simulation.

Reads with pread and never maps the file, because a tape may still be growing or be cut short under a reader.
"""

from __future__ import annotations

import bisect
import errno
import functools
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import attrs

from recorder.errors import (
    CorruptError,
    MissingTickError,
    RecordingError,
    TornError,
    UnreadableError,
    UnsupportedVersionError,
)
from recorder.format.block import OPTIONAL_KIND, BlockHeader, Flags, Kind
from recorder.format.frame import Frame, decode_frames
from recorder.format.index import Entry, entry_of
from recorder.format.keyframe import decode_delta, decode_full
from recorder.format.plain_data import decode_plain
from recorder.format.scan import (
    Contents,
    Damage,
    NoTapeError,
    read_contents,
    read_header,
    read_payload,
    scan_contents,
)
from sim.kernel.state import Snapshot

FRAME_BLOCKS_KEPT = 16  # Decoded blocks of about a hundred frames: what scrubbing near a tick touches again.
FULL_STATES_KEPT = 2  # Neighbouring deltas share a baseline.


@attrs.frozen
class KeyframePlace:
    """A keyframe on the tape.

    Attributes:
        tick: of the state.
        is_full: or a delta.
        entry: of its first block.
    """

    tick: int
    is_full: bool
    entry: Entry


_KINDS = {int(kind) for kind in Kind}
T = TypeVar("T")


class Tape:
    """One tape, open for reading; a context manager."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Open the tape and find its blocks.

        Raises FileNotFoundError or another OSError if there is no such file, UnreadableError if nothing in it is a
        block of a tape, UnsupportedVersionError if a newer program wrote it.
        """
        self.path = Path(path)
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            found = os.fstat(self._descriptor)
            if stat.S_ISDIR(found.st_mode):
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
            size_bytes = found.st_size
            self._hopped = False
            self._take(read_contents(self.read, size_bytes))
        except NoTapeError as error:
            self.close()
            raise UnreadableError(os.fspath(path), f"this is no tape: {error}") from None
        except BaseException:
            self.close()
            raise

    def read(self, offset: int, size: int) -> bytes:
        """Up to size bytes of the file from offset on."""
        return os.pread(self._descriptor, size, offset)

    def _take(self, contents: Contents) -> None:
        self.contents = contents
        by_kind: dict[int, list[Entry]] = {}
        for entry in contents.entries:
            by_kind.setdefault(entry.kind, []).append(entry)
        self._frame_blocks = sorted(by_kind.get(Kind.FRAMES, []), key=lambda entry: entry.first_tick)
        self._frame_starts = [entry.first_tick for entry in self._frame_blocks]
        found = by_kind.get(Kind.FULL, []) + by_kind.get(Kind.DELTA, [])
        self._fulls = {entry.seq: entry for entry in by_kind.get(Kind.FULL, [])}
        self.keyframes = [
            KeyframePlace(entry.first_tick, entry.kind == Kind.FULL, entry)
            for entry in sorted(found, key=lambda entry: entry.seq)
            if entry.kind == Kind.FULL or entry.seq - entry.baseline in self._fulls
        ]
        self._keyframe_ticks = [place.tick for place in self.keyframes]
        self._unknown_kinds = sorted(kind for kind in by_kind if kind not in _KINDS and not kind & OPTIONAL_KIND)
        self._decode_frame_block = functools.lru_cache(FRAME_BLOCKS_KEPT)(self._read_frame_block)
        self._decode_full = functools.lru_cache(FULL_STATES_KEPT)(self._read_full)

    # --- what there is

    @functools.cached_property
    def meta(self) -> dict[str, Any]:
        """How the recording was made (see SPEC.md, META); empty if that block is damaged and the tape is unsealed."""
        entry = next((entry for entry in self.contents.entries if entry.kind == Kind.META), None)
        copies: list[Callable[[], bytes]] = [lambda: self._payload(entry)] if entry is not None else []
        if (seal := self.contents.seal) is not None:
            copies.append(lambda: seal.meta)
        for copy in copies:
            try:
                plain = decode_plain(copy())
            except (ValueError, CorruptError, TornError):
                continue  # The other copy, if there is one, may be sound.
            match plain:
                case {"world": None | {"name": str(), "version": int(), "config": dict()}}:
                    return dict(plain)
        return {}

    @property
    def run_id(self) -> str:
        """Hexadecimal; empty if the file header is damaged."""
        return self.contents.header.run_id.hex() if self.contents.header is not None else ""

    @property
    def sealed(self) -> bool:
        """Whether the recording was closed properly."""
        return self.contents.seal is not None

    @property
    def damages(self) -> list[Damage]:
        """Stretches of the file without sound blocks, as far as headers show."""
        return self.contents.damages

    @property
    def status(self) -> str:
        """Either "intact" (sealed, whole), "incomplete" (ends without a seal, all before is good) or "corrupt"."""
        if any(not damage.torn for damage in self.damages):
            return "corrupt"
        return "intact" if self.sealed and not self.damages else "incomplete"

    @property
    def first_tick(self) -> int:
        """The first tick whose state can be had. Raises MissingTickError if there is none."""
        if not self.keyframes:
            raise MissingTickError(0, "the tape has no keyframe yet, so that no state can be had")
        return self.keyframes[0].tick

    @property
    def last_tick(self) -> int:
        """The last tick of which there is a frame or a keyframe. Raises MissingTickError if there is none."""
        first = self.first_tick
        frames = self._frame_blocks[-1].final_tick if self._frame_blocks else first
        return max(frames, *(place.tick for place in self.keyframes[-1:]), first)

    def missing_ticks(self) -> list[tuple[int, int]]:
        """Ranges of ticks, first and final, between first_tick and last_tick that have no frame."""
        missing, next_tick = [], self.first_tick + 1
        for entry in self._frame_blocks:
            if entry.first_tick > next_tick:
                missing.append((next_tick, entry.first_tick - 1))
            next_tick = max(next_tick, entry.final_tick + 1)
        if next_tick <= self.last_tick:
            missing.append((next_tick, self.last_tick))
        return missing

    # --- reading

    def frame(self, tick: int) -> Frame:
        """The frame of one tick.

        Raises MissingTickError, CorruptError if its block is damaged, UnsupportedVersionError if the tape holds kinds
        of blocks that a reader must know and this one does not.
        """
        return self._believing_index(lambda: self._frame(tick))

    def _frame(self, tick: int) -> Frame:
        self._ensure_known_kinds()
        index = bisect.bisect_right(self._frame_starts, tick) - 1
        if index < 0 or tick > self._frame_blocks[index].final_tick:
            inside = bool(self.keyframes) and self.first_tick < tick <= self.last_tick
            raise MissingTickError(tick, "there is no frame of this tick on the tape", damaged=inside)
        entry = self._frame_blocks[index]
        return self._decode_frame_block(entry)[tick - entry.first_tick]

    def keyframes_at_or_before(self, tick: int) -> Iterator[KeyframePlace]:
        """Keyframes from which tick can be reached, the nearest first."""
        for index in range(bisect.bisect_right(self._keyframe_ticks, tick) - 1, -1, -1):
            yield self.keyframes[index]

    def keyframe_after(self, tick: int) -> KeyframePlace | None:
        """The first keyframe at or after tick."""
        index = bisect.bisect_left(self._keyframe_ticks, tick)
        return self.keyframes[index] if index < len(self.keyframes) else None

    def snapshot(self, place: KeyframePlace) -> Snapshot:
        """The state at a keyframe, proved by its hash. Raises CorruptError, TornError or as frame does."""
        return self._believing_index(lambda: self._snapshot(place))

    def _snapshot(self, place: KeyframePlace) -> Snapshot:
        self._ensure_known_kinds()
        if place not in self.keyframes[(index := bisect.bisect_left(self._keyframe_ticks, place.tick)) : index + 1]:
            wanted = (place.tick, place.is_full)
            place = next((known for known in self.keyframes if (known.tick, known.is_full) == wanted), place)
        if place.is_full:
            return self._decode_full(place.entry)
        seq = place.entry.seq - place.entry.baseline
        full = self._fulls.get(seq)
        if full is None:
            raise CorruptError(place.entry.offset, f"the full keyframe of the delta at tick {place.tick} is missing")
        tick, snapshot = decode_delta(self._joined(place.entry), self._decode_full(full), place.entry.offset)
        return self._of_tick(tick, snapshot, place.entry)

    def state_hash(self, tick: int) -> int:
        """The recorded hash of the state at tick. Raises as frame and snapshot do."""
        try:
            return self.frame(tick).state_hash
        except (MissingTickError, CorruptError, TornError):
            place = self.keyframe_after(tick)
            if place is None or place.tick != tick:
                raise
            return self.snapshot(place).hash()  # A keyframe proves itself, without the frame of its tick.

    # --- blocks

    def _believing_index(self, action: Callable[[], T]) -> T:
        """Run action; if the index led it astray, find the blocks by their headers and run it once more."""
        try:
            return action()
        except (CorruptError, TornError) as error:
            before = self.contents
            if self._hopped or not self.distrust_index():
                raise
            try:
                return action()
            except (CorruptError, TornError, MissingTickError):
                self._take(before)  # The index was not to blame.
                raise error from None

    def _ensure_known_kinds(self) -> None:
        if self._unknown_kinds:
            raise UnsupportedVersionError(f"blocks of kind {self._unknown_kinds}", f"kinds {sorted(_KINDS)}")

    def _read_frame_block(self, entry: Entry) -> list[Frame]:
        header = self._header(entry)
        return decode_frames(header, read_payload(self.read, header))

    def _read_full(self, entry: Entry) -> Snapshot:
        tick, snapshot = decode_full(self._joined(entry), entry.offset)
        return self._of_tick(tick, snapshot, entry)

    @staticmethod
    def _of_tick(tick: int, snapshot: Snapshot, entry: Entry) -> Snapshot:
        if tick != entry.first_tick:
            raise CorruptError(entry.offset, f"a keyframe of tick {tick} in a block of tick {entry.first_tick}")
        return snapshot

    def _joined(self, entry: Entry) -> bytes:
        """The payload of a block and of those that continue it."""
        parts: list[bytes] = []
        offset, wanted = entry.offset, entry.seq
        while True:
            header = read_header(self.read, offset, self.contents.marker)
            is_first = not parts
            expected = entry_of(header) == entry if is_first else bool(header.flags & Flags.CONTINUATION)
            if (header.seq, header.kind) != (wanted, entry.kind) or not expected:
                raise CorruptError(offset, "another block than the one that was expected here")
            parts.append(read_payload(self.read, header))
            if not header.flags & Flags.CONTINUES:
                return b"".join(parts) if len(parts) > 1 else parts[0]
            offset, wanted = header.end_offset, wanted + 1

    def _header(self, entry: Entry) -> BlockHeader:
        header = read_header(self.read, entry.offset, self.contents.marker)
        if entry_of(header) != entry:
            raise CorruptError(entry.offset, "another block than the one that the index names")
        return header

    def _payload(self, entry: Entry) -> bytes:
        return read_payload(self.read, self._header(entry))

    def distrust_index(self) -> bool:
        """Find the blocks again by their headers; True if that gave other blocks than the index did."""
        before = self.contents.entries
        self._hopped = True
        self._take(scan_contents(self.read, self.contents.size_bytes))
        return before != self.contents.entries

    def check_blocks(self) -> list[RecordingError]:
        """Read every block whole; what is wrong, in file order. Raises nothing for damage."""
        problems: list[RecordingError] = []
        blocks = self.contents.entries + self.contents.indexes
        for entry in sorted(blocks, key=lambda entry: entry.offset):
            try:
                self._joined(entry)
            except (CorruptError, TornError) as error:
                problems.append(error)
        return problems

    # --- closing

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
