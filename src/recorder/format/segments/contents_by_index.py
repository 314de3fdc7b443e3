"""Find the blocks of a segment by its seal and index: a few reads, independent of the length of the segment.

Invariants:
    1. The index is only a hint: blocks are checked against it when they are read.
    2. A damaged trailer, END or index leads to a scan from header to header, never to an error.
"""

from __future__ import annotations

import functools

from recorder.errors import CorruptError, TornError
from recorder.format.blocks.block import BlockKind
from recorder.format.blocks.file_header import HEADER_BYTES as FILE_HEADER_BYTES
from recorder.format.blocks.file_header import decode_file_header
from recorder.format.segments.contents_by_scan import ScanProgress, scan_contents
from recorder.format.segments.index import Entry, IndexPart, IndexPartSummary, decode_index, entry_of, make_part
from recorder.format.segments.seal import TRAILER_BYTES, Seal, decode_seal, decode_trailer
from recorder.format.segments.segment_contents import (
    Contents,
    LazyIndexPart,
    Read,
    read_block,
    read_header,
    read_payload,
)

INDEX_READ_BYTES = 1 << 18  # More than the size of an INDEX of INDEX_BLOCKS entries.
TAIL_BYTES = (
    1 << 14
)  # The first read from the end of a file: the trailer and END with its copy of META nearly always fit.


def read_contents(read: Read, size_bytes: int, progress: ScanProgress | None = None) -> Contents:
    """Find the blocks of a segment: by its index if it is sealed and intact, otherwise by scan_contents.

    progress: of the last scan of this file, see scan_contents.
    Raises NoTapeError if there is no header and no block, UnsupportedVersionError for a newer format.
    """
    try:
        return _indexed_contents(read, size_bytes)
    except (CorruptError, TornError):
        return scan_contents(read, size_bytes, progress=progress)


def _indexed_contents(read: Read, size_bytes: int) -> Contents:
    file_header = decode_file_header(read(0, FILE_HEADER_BYTES))
    tail_offset = max(0, size_bytes - TAIL_BYTES)
    tail = read(tail_offset, size_bytes - tail_offset)
    place = size_bytes - TRAILER_BYTES
    if place < FILE_HEADER_BYTES or len(tail) < TRAILER_BYTES:
        raise TornError(place, TRAILER_BYTES, size_bytes)
    marker, end_offset = decode_trailer(tail[-TRAILER_BYTES:], place)
    if end_offset >= place:
        raise CorruptError(place, "a trailer whose offset of END is after the trailer")

    def read_near(offset: int, size: int) -> bytes:
        """Read from the tail if it contains the offset."""
        start = offset - tail_offset
        return tail[start : start + size] if start >= 0 else read(offset, size)

    end = read_header(read_near, end_offset, file_header.marker)
    if marker != file_header.marker or end.kind != BlockKind.END or end.end_offset != place:
        raise CorruptError(place, "a trailer that does not lead to an END block")
    seal = decode_seal(read_payload(read_near, end), end_offset)
    if 0 < end.durable_bytes < seal.index_offset:
        raise CorruptError(end_offset, "blocks before END were not yet durable: each has to be checked")
    parts, indexes = _listed_parts(read, file_header.marker, seal)
    last = make_part([entry_of(end)], place)
    parts.append(LazyIndexPart(IndexPartSummary(0, 0, 0, end.seq), lambda: last))
    return Contents(
        marker=file_header.marker,
        header=file_header,
        parts=parts,
        indexes=indexes,
        damages=[],
        seal=seal,
        size_bytes=size_bytes,
        by_index=True,
        good_end=size_bytes,
    )


def _listed_parts(read: Read, marker: bytes, seal: Seal) -> tuple[list[LazyIndexPart], list[Entry]]:
    """The parts of the index: from the list in END or, in a tape of format 0.1, from the chain of INDEX blocks."""
    if seal.parts is not None:
        if [part.offset for part in seal.parts] != sorted({part.offset for part in seal.parts}) or (
            seal.parts[-1].offset if seal.parts else 0
        ) != seal.index_offset:
            raise CorruptError(seal.index_offset, "an END whose list of INDEX blocks is out of order")
        return [LazyIndexPart(part, functools.partial(read_part, read, marker, part)) for part in seal.parts], []
    parts: list[LazyIndexPart] = []
    indexes: list[Entry] = []
    next_offset = seal.index_offset
    while next_offset:
        offset = next_offset
        index = read_header(read, offset, marker)
        if index.kind != BlockKind.INDEX:
            raise CorruptError(offset, "expected an INDEX block")
        part, next_offset = decode_index(read_payload(read, index), offset)
        parts.append(LazyIndexPart(part.summary(offset), functools.partial(_same, part)))
        indexes.append(entry_of(index))
    frame_count = sum(int(part.load().columns["tick_count"].sum()) for part in parts)
    if frame_count != seal.frame_count or max((part.summary.last_tick for part in parts), default=0) != seal.last_tick:
        raise CorruptError(seal.index_offset, "an index whose frames differ from those that the seal counts")
    return parts[::-1], indexes[::-1]


def _same(part: IndexPart) -> IndexPart:
    return part


def read_part(read: Read, marker: bytes, summary: IndexPartSummary) -> IndexPart:
    """Read the list in an INDEX block. Raises CorruptError or TornError if it does not match its summary in END."""
    header, payload = read_block(read, summary.offset, marker, INDEX_READ_BYTES)
    if header.kind != BlockKind.INDEX:
        raise CorruptError(summary.offset, "expected an INDEX block")
    part, _ = decode_index(payload, summary.offset)
    if part.summary(summary.offset) != summary:
        raise CorruptError(summary.offset, "an INDEX block that does not match its entry in END")
    return part
