"""An encoder that is rolled back continues as if the failed blocks had never been placed."""

from __future__ import annotations

import pytest

from recorder.format.blocks.block import HEADER_BYTES, BlockKind, decode_header
from recorder.format.blocks.file_header import make_file_header
from recorder.format.blocks.frame import encode_frame
from recorder.format.segments.segment_encoder import (
    SegmentEncoder,
    SeqReference,
    delta_pieces,
    drop_piece,
    frames_piece,
    full_pieces,
    telemetry_piece,
)
from sim.kernel.plain_data import encode_plain

from oracle.second_checks import CheckedReader
from oracle.second_reader import unpack


def place_some(encoder: SegmentEncoder, first_tick: int, count: int) -> bytes:
    """Place frames, some keyframes, and indexes where they are due."""
    found = b""
    for tick in range(first_tick, first_tick + count):
        found += encoder.place(frames_piece(tick, 1, encode_frame(tick, tick, b"\xc0"))) + encoder.index_if_due()
        if tick % 3 == 0:
            pieces, place = full_pieces(tick, memoryview(bytes([tick] * 9)))
            found += b"".join(map(encoder.place, pieces))
            found += b"".join(map(encoder.place, delta_pieces(tick, memoryview(b"delta"), place)))
    return found


def finish(encoder: SegmentEncoder) -> bytes:
    """The end of a segment."""
    return encoder.last_index() + encoder.end({"why": "over"}, final=True)


@pytest.mark.parametrize("before", [0, 1, 4, 9])
@pytest.mark.parametrize("lost", [1, 5, 12])
@pytest.mark.parametrize("sealed", [False, True])
def test_what_was_rolled_back_leaves_no_trace(
    monkeypatch: pytest.MonkeyPatch, before: int, lost: int, *, sealed: bool
) -> None:
    """The bytes are those of an encoder without the failed blocks: numbers, offsets, index, counts, digest and END."""
    monkeypatch.setattr("recorder.format.segments.segment_encoder.INDEX_BLOCKS", 5)
    one, other = (SegmentEncoder(make_file_header(bytes(16), 0, 3), encode_plain({"world": None})) for _ in range(2))
    for encoder in (one, other):
        encoder.start()
        place_some(encoder, 1, before)
    mark = one.mark()
    place_some(one, 100, lost)
    if sealed:
        finish(one)
    one.roll_back(mark)
    assert one.sealed_digest == b""
    assert (one.next_offset, one.next_seq, one.last_tick) == (other.next_offset, other.next_seq, other.last_tick)
    assert place_some(one, before + 1, 7) + finish(one) == place_some(other, before + 1, 7) + finish(other)
    assert one.sealed_digest == other.sealed_digest != b""


def test_a_reference_is_set_again() -> None:
    """A full keyframe that is placed again has its new number, and deltas refer to that."""
    encoder = SegmentEncoder(make_file_header(bytes(16), 0, 0), b"")
    pieces, place = full_pieces(1, memoryview(b"state"))
    assert isinstance(place, SeqReference)
    mark = encoder.mark()
    for piece in pieces:
        encoder.place(piece)
    encoder.roll_back(mark)
    encoder.place(frames_piece(1, 1, encode_frame(1, 1, b"\xc0")))
    for piece in pieces:
        encoder.place(piece)
    assert place.seq == 1


@pytest.mark.parametrize("before", [0, 1, 4, 9])
def test_an_encoder_that_continues_writes_the_same_bytes(monkeypatch: pytest.MonkeyPatch, before: int) -> None:
    """Made from the headers of existing blocks; also after a DROP, telemetry and indexes."""
    monkeypatch.setattr("recorder.format.segments.segment_encoder.INDEX_BLOCKS", 5)
    header, meta = make_file_header(bytes(16), 2, 7), encode_plain({"world": None})
    one = SegmentEncoder(header, meta, b"p" * 32)
    data = one.start(flags=0) + place_some(one, 1, before)
    data += one.place(drop_piece(40, 44, "full")) + one.place(telemetry_piece(1, b"rows"))
    blocks, offset = [], header.size_bytes
    while offset < len(data):
        blocks.append(decode_header(data[offset : offset + HEADER_BYTES], offset))
        offset = blocks[-1].end_offset
    other = SegmentEncoder.continuing(header, meta, blocks, len(data), b"p" * 32)
    following = place_some(one, 50, 7) + finish(one)
    assert place_some(other, 50, 7) + finish(other) == following
    found = CheckedReader(data + following, 2)
    assert found.seal["outcome"] == {"why": "over"}
    assert [block.payload for block in found.blocks if block.kind == BlockKind.TELEMETRY] == [b"rows"]
    (drop,) = [block for block in found.blocks if block.kind == BlockKind.DROP]
    assert (drop.first_tick, unpack(drop.payload)) == (40, [{"first_tick": 40, "last_tick": 44, "why": "full"}])
