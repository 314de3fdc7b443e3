"""The contents of one segment (blocks, damages, seal), and functions that read single blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import attrs

from recorder.errors import CorruptError, TornError
from recorder.format.blocks.block import HEADER_BYTES, TAG, BlockHeader, decode_header, decode_payload
from recorder.format.blocks.file_header import FileHeader
from recorder.format.blocks.packed.unpacked_block import unpack_block
from recorder.format.segments.index import Entry, IndexPart, IndexPartSummary
from recorder.format.segments.seal import TRAILER_BYTES, Seal, decode_trailer

Read = Callable[[int, int], bytes]  # Takes an offset and a size; returns up to that many bytes.


@attrs.frozen
class Damage:
    """A range of bytes without an intact block.

    Attributes:
        offset: its start.
        end_offset: the offset of the next intact block, or the end of the file.
        what: the expected and the actual content.
        torn: True for the typical trace of a crash: the file was not closed, and the range lies after all bytes that
            were known to be durable.
        segment: number of the file.
        kind: of block, by name; None if its header is damaged, too.
        ticks: the first and the last tick that are lost; None if there are none, or they are unknown.
    """

    offset: int
    end_offset: int
    what: str
    torn: bool
    segment: int = 0
    kind: str | None = None
    ticks: tuple[int, int] | None = None

    def as_error(self) -> CorruptError:
        """Convert the damage to an error."""
        return CorruptError(self.offset, self.what, self.kind, self.ticks, self.segment)


@attrs.frozen
class Contents:
    """The contents of one segment of a tape.

    Attributes:
        marker: of the segment.
        header: the file header, or None if it is damaged.
        parts: one for each INDEX block, read on demand; a segment without an index has one part.
        indexes: the INDEX blocks, in file order; empty if the segment was not scanned.
        damages: in file order; empty for an intact segment.
        seal: the content of END, or None if the segment was not closed.
        size_bytes: of the file when it was read.
        by_index: True if the index was used, False if all headers were read.
        good_end: the end of the last intact block or trailer.
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
    """A part of the index that is read on demand.

    Attributes:
        summary: its entry in END, known without reading it.
    """

    def __init__(self, summary: IndexPartSummary, load: Callable[[], IndexPart]) -> None:
        self.summary = summary
        self._load = load
        self._part: IndexPart | None = None

    def load(self) -> IndexPart:
        """Read the part, once. Raises CorruptError or TornError if its INDEX block is damaged."""
        if self._part is None:
            self._part = self._load()
        return self._part


class NoTapeError(Exception):
    """The file contains no block of a tape; the reader adds the path."""


def read_payload(read: Read, header: BlockHeader) -> bytes:
    """The raw payload of one block. Raises CorruptError or TornError, MissingCodecError as unpack_block does."""
    padded = read(header.offset + HEADER_BYTES, header.padded_bytes)
    if len(padded) < header.padded_bytes:
        raise TornError(header.offset, header.end_offset, header.offset + HEADER_BYTES + len(padded))
    return decode_payload(header, padded, unpack_block)


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
        raise CorruptError(offset, "a block of a different tape")
    return header


def hop(read: Read, offset: int, end_offset: int, marker: bytes) -> Iterator[BlockHeader]:
    """The headers of consecutive blocks from offset up to end_offset; trailers between them are skipped.

    Raises CorruptError or TornError at the first offset without a block.
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
