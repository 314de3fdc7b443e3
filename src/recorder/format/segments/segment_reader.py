"""Read one file of a tape: few large reads, blocks joined from their pieces."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from recorder.errors import CorruptError, TornError
from recorder.format.blocks.block import Flags
from recorder.format.blocks.drop_block import Drop, decode_drop
from recorder.format.limits import KEYFRAME_RAW_BYTES_MAX
from recorder.format.segments.contents_by_scan import scan_contents
from recorder.format.segments.index import Entry, IndexPart, entry_of
from recorder.format.segments.segment_contents import Contents, LazyIndexPart, Read, read_header, read_payload

WINDOW_BYTES = 1 << 18  # What one read brings: the frames of an interval, and often its keyframe.
AHEAD_BYTES = 4 << 20  # Of a large keyframe: some blocks, and far less than memory that has to be fresh each time.
LZ4_RATIO_MAX = 255  # A byte of a length that goes on stands for so many.


class Segment:
    """One file of a tape.

    Attributes:
        number: of the segment.
        contents: what is in it.
        clip: blocks from this offset on do not count; None if all do. A clipped segment is not read by its index.
    """

    def __init__(self, number: int, read: Read, contents: Contents, clip: int | None = None) -> None:
        self.number = number
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
        """Up to size bytes from offset on, from a window of what was read last if they are there."""
        start, data = self._window
        if start <= offset and offset + size <= start + len(data):
            return data[offset - start : offset - start + size]
        data = self._read(offset, max(size, WINDOW_BYTES))
        self._window = (offset, data)
        return data[:size]

    def rescan(self) -> bool:
        """Find the blocks by their headers; whether that gave other blocks than before."""
        try:
            before: list[Entry] | None = self.contents.entries
        except (CorruptError, TornError):
            before = None
        self.take(scan_contents(self._read, self.contents.size_bytes))
        return before != self.contents.entries

    def kinds(self) -> set[int]:
        """The kinds of blocks in it; those that END counts, where the index is read."""
        seal = self.contents.seal
        if self.contents.by_index and seal is not None and seal.counts:
            return set(seal.counts)
        return {int(kind) for part in self.parts for kind in np.unique(part.load().columns["kind"])}

    def drop(self, part: IndexPart, row: int) -> Drop | None:
        """What the DROP block in this row of the part says; None if it is damaged, which is told with the blocks."""
        entry = part.entry(row)
        try:
            return decode_drop(self.joined(entry, part.end_of(row)), entry.offset)
        except (CorruptError, TornError):
            return None  # Its ticks are missing all the same.

    def joined(self, entry: Entry, end_offset: int, bytes_max: int = KEYFRAME_RAW_BYTES_MAX) -> bytes:
        """The payload of a block and of those that continue it; at most bytes_max. Raises CorruptError or TornError."""
        try:
            return self._joined(entry, end_offset, bytes_max)
        except CorruptError as error:
            raise error.inside(self.number) from None

    def _joined(self, entry: Entry, end_offset: int, bytes_max: int) -> bytes:
        parts = list(self._pieces(entry, end_offset, bytes_max))
        return b"".join(parts) if len(parts) > 1 else parts[0]

    def pieces(self, entry: Entry, end_offset: int) -> Iterator[bytes]:
        """What joined gives, block by block: a large payload is never in memory as a whole. Raises as joined does."""
        try:
            yield from self._pieces(entry, end_offset, KEYFRAME_RAW_BYTES_MAX)
        except CorruptError as error:
            raise error.inside(self.number) from None

    def raw_bytes_max(self, entry: Entry) -> int:
        """More than a payload that begins here can have."""
        return LZ4_RATIO_MAX * (self.contents.size_bytes - entry.offset)

    def _pieces(self, entry: Entry, end_offset: int, bytes_max: int) -> Iterator[bytes]:
        known_bytes = end_offset - entry.offset
        read = self.read if known_bytes <= WINDOW_BYTES else self._reader_ahead(end_offset)
        total, offset, wanted = 0, entry.offset, entry.seq
        while True:
            header = read_header(read, offset, self.contents.marker)
            expected = bool(header.flags & Flags.CONTINUATION) if wanted > entry.seq else entry_of(header) == entry
            if (header.seq, header.kind) != (wanted, entry.kind) or not expected:
                raise CorruptError(offset, "another block than the one that was expected here")
            total += header.raw_bytes
            if total > bytes_max:
                raise CorruptError(entry.offset, f"a payload of more than {bytes_max} bytes")
            yield read_payload(read, header)
            if not header.flags & Flags.CONTINUES:
                return
            offset, wanted = header.end_offset, wanted + 1

    def _reader_ahead(self, end_offset: int) -> Read:
        """Reads that go on up to end_offset, a few MiB at a time, in memory that the allocator gives again and again."""
        start, data = 0, memoryview(b"")

        def read(offset: int, size: int) -> bytes:
            nonlocal start, data
            if not start <= offset <= offset + size <= start + len(data):
                data = memoryview(b"")  # Before the next one is read, so that it can be there.
                start, data = offset, memoryview(self._read(offset, max(size, min(end_offset - offset, AHEAD_BYTES))))
            return bytes(data[offset - start : offset - start + size])

        return read


def _clipped(part: LazyIndexPart, clip: int) -> LazyIndexPart:
    clipped = part.load().before(clip)
    return LazyIndexPart(clipped.summary(0), lambda: clipped)
