"""What is known of one segment: its blocks, its damages, its seal; and how single blocks are read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import attrs

from recorder.errors import CorruptError, TornError
from recorder.format.blocks.block import HEADER_BYTES, TAG, BlockHeader, decode_header, decode_payload
from recorder.format.blocks.file_header import FileHeader
from recorder.format.segments.index import Entry, IndexPart, IndexPartSummary
from recorder.format.segments.seal import TRAILER_BYTES, Seal, decode_trailer

Read = Callable[[int, int], bytes]  # From an offset and a size to up to so many bytes.


@attrs.frozen
class Damage:
    """A stretch of the file that holds no sound block.

    Attributes:
        offset: where it starts.
        end_offset: where sound blocks go on, or the end of the file.
        what: what was expected and found.
        torn: it lies above all that was known to be durable, in a file that was not closed: what a crash leaves behind.
        segment: number of the file.
        kind: of block, by name; None where its header is damaged, too.
        ticks: the first and the last one that it costs; None if there are none, or they are not known.
    """

    offset: int
    end_offset: int
    what: str
    torn: bool
    segment: int = 0
    kind: str | None = None
    ticks: tuple[int, int] | None = None

    def as_error(self) -> CorruptError:
        """The same as an error."""
        return CorruptError(self.offset, self.what, self.kind, self.ticks, self.segment)


@attrs.frozen
class Contents:
    """What is in one segment of a tape.

    Attributes:
        marker: of the segment.
        header: the file header, or None if it is damaged.
        parts: what each INDEX block lists, read when it is needed; a segment without an index has one part.
        indexes: the INDEX blocks, in file order; empty if they were not looked for.
        damages: in file order; empty for an intact segment.
        seal: what END says, or None if the segment was not closed.
        size_bytes: of the file when it was looked at.
        by_index: whether the index was believed; else all headers were read.
        good_end: where the last sound block or trailer ends.
    """

    marker: bytes
    header: FileHeader | None
    parts: Sequence[LazyIndexPart]
    indexes: list[Entry]
    damages: list[Damage]
    seal: Seal | None
    size_bytes: int
    by_index: bool
    good_end: int

    @property
    def entries(self) -> list[Entry]:
        """All blocks in file order, without INDEX blocks and continuation pieces. Raises CorruptError or TornError."""
        return [entry for part in self.parts for entry in part.load().entries()]


class LazyIndexPart:
    """A part of the index that is read when it is needed.

    Attributes:
        summary: what is known of it without reading it.
    """

    def __init__(self, summary: IndexPartSummary, load: Callable[[], IndexPart]) -> None:
        self.summary = summary
        self._load = load
        self._part: IndexPart | None = None

    def load(self) -> IndexPart:
        """The part. Raises CorruptError or TornError if its INDEX block is damaged."""
        if self._part is None:
            self._part = self._load()
        return self._part


class NoTapeError(Exception):
    """Nothing in the file is a block of a tape; the reader adds the path."""


def read_payload(read: Read, header: BlockHeader) -> bytes:
    """The raw payload of one block. Raises CorruptError or TornError."""
    padded = read(header.offset + HEADER_BYTES, header.padded_bytes)
    if len(padded) < header.padded_bytes:
        raise TornError(header.offset, header.end_offset, header.offset + HEADER_BYTES + len(padded))
    return decode_payload(header, padded)


def read_block(read: Read, offset: int, marker: bytes, near_bytes: int) -> tuple[BlockHeader, bytes]:
    """The header and the raw payload of one block, in one read if it takes at most near_bytes.

    Raises CorruptError or TornError.
    """
    data = read(offset, near_bytes)

    def read_near(place: int, size: int) -> bytes:
        start = place - offset
        return data[start : start + size] if start + size <= len(data) else read(place, size)

    header = read_header(read_near, offset, marker)
    return header, read_payload(read_near, header)


def read_header(read: Read, offset: int, marker: bytes) -> BlockHeader:
    """The block header at offset of the tape with this marker. Raises CorruptError or TornError."""
    data = read(offset, HEADER_BYTES)
    if 0 < len(data) < HEADER_BYTES and data[: len(TAG)] == TAG[: len(data)]:
        raise TornError(offset, offset + HEADER_BYTES, offset + len(data))
    header = decode_header(data, offset)
    if header.marker != marker:
        raise CorruptError(offset, "a block of another tape")
    return header


def hop(read: Read, offset: int, end_offset: int, marker: bytes) -> Iterator[BlockHeader]:
    """The headers of consecutive blocks from offset on, up to end_offset; a trailer on the way is passed over.

    Raises CorruptError or TornError at the first place that holds no block.
    """
    while offset < end_offset:
        try:
            header = read_header(read, offset, marker)
        except CorruptError:
            if decode_trailer(read(offset, TRAILER_BYTES), offset)[0] != marker:
                raise
            offset += TRAILER_BYTES
            continue
        yield header
        offset = header.end_offset
