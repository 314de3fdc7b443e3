"""Turn payloads into the blocks of a tape: compression and checksums first, numbers, places, index and seal after.

A ``Piece`` is a block that is ready but for its place: it can be placed again in another file if the first one fails
it. ``SegmentEncoder`` gives pieces their places in one file. Bytes out, nothing else: the caller appends what each
method returns to the file, in the order of the calls.

Invariants:
    1. next_offset is the length of the file once all that was returned is in it.
    2. Each INDEX lists the blocks since the INDEX before it; continuation pieces and INDEX blocks are not listed.
    3. Block numbers (seq) go on from one segment to the next, so that a delta may build upon a full keyframe in an
       earlier one.
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

# Frames of a block from which on it is packed thoroughly: that takes three quarters of a millisecond, which is less for
# each of so many ticks than what any of them takes, so that the writer keeps up.
THOROUGH_TICKS_MIN = 128
_INDEX_PAYLOAD_BYTES_MAX = 64 * (INDEX_BLOCKS + 2)
assert _INDEX_PAYLOAD_BYTES_MAX <= BLOCK_RAW_BYTES_MAX, "an INDEX must fit into one block"


@attrs.define(eq=False)
class SeqReference:
    """Where a full keyframe was placed last; deltas hold on to it, so that it may be placed again.

    Attributes:
        seq: of its first block; None while it has no place.
    """

    seq: int | None = None


@attrs.frozen(eq=False)
class Piece:
    """A block that is ready but for its place.

    Attributes:
        kind, codec, stored_bytes, raw_bytes, payload_crc, first_tick, tick_count, flags: as in BlockHeader.
        padded: the stored bytes with their padding.
        place: told the seq when the piece is placed; None if nobody asks.
        baseline: of a delta, the full keyframe that it builds upon.
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
    """Compress a payload and take its checksum."""
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
    """A FRAMES block of count frames from first_tick on."""
    assert count > 0
    thoroughly = count >= THOROUGH_TICKS_MIN
    return make_piece(BlockKind.FRAMES, payload, first_tick, tick_count=count, flags=flags, thoroughly=thoroughly)


def pieces_of_frames(frames: Iterable[Frame]) -> Iterator[Piece]:
    """FRAMES blocks of frames of consecutive ticks, each as full as a block may be; a longer frame has one of its own."""
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
    """The blocks of a full keyframe, and what deltas upon it refer to."""
    place = SeqReference()
    return _cut(BlockKind.FULL, payload, tick, flags, place, None), place


def delta_pieces(tick: int, payload: Payload | memoryview, baseline: SeqReference, flags: int = 0) -> list[Piece]:
    """The blocks of a delta keyframe."""
    return _cut(BlockKind.DELTA, payload, tick, flags, None, baseline)


def telemetry_piece(first_tick: int, payload: bytes) -> Piece:
    """A TELEMETRY block with rows from first_tick on."""
    return make_piece(BlockKind.TELEMETRY, payload, first_tick)


def events_piece(first_tick: int, payload: bytes) -> Piece:
    """An EVENTS block that tells of ticks from first_tick on."""
    return make_piece(BlockKind.EVENTS, payload, first_tick)


def changes_pieces(first_tick: int, payload: memoryview) -> list[Piece]:
    """The blocks of what ticks from first_tick on changed."""
    return _cut(BlockKind.CHANGES, payload, first_tick, 0, None, None)


def drop_piece(first_tick: int, last_tick: int, why: str) -> Piece:
    """A DROP block: the frames of these ticks could not be kept."""
    payload = encode_plain({"first_tick": first_tick, "last_tick": last_tick, "why": why})
    return make_piece(BlockKind.DROP, payload, first_tick)


def _cut(
    kind: BlockKind,
    payload: Payload | memoryview,
    tick: int,
    more_flags: int,
    place: SeqReference | None,
    baseline: SeqReference | None,
) -> list[Piece]:
    if isinstance(payload, memoryview):
        payload = Payload.of(payload)
    pieces = []
    for number, raw in enumerate(payload.pieces(PIECE_RAW_BYTES)):
        flags = Flags(more_flags)
        if number:
            flags |= Flags.CONTINUATION
        if (number + 1) * PIECE_RAW_BYTES < payload.size_bytes:
            flags |= Flags.CONTINUES
        own = place if not number else None
        pieces.append(make_piece(kind, raw, tick, flags=flags, place=own, baseline=baseline, number=number))
    return pieces


@attrs.frozen
class _Mark:
    """What an append that failed is rolled back to."""

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
    """Gives blocks their places in one segment, from its start to its seal."""

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
        """An encoder that goes on behind these blocks, all those of a segment that was written before.

        previous_digest: as its END said or would have said.
        """
        encoder = cls(header, meta, previous_digest)
        for block in blocks:
            encoder._count(block, encode_header(block))
            if block.kind == BlockKind.INDEX:
                encoder._note_index(block.offset)
        encoder.next_offset = next_offset
        return encoder

    def start(self, flags: int = Flags.SESSION_START) -> bytes:
        """The file header and the META block."""
        head = encode_file_header(self.header)
        self.next_offset = len(head)
        return head + self.place(make_piece(BlockKind.META, self._meta, 0, flags=flags))

    def place(self, piece: Piece) -> bytes:
        """A block at the end of the segment."""
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
        """An INDEX block if INDEX_BLOCKS blocks came since the last one, else nothing."""
        return self._index() if len(self._entries) >= INDEX_BLOCKS else b""

    def last_index(self) -> bytes:
        """The INDEX block that comes before END."""
        return self._index()

    def end(self, outcome: Any, *, final: bool) -> bytes:
        """END and the trailer, after last_index. outcome: plain data. final: the tape ends with this segment."""
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
        )
        end_offset = self.next_offset
        end = self.place(make_piece(BlockKind.END, encode_seal(seal), self.last_tick))
        trailer = encode_trailer(self.header.marker, end_offset)
        self.next_offset += len(trailer)
        return end + trailer

    def next_segment(self, number: int, meta: bytes, previous_digest: bytes) -> SegmentEncoder:
        """The encoder of another segment that goes on from this one."""
        header = make_file_header(self.header.run_id, number, self.next_seq, self.header.incompatible)
        following = SegmentEncoder(header, meta, previous_digest)
        following.last_tick = self.last_tick
        return following

    def mark(self) -> _Mark:
        """Where to roll back to if what is placed next does not reach the file."""
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
        """Forget what was placed since mark."""
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
