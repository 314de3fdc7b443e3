"""Find the blocks of a segment by its seal and index: a few reads, however long the segment is.

Invariants:
    1. Nothing that the index says is believed beyond what the blocks themselves say when they are read.
    2. Whatever is wrong with trailer, END or index leads to hopping from header to header, never to an error.
"""

from __future__ import annotations

import functools

from recorder.errors import CorruptError, TornError
from recorder.format.blocks.block import BlockKind
from recorder.format.blocks.file_header import HEADER_BYTES as FILE_HEADER_BYTES
from recorder.format.blocks.file_header import decode_file_header
from recorder.format.segments.contents_by_scan import scan_contents
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

INDEX_READ_BYTES = 1 << 18  # More than an INDEX of INDEX_BLOCKS entries takes.
TAIL_BYTES = 1 << 14  # Read at once from the end of a file: trailer and END with its copy of META nearly always fit.


def read_contents(read: Read, size_bytes: int) -> Contents:
    """The blocks of a tape, by its index if it is sealed and sound, else by scan_contents.

    Raises NoTapeError if there is no header and no block, UnsupportedVersionError for a newer format.
    """
    try:
        return _indexed_contents(read, size_bytes)
    except (CorruptError, TornError):
        return scan_contents(read, size_bytes)


def _indexed_contents(read: Read, size_bytes: int) -> Contents:
    file_header = decode_file_header(read(0, FILE_HEADER_BYTES))
    tail_offset = max(0, size_bytes - TAIL_BYTES)
    tail = read(tail_offset, size_bytes - tail_offset)
    place = size_bytes - TRAILER_BYTES
    if place < FILE_HEADER_BYTES or len(tail) < TRAILER_BYTES:
        raise TornError(place, TRAILER_BYTES, size_bytes)
    marker, end_offset = decode_trailer(tail[-TRAILER_BYTES:], place)
    if end_offset >= place:
        raise CorruptError(place, "a trailer that leads past itself")

    def read_near(offset: int, size: int) -> bytes:
        """From the tail that is at hand, if it is there."""
        start = offset - tail_offset
        return tail[start : start + size] if start >= 0 else read(offset, size)

    end = read_header(read_near, end_offset, file_header.marker)
    if marker != file_header.marker or end.kind != BlockKind.END or end.end_offset != place:
        raise CorruptError(place, "a trailer that leads to no END block")
    seal = decode_seal(read_payload(read_near, end), end_offset)
    if 0 < end.durable_bytes < seal.index_offset:
        raise CorruptError(end_offset, "blocks before END were not yet durable: each has to be looked at")
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
    """The parts of the index: as END lists them, or, in a tape of format 0.1, by the chain of INDEX blocks."""
    if seal.parts is not None:
        if [part.offset for part in seal.parts] != sorted({part.offset for part in seal.parts}) or (
            seal.parts[-1].offset if seal.parts else 0
        ) != seal.index_offset:
            raise CorruptError(seal.index_offset, "an END whose list of INDEX blocks is not in order")
        return [LazyIndexPart(part, functools.partial(read_part, read, marker, part)) for part in seal.parts], []
    found: list[LazyIndexPart] = []
    indexes: list[Entry] = []
    offset = seal.index_offset
    while offset:
        here = offset
        index = read_header(read, here, marker)
        if index.kind != BlockKind.INDEX:
            raise CorruptError(here, "no INDEX where one should be")
        part, offset = decode_index(read_payload(read, index), here)
        found.append(LazyIndexPart(part.summary(here), functools.partial(_same, part)))
        indexes.append(entry_of(index))
    frame_count = sum(int(part.load().columns["tick_count"].sum()) for part in found)
    if frame_count != seal.frame_count or max((part.summary.last_tick for part in found), default=0) != seal.last_tick:
        raise CorruptError(seal.index_offset, "an index that does not list what the seal counts")
    return found[::-1], indexes[::-1]


def _same(part: IndexPart) -> IndexPart:
    return part


def read_part(read: Read, marker: bytes, summary: IndexPartSummary) -> IndexPart:
    """What an INDEX block lists. Raises CorruptError or TornError if it is not what END says of it."""
    header, payload = read_block(read, summary.offset, marker, INDEX_READ_BYTES)
    if header.kind != BlockKind.INDEX:
        raise CorruptError(summary.offset, "no INDEX where one should be")
    part, _ = decode_index(payload, summary.offset)
    if part.summary(summary.offset) != summary:
        raise CorruptError(summary.offset, "an INDEX that lists something else than END says")
    return part
