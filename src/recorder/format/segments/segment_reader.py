"""Read one file of a tape with few large reads, and join blocks from their pieces."""

from __future__ import annotations

from collections.abc import Iterator

import attrs
import numpy as np

from recorder.errors import CorruptError, TornError
from recorder.format.blocks.block import BlockHeader, Flags
from recorder.format.blocks.drop_block import Drop, decode_drop
from recorder.format.blocks.memory_budget import NO_LIMIT, MemoryBudget
from recorder.format.limits import KEYFRAME_RAW_BYTES_MAX
from recorder.format.segments.contents_by_scan import scan_contents
from recorder.format.segments.index import Entry, IndexPart, entry_of, make_part
from recorder.format.segments.segment_contents import (
    Contents,
    Damage,
    LazyIndexPart,
    NoTapeError,
    Read,
    read_header,
    read_payload,
)

WINDOW_BYTES = 1 << 18  # Size of one read: the frames of an interval, and often its keyframe.
AHEAD_BYTES = 4 << 20  # Of a large keyframe: some blocks, but small enough that the allocator reuses the memory.
LZ4_RATIO_MAX = 255  # A continuation byte of a length in LZ4 stands for up to this many bytes.


class Segment:
    """One file of a tape.

    Attributes:
        number: of the segment.
        contents: its blocks, damages and seal.
        memory: the budget for a state or the content of a block.
        clip: blocks from this offset on are ignored; None for no limit. A clipped segment is not read by its index.
    """

    def __init__(
        self,
        number: int,
        read: Read,
        contents: Contents,
        clip: int | None = None,
        memory: MemoryBudget = NO_LIMIT,
        window_bytes: int = WINDOW_BYTES,
    ) -> None:
        """window_bytes: a shorter read is extended to this size; 0 if ``read`` itself reads ahead."""
        self.number = number
        self._window_bytes = window_bytes
        self.memory = memory
        self.clip = clip
        self._read = read
        self._window: tuple[int, bytes] = (0, b"")
        self.take(contents)

    def take(self, contents: Contents) -> None:
        """Use these contents from now on."""
        self.contents = contents
        parts = contents.parts
        if self.clip is not None:
            parts = [_clipped(part, self.clip) for part in parts]
        self.parts = parts

    def read(self, offset: int, size: int) -> bytes:
        """Up to size bytes from offset on, from the bytes that were read last if these contain them."""
        start, data = self._window
        if start <= offset and offset + size <= start + len(data):
            return data[offset - start : offset - start + size]
        data = self._read(offset, max(size, self._window_bytes))
        self._window = (offset, data)
        return data[:size]

    def content(self, header: BlockHeader) -> bytes:
        """The payload of a single block. Raises CorruptError, TornError or MemoryBudgetError."""
        return self.memory.ensure_content(header.kind, read_payload(self.read, header), header.offset)

    def entries_or_none(self) -> list[Entry] | None:
        """The blocks; None if the index cannot be read."""
        try:
            return self.contents.entries
        except (CorruptError, TornError):
            return None

    def scanned(self) -> Contents:
        """The contents as headers show them; take uses them. None of the blocks may be left."""
        before = self.contents
        try:
            return scan_contents(self._read, before.size_bytes)
        except NoTapeError as error:  # It was a segment when it was opened.
            part = make_part([], 0)
            damage = Damage(0, before.size_bytes, str(error), torn=False)
            return attrs.evolve(
                before,
                parts=[LazyIndexPart(part.summary(0), lambda: part)],
                indexes=[],
                damages=[damage],
                seal=None,
                by_index=False,
                good_end=0,
            )

    def kinds(self) -> set[int]:
        """The kinds of blocks in the segment; taken from END if the index is used."""
        seal = self.contents.seal
        if self.contents.by_index and seal is not None and seal.counts:
            return set(seal.counts)
        # np.unique would import numpy.ma, which takes longer than opening a tape.
        return {
            kind for part in self.parts for kind in np.flatnonzero(np.bincount(part.load().columns["kind"])).tolist()
        }

    def drop(self, part: IndexPart, row: int) -> Drop | None:
        """Decode the DROP block in a row of the part; None if it is damaged, which a check of the blocks reports."""
        entry = part.entry(row)
        try:
            return decode_drop(self.joined(entry, part.end_of(row)), entry.offset)
        except (CorruptError, TornError):
            return None  # Its ticks are reported as missing in any case.

    def joined(self, entry: Entry, end_offset: int, bytes_max: int = KEYFRAME_RAW_BYTES_MAX) -> bytes:
        """The payload of a block and its continuations; at most bytes_max.

        Raises CorruptError or TornError, and MemoryBudgetError.
        """
        try:
            return self._joined(entry, end_offset, bytes_max)
        except CorruptError as error:
            raise error.inside(self.number) from None

    def _joined(self, entry: Entry, end_offset: int, bytes_max: int) -> bytes:
        parts = list(self._pieces(entry, end_offset, bytes_max, self.memory))
        payload = b"".join(parts) if len(parts) > 1 else parts[0]
        return self.memory.ensure_content(entry.kind, payload, entry.offset)

    def pieces(self, entry: Entry, end_offset: int) -> Iterator[bytes]:
        """The payload block by block: a large one is never completely in memory. Raises as joined does."""
        try:
            yield from self._pieces(entry, end_offset, KEYFRAME_RAW_BYTES_MAX)
        except CorruptError as error:
            raise error.inside(self.number) from None

    def raw_bytes_max(self, entry: Entry) -> int:
        """An upper bound for the size of the payload that begins at entry."""
        return LZ4_RATIO_MAX * (self.contents.size_bytes - entry.offset)

    def _pieces(
        self, entry: Entry, end_offset: int, bytes_max: int, memory: MemoryBudget = NO_LIMIT
    ) -> Iterator[bytes]:
        """memory: the budget for all pieces together, if the caller keeps them."""
        stored_bytes = end_offset - entry.offset
        read = self.read if stored_bytes <= WINDOW_BYTES else self._reader_ahead(end_offset)
        total, offset, seq = 0, entry.offset, entry.seq
        while True:
            header = read_header(read, offset, self.contents.marker)
            matches = bool(header.flags & Flags.CONTINUATION) if seq > entry.seq else entry_of(header) == entry
            if (header.seq, header.kind) != (seq, entry.kind) or not matches:
                raise CorruptError(offset, f"expected block {seq} of the tape, got a different block")
            total += header.raw_bytes
            if total > bytes_max:
                raise CorruptError(entry.offset, f"a payload of more than {bytes_max} bytes")
            memory.ensure(total, f"the content of the block at byte {entry.offset}")
            yield read_payload(read, header)
            if not header.flags & Flags.CONTINUES:
                return
            offset, seq = header.end_offset, seq + 1

    def _reader_ahead(self, end_offset: int) -> Read:
        """A function that reads ahead up to end_offset, a few MiB at a time, in memory that the allocator reuses."""
        start, data = 0, memoryview(b"")

        def read(offset: int, size: int) -> bytes:
            nonlocal start, data
            if not start <= offset <= offset + size <= start + len(data):
                data = memoryview(b"")  # Freed before the next read, which can then use the same memory.
                start, data = offset, memoryview(self._read(offset, max(size, min(end_offset - offset, AHEAD_BYTES))))
            return bytes(data[offset - start : offset - start + size])

        return read


def _clipped(part: LazyIndexPart, clip: int) -> LazyIndexPart:
    clipped = part.load().before(clip)
    return LazyIndexPart(clipped.summary(0), lambda: clipped)
