"""The encoder's blocks: numbers, offsets, pieces, baselines, index, seal; read back by the second reader."""

from __future__ import annotations

import attrs
import numpy as np
import pytest

from recorder.errors import CorruptError
from recorder.format.blocks.block import BlockKind, Flags
from recorder.format.blocks.file_header import make_file_header
from recorder.format.blocks.frame import encode_frame
from recorder.format.blocks.full_keyframe import gather_changes
from recorder.format.limits import INDEX_BLOCKS, PIECE_RAW_BYTES
from recorder.format.segments.contents_by_index import read_contents
from recorder.format.segments.contents_by_scan import scan_contents
from recorder.format.segments.index import Entry, decode_index, encode_index
from recorder.format.segments.segment_encoder import (
    SegmentEncoder,
    SeqReference,
    delta_pieces,
    frames_piece,
    full_pieces,
)
from sim import Field, Schema, State
from sim.kernel.plain_data import encode_plain

from keyframe_payloads import encode_delta, encode_full
from oracle.second_checks import CheckedReader
from oracle.second_reader import INDEX

META = encode_plain({"simulation": "none"})


class Encoder(SegmentEncoder):
    """A segment's encoder that makes pieces of payloads and places them at once."""

    def __init__(self) -> None:
        super().__init__(make_file_header(bytes(16), 0, 0), META)
        self.full_place: SeqReference | None = None

    def full(self, tick: int, payload: memoryview) -> bytes:
        """The blocks of a full keyframe."""
        pieces, self.full_place = full_pieces(tick, payload)
        return b"".join(map(self.place, pieces))

    def delta(self, tick: int, payload: memoryview) -> bytes:
        """The blocks of a delta of the last full keyframe."""
        assert self.full_place is not None
        return b"".join(map(self.place, delta_pieces(tick, payload, self.full_place)))

    def seal(self, outcome: object = None) -> bytes:
        """The last INDEX, END and the trailer."""
        return self.last_index() + self.end(outcome, final=True)


def frames(encoder: Encoder, first_tick: int, count: int = 1) -> bytes:
    """A block of frames."""
    ticks = range(first_tick, first_tick + count)
    payload = b"".join(encode_frame(tick, 0, b"\xc0") for tick in ticks)
    return encoder.place(frames_piece(first_tick, count, payload))


def noise(size: int) -> memoryview:
    """Bytes that LZ4 does not shorten."""
    return memoryview(np.random.default_rng(size).bytes(size))


@pytest.mark.parametrize("block_count", [1, 2, 3, 4, 5, 6, 20])
def test_the_chain_of_indexes(monkeypatch: pytest.MonkeyPatch, block_count: int) -> None:
    """For any number of blocks and indexes, the indexes list each block once and in order."""
    monkeypatch.setattr("recorder.format.segments.segment_encoder.INDEX_BLOCKS", 3)
    encoder = Encoder()
    data = encoder.start() + encoder.index_if_due()
    for tick in range(1, block_count):
        data += frames(encoder, tick) + encoder.index_if_due()
        assert encoder.next_offset == len(data)
    if block_count == 1:
        data += frames(encoder, 1)
    data += encoder.seal(None)

    reader = CheckedReader(data)  # It compares the chain with the blocks.
    assert sum(block.kind == INDEX for block in reader.blocks) == block_count // 3 + 1
    assert encoder.next_offset == len(data)

    def read(offset: int, size: int) -> bytes:
        return data[offset : offset + size]

    by_index, scanned = read_contents(read, len(data)), scan_contents(read, len(data))
    assert (by_index.by_index, scanned.by_index) == (True, False)
    assert by_index.entries == scanned.entries
    assert (by_index.seal, by_index.header, by_index.damages) == (scanned.seal, scanned.header, scanned.damages)


def test_the_limit_of_the_index() -> None:
    """An index is due at 4096 blocks and not at 4095."""
    encoder = Encoder()
    encoder.start()
    for tick in range(1, INDEX_BLOCKS - 1):
        frames(encoder, tick)
    assert encoder.index_if_due() == b""
    frames(encoder, INDEX_BLOCKS - 1)
    assert encoder.index_if_due() != b""
    assert encoder.index_if_due() == b""


@pytest.mark.parametrize(
    ("size", "lengths"),
    [
        (1, [1]),
        (PIECE_RAW_BYTES - 1, [PIECE_RAW_BYTES - 1]),
        (PIECE_RAW_BYTES, [PIECE_RAW_BYTES]),
        (PIECE_RAW_BYTES + 1, [PIECE_RAW_BYTES, 1]),
        (2 * PIECE_RAW_BYTES, [PIECE_RAW_BYTES] * 2),
        (2 * PIECE_RAW_BYTES + 5, [PIECE_RAW_BYTES] * 2 + [5]),
    ],
)
def test_pieces_of_keyframes(size: int, lengths: list[int]) -> None:
    """A keyframe is cut at 1 MiB; flags mark first, middle and last; all pieces of a delta have one distance."""
    encoder = Encoder()
    payload = noise(size)
    data = encoder.start() + encoder.full(0, payload) + frames(encoder, 1) + encoder.delta(1, payload)
    blocks = CheckedReader(data).blocks
    count = len(lengths)
    flags = [Flags.CONTINUES | Flags.CONTINUATION] * count
    flags[0] &= ~Flags.CONTINUATION
    flags[-1] &= ~Flags.CONTINUES

    for kind, first in ((BlockKind.FULL, 1), (BlockKind.DELTA, 1 + count + 1)):
        pieces = [block for block in blocks if block.kind == kind]
        assert b"".join(block.payload for block in pieces) == bytes(payload)
        assert [block.raw for block in pieces] == lengths
        assert [block.flags for block in pieces] == flags
        assert [block.seq for block in pieces] == list(range(first, first + count))
        assert {block.baseline for block in pieces} == ({0} if kind == BlockKind.FULL else {count + 1})
    assert [block.seq for block in blocks] == list(range(len(blocks)))


def test_big_states_come_back() -> None:
    """Full and delta keyframes of a state of 3 MiB, in pieces, give its bytes; the index lists first pieces only."""
    state = State(Schema(Field("noise", "u1", (3 << 20,))))
    encoder = Encoder()
    data = encoder.start()
    arenas = []
    for tick in range(4):
        if tick % 2 == 0:
            state["noise"][:] = np.frombuffer(noise(3 << 20), np.uint8)
            baseline = state.snapshot()
            data += encoder.full(tick, encode_full(tick, state.hash(), baseline))
        else:
            rows = np.arange(0, 3 << 20, 2)
            state["noise"][rows] = np.frombuffer(noise(3 << 19), np.uint8)
            changes = gather_changes(state.arena, state.layout, {"noise": rows})
            data += encoder.delta(tick, encode_delta(tick, state.hash(), changes, baseline))
        arenas.append(state.arena.tobytes())
    data += encoder.seal(None)

    assert [keyframe.arena for keyframe in CheckedReader(data).keyframes()] == arenas
    entries = read_contents(lambda offset, size: data[offset : offset + size], len(data)).entries
    assert [entry.kind for entry in entries] == [
        BlockKind.META,
        BlockKind.FULL,
        BlockKind.DELTA,
        BlockKind.FULL,
        BlockKind.DELTA,
        BlockKind.END,
    ]


def test_baselines_are_distances_to_the_last_full_keyframe() -> None:
    """The distance counts every block between them, including pieces and indexes."""
    encoder = Encoder()
    data = encoder.start() + encoder.full(0, noise(9))
    data += encoder.delta(1, noise(9)) + frames(encoder, 1) + encoder.delta(2, noise(9))
    data += encoder.full(3, noise(9)) + encoder.delta(4, noise(9))

    assert [(b.seq, b.baseline) for b in CheckedReader(data).blocks if b.kind == BlockKind.DELTA] == [
        (2, 1),
        (4, 3),
        (6, 1),
    ]


def test_the_seal_counts() -> None:
    """Blocks, frames, first and last tick are those of the tape; END repeats META and contains the outcome."""
    encoder = Encoder()
    data = encoder.start() + encoder.full(5, noise(9)) + frames(encoder, 6, 3) + encoder.seal({"reason": "é"})
    seal = CheckedReader(data).seal

    assert seal is not None
    assert (seal["block_count"], seal["frame_count"], seal["first_tick"], seal["last_tick"]) == (4, 3, 5, 8)
    assert (seal["meta"], seal["outcome"]) == (META, {"reason": "é"})


def test_how_far_the_file_is_durable_stands_in_every_block() -> None:
    """The writer's figure is in each header made after it was set."""
    encoder = Encoder()
    data = encoder.start()
    encoder.durable_bytes = len(data)
    data += frames(encoder, 1)
    assert [block.durable for block in CheckedReader(data).blocks] == [0, CheckedReader(data).blocks[1].offset]


ENTRY = Entry(offset=1, first_tick=2, tick_count=3, seq=4, baseline=5, kind=6, flags=7)


def listed(payload: bytes, offset: int) -> tuple[list[Entry], int]:
    """The entries of an index, and the offset of the index before."""
    part, previous = decode_index(payload, offset)
    return list(part.entries()), previous


def test_index_bytes() -> None:
    """An index of two entries as bytes, encoded and decoded, with every column at its maximum."""
    largest = Entry(2**64 - 1, 2**64 - 1, 2**32 - 1, 2**64 - 1, 2**32 - 1, 255, 65535)
    payload = bytes.fromhex("12000000 82") + b"\xa8previous\x40\xa5count\x02"
    payload += bytes.fromhex("0100000000000000" + "ff" * 8 + "0200000000000000" + "ff" * 8 + "03000000" + "ff" * 4)
    payload += bytes.fromhex("0400000000000000" + "ff" * 8 + "05000000" + "ff" * 4 + "06ff" + "0700ffff")

    assert encode_index([ENTRY, largest], 0x40) == payload
    with pytest.raises(CorruptError):
        decode_index(payload, 2**64 - 1)
    second = attrs.evolve(ENTRY, offset=2)
    assert listed(encode_index([ENTRY, second], 0x40), 0x41) == ([ENTRY, second], 0x40)
    with pytest.raises(CorruptError):
        decode_index(encode_index([ENTRY, ENTRY], 0x40), 0x41)
    assert listed(encode_index([], 0), 1) == ([], 0)


def test_an_inconsistent_index_is_corrupt() -> None:
    """Wrong lengths, missing parts, a chain that does not lead back, or blocks after the index are refused."""
    payload = encode_index([ENTRY], 8)
    assert listed(payload, 9) == ([ENTRY], 8)
    head, size = {"previous": 8, "count": 1}, payload[0]
    columns = payload[4 + size :]
    wrong = [
        b"",
        payload[:3],
        payload[:-1],
        payload + b"\0",
        b"\xff" + payload[1:],
        payload[:4] + b"\xc1" + payload[5:],
    ]
    for changed in ({"count": 0}, {"count": 2}, {"count": -1}, {"count": 2**40}, {"count": None}, {"previous": -1},
                    {"previous": 9}, {"previous": 2**64 - 1}, {"previous": "8"}):  # fmt: skip
        encoded = encode_plain(head | changed)
        wrong.append(len(encoded).to_bytes(4, "little") + encoded + columns)
    for data in wrong:
        with pytest.raises(CorruptError):
            decode_index(data, 9)
    for offset, is_right in ((8, True), (9, False), (2**63, False)):
        moved = encode_index([attrs.evolve(ENTRY, offset=offset)], 8)
        if is_right:
            assert listed(moved, 9)[0][0].offset == offset
        else:
            with pytest.raises(CorruptError):
                decode_index(moved, 9)
