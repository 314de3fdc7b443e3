"""Encode payloads as the blocks of a tape: first compression and checksums, then numbers, offsets, index and seal.

A ``Piece`` is a block without seq and offset: it can be placed again in a different file if the first one fails.
``SegmentEncoder`` places pieces in one file. It only returns bytes: the caller appends the result of each method to the
file, in the order of the calls.

Invariants:
    1. next_offset is the length of the file once all returned bytes are in it.
    2. Each INDEX lists the blocks since the INDEX before it; continuation pieces and INDEX blocks are not listed.
    3. Block numbers (seq) continue from one segment to the next: a delta may refer to a full keyframe in an earlier
       segment.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Self

import attrs
import google_crc32c

from recorder.format.blocks.block import BlockHeader, BlockKind, Codec, Flags, compress, encode_header, pad
from recorder.format.blocks.file_header import FileHeader, encode_file_header, make_file_header
from recorder.format.blocks.frame import Frame
from recorder.format.blocks.payload import Payload
from recorder.format.digests import new_digest
from recorder.format.limits import BLOCK_RAW_BYTES_MAX, FRAMES_RAW_BYTES, INDEX_BLOCKS, PIECE_RAW_BYTES
from recorder.format.segments.index import Entry, IndexPartSummary, encode_index, entry_of, summarize
from recorder.format.segments.seal import DIGEST_BYTES, Seal, encode_seal, encode_trailer
from sim.kernel.plain_data import encode_plain

# From this number of frames on a block is compressed thoroughly. That takes three quarters of a millisecond. Divided by
# this many ticks it is less than any tick takes, so the writer keeps up.
THOROUGH_TICKS_MIN = 128
_INDEX_PAYLOAD_BYTES_MAX = 64 * (INDEX_BLOCKS + 2)
assert _INDEX_PAYLOAD_BYTES_MAX <= BLOCK_RAW_BYTES_MAX, "an INDEX must fit into one block"


@attrs.define(eq=False)
class SeqReference:
    """The latest place of a full keyframe. Its deltas share this object, so the keyframe can be placed again.

    Attributes:
        seq: of its first block; None until it is placed.
    """

    seq: int | None = None


@attrs.frozen(eq=False)
class Piece:
    """A complete block except for its seq and offset.

    Attributes:
        kind, codec, stored_bytes, raw_bytes, payload_crc, first_tick, tick_count, flags: as in BlockHeader.
        padded: the stored bytes with their padding.
        place: receives the seq when the piece is placed; None if nothing refers to it.
        baseline: for a delta, the full keyframe that it is based on.
        number: of this piece in its payload, from 0.
    """

    kind: int
    codec: Codec
    padded: bytes
    stored_bytes: int
    raw_bytes: int
    payload_crc: int
    first_tick: int
    tick_count: int = 0
    flags: int = 0
    place: SeqReference | None = None
    baseline: SeqReference | None = None
    number: int = 0


def make_piece(
    kind: int,
    payload: bytes | memoryview,
    first_tick: int,
    *,
    tick_count: int = 0,
    flags: int = 0,
    place: SeqReference | None = None,
    baseline: SeqReference | None = None,
    number: int = 0,
    thoroughly: bool = False,
) -> Piece:
    """Compress a payload and compute its checksum."""
    assert len(payload) <= BLOCK_RAW_BYTES_MAX, "no reader would take this block"
    codec, stored = compress(payload, thoroughly=thoroughly) if kind != BlockKind.META else (Codec.NONE, bytes(payload))
    padded = pad(stored)
    crc = google_crc32c.value(padded)
    return Piece(
        kind,
        codec,
        padded,
        len(stored),
        len(payload),
        crc,
        first_tick,
        tick_count,
        int(flags),
        place,
        baseline,
        number,
    )


def frames_piece(first_tick: int, count: int, payload: bytes, flags: int = 0) -> Piece:
    """Make a FRAMES block of count frames from first_tick on."""
    assert count > 0
    thoroughly = count >= THOROUGH_TICKS_MIN
    return make_piece(BlockKind.FRAMES, payload, first_tick, tick_count=count, flags=flags, thoroughly=thoroughly)


def pieces_of_frames(frames: Iterable[Frame]) -> Iterator[Piece]:
    """Pack frames of consecutive ticks into full FRAMES blocks; a frame larger than a block gets a block alone."""
    group: list[bytes] = []
    size, first = 0, 0
    for frame in frames:
        encoded = frame.encode()
        if group and size + len(encoded) > FRAMES_RAW_BYTES:
            yield frames_piece(first, len(group), b"".join(group))
            group, size = [], 0
        if not group:
            first = frame.tick
        group.append(encoded)
        size += len(encoded)
    if group:
        yield frames_piece(first, len(group), b"".join(group))


def full_pieces(tick: int, payload: Payload | memoryview, flags: int = 0) -> tuple[list[Piece], SeqReference]:
    """Make the blocks of a full keyframe, and the reference for its deltas."""
    place = SeqReference()
    return list(cut(BlockKind.FULL, payload, tick, flags, place, None)), place


def delta_pieces(tick: int, payload: Payload | memoryview, baseline: SeqReference, flags: int = 0) -> list[Piece]:
    """Make the blocks of a delta keyframe."""
    return list(cut(BlockKind.DELTA, payload, tick, flags, None, baseline))


def telemetry_piece(first_tick: int, payload: bytes) -> Piece:
    """Make a TELEMETRY block with rows from first_tick on."""
    return make_piece(BlockKind.TELEMETRY, payload, first_tick)


def events_piece(first_tick: int, payload: bytes) -> Piece:
    """Make an EVENTS block for ticks from first_tick on."""
    return make_piece(BlockKind.EVENTS, payload, first_tick)


def aux_pieces(first_tick: int, payload: bytes) -> list[Piece]:
    """Make the blocks with sections of ticks from first_tick on."""
    return list(cut(BlockKind.AUX, memoryview(payload), first_tick, 0, None, None))


def changes_pieces(first_tick: int, payload: memoryview) -> list[Piece]:
    """Make the blocks with the changes of ticks from first_tick on."""
    return list(cut(BlockKind.CHANGES, payload, first_tick, 0, None, None))


def writes_pieces(first_step: int, payload: bytes) -> list[Piece]:
    """Make the blocks with the rows that the steps from first_step on have written."""
    return list(cut(BlockKind.WRITES, memoryview(payload), first_step, 0, None, None))


def drop_piece(first_tick: int, last_tick: int, why: str) -> Piece:
    """Make a DROP block: the frames of these ticks could not be kept."""
    payload = encode_plain({"first_tick": first_tick, "last_tick": last_tick, "why": why})
    return make_piece(BlockKind.DROP, payload, first_tick)


def cut(
    kind: BlockKind,
    payload: Payload | memoryview,
    tick: int,
    more_flags: int,
    place: SeqReference | None,
    baseline: SeqReference | None,
) -> Iterator[Piece]:
    """Yield the blocks of a payload. place: receives the seq of the first one. baseline: of a delta."""
    if isinstance(payload, memoryview):
        payload = Payload.of(payload)
    for number, raw in enumerate(payload.pieces(PIECE_RAW_BYTES)):
        flags = Flags(more_flags)
        if number:
            flags |= Flags.CONTINUATION
        if (number + 1) * PIECE_RAW_BYTES < payload.size_bytes:
            flags |= Flags.CONTINUES
        piece_place = place if not number else None
        yield make_piece(kind, raw, tick, flags=flags, place=piece_place, baseline=baseline, number=number)


@attrs.frozen
class _Mark:
    """The state of an encoder before an append, restored if the append fails."""

    next_offset: int
    next_seq: int
    entry_count: int
    entries: list[Entry]
    parts: list[IndexPartSummary]
    index_offset: int
    frame_count: int
    first_tick: int | None
    last_tick: int
    counts: dict[int, int]
    digest: Any


class SegmentEncoder:
    """Places blocks in one segment, from its start to its seal."""

    def __init__(self, header: FileHeader, meta: bytes, previous_digest: bytes = b"") -> None:
        """header: of the file. meta: the META payload. previous_digest: of the END of the segment before."""
        self.header = header
        self._meta = meta
        self.previous_digest = previous_digest
        self._digest = new_digest(DIGEST_BYTES)
        self._entries: list[Entry] = []
        self._parts: list[IndexPartSummary] = []
        self._index_offset = 0
        self._frame_count = 0
        self._counts: dict[int, int] = {}
        self._first_tick: int | None = None
        self.last_tick = 0
        self.next_seq = header.first_seq
        self.next_offset = 0
        self.sealed_digest = b""
        self.durable_bytes = 0  # Set by the writer after each sync; goes into every header.

    @classmethod
    def continuing(
        cls, header: FileHeader, meta: bytes, blocks: Sequence[BlockHeader], next_offset: int, previous_digest: bytes
    ) -> Self:
        """Make an encoder that continues an existing segment after its last block.

        blocks: all of the segment. previous_digest: as in the segment's END, or as it would have been there.
        """
        encoder = cls(header, meta, previous_digest)
        for block in blocks:
            encoder._count(block, encode_header(block))
            if block.kind == BlockKind.INDEX:
                encoder._note_index(block.offset)
        encoder.next_offset = next_offset
        return encoder

    def start(self, flags: int = Flags.SESSION_START) -> bytes:
        """Encode the file header and the META block."""
        head = encode_file_header(self.header)
        self.next_offset = len(head)
        return head + self.place(make_piece(BlockKind.META, self._meta, 0, flags=flags))

    def place(self, piece: Piece) -> bytes:
        """Place a piece at the end of the segment and encode it."""
        if piece.place is not None:
            piece.place.seq = self.next_seq
        baseline = 0
        if piece.baseline is not None:
            assert piece.baseline.seq is not None, "a delta needs its full keyframe before it"
            baseline = self.next_seq - piece.number - piece.baseline.seq
        header = BlockHeader(
            marker=self.header.marker,
            seq=self.next_seq,
            offset=self.next_offset,
            durable_bytes=self.durable_bytes,
            first_tick=piece.first_tick,
            tick_count=piece.tick_count,
            stored_bytes=piece.stored_bytes,
            raw_bytes=piece.raw_bytes,
            payload_crc=piece.payload_crc,
            kind=piece.kind,
            codec=piece.codec,
            flags=piece.flags,
            baseline=baseline,
        )
        encoded = encode_header(header)
        self._count(header, encoded)
        return encoded + piece.padded

    def index_if_due(self) -> bytes:
        """Encode an INDEX block if INDEX_BLOCKS blocks were placed since the last one, otherwise no bytes."""
        return self._index() if len(self._entries) >= INDEX_BLOCKS else b""

    def last_index(self) -> bytes:
        """Encode the INDEX block that precedes END."""
        return self._index()

    def end(self, outcome: Any, *, final: bool, oldest_segment: int = 0) -> bytes:
        """Encode END and the trailer, after last_index.

        outcome: plain data. final: the tape ends with this segment. oldest_segment: of a ring, see seal.
        """
        self.sealed_digest = self._digest.digest()
        seal = Seal(
            meta=self._meta,
            digest=self.sealed_digest,
            block_count=self.next_seq - self.header.first_seq,
            frame_count=self._frame_count,
            first_tick=self._first_tick or 0,
            last_tick=self.last_tick,
            index_offset=self._index_offset,
            outcome=outcome,
            run_id=self.header.run_id,
            segment=self.header.segment,
            final=final,
            previous_digest=self.previous_digest,
            counts=self._counts,
            parts=self._parts,
            oldest_segment=oldest_segment,
        )
        end_offset = self.next_offset
        end = self.place(make_piece(BlockKind.END, encode_seal(seal), self.last_tick))
        trailer = encode_trailer(self.header.marker, end_offset)
        self.next_offset += len(trailer)
        return end + trailer

    def next_segment(self, number: int, meta: bytes, previous_digest: bytes) -> SegmentEncoder:
        """Make the encoder of the segment that follows this one."""
        header = make_file_header(self.header.run_id, number, self.next_seq, self.header.incompatible)
        following = SegmentEncoder(header, meta, previous_digest)
        following.last_tick = self.last_tick
        return following

    def mark(self) -> _Mark:
        """The current state, to roll back to if the next blocks do not reach the file."""
        return _Mark(
            self.next_offset,
            self.next_seq,
            len(self._entries),
            self._entries,
            list(self._parts),
            self._index_offset,
            self._frame_count,
            self._first_tick,
            self.last_tick,
            dict(self._counts),
            self._digest.copy(),
        )

    def roll_back(self, mark: _Mark) -> None:
        """Discard everything that was placed since mark."""
        self.next_offset, self.next_seq = mark.next_offset, mark.next_seq
        self._entries = mark.entries
        del self._entries[mark.entry_count :]
        self._parts, self._index_offset = mark.parts, mark.index_offset
        self._frame_count, self._first_tick, self.last_tick = mark.frame_count, mark.first_tick, mark.last_tick
        self._counts, self._digest, self.sealed_digest = mark.counts, mark.digest, b""

    def _index(self) -> bytes:
        offset = self.next_offset
        block = self.place(make_piece(BlockKind.INDEX, encode_index(self._entries, self._index_offset), self.last_tick))
        self._note_index(offset)
        return block

    def _note_index(self, offset: int) -> None:
        self._parts.append(summarize(self._entries, offset))
        self._entries = []  # A new list: a mark may hold the old one.
        self._index_offset = offset

    def _count(self, header: BlockHeader, encoded: bytes) -> None:
        self._digest.update(encoded)
        if header.kind != BlockKind.INDEX and not header.flags & Flags.CONTINUATION:
            self._entries.append(entry_of(header))
            self._counts[int(header.kind)] = self._counts.get(int(header.kind), 0) + 1
        if header.kind in (BlockKind.FRAMES, BlockKind.FULL, BlockKind.DELTA):
            self._frame_count += header.tick_count
            if self._first_tick is None:
                self._first_tick = header.first_tick
            self.last_tick = max(self.last_tick, header.final_tick)
        self.next_seq = header.seq + 1
        self.next_offset = header.end_offset
