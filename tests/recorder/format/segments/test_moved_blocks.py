"""Blocks at wrong offsets, and tapes inside of tapes: nothing is invented (promise P3)."""

from __future__ import annotations

from pathlib import Path

import attrs
import numpy as np

from recorder import Recorder
from recorder.format.blocks.block import HEADER_BYTES, decode_header, encode_header
from recorder.format.segments.seal import encode_trailer
from replayer.tape.tape import Tape
from sim import Field, Schema, State

from oracle.second_reader import FRAMES, INDEX, Reader
from oracle.small_tapes import block_bytes, make_tape, offsets_found, read_everything, rewritten, truth_of


def test_swapped_blocks_do_not_count(tmp_path: Path) -> None:
    """Two swapped blocks are both refused, and so are the blocks between them unless they kept their offsets."""
    path = tmp_path / "run.tape"
    data = make_tape(path)
    blocks = Reader(data).blocks
    for first in range(len(blocks) - 1):
        one, two = block_bytes(data, blocks[first]), block_bytes(data, blocks[first + 1])
        start = blocks[first].offset
        path.write_bytes(data[:start] + two + one + data[start + len(one) + len(two) :])
        expected = [b.offset for b in blocks if b.kind != INDEX and b.seq not in {first, first + 1}]
        assert offsets_found(path) == expected
        problem, _, found = read_everything(path)
        assert problem
        assert found is not None
        assert found.is_part_of(truth_of(data))


def test_duplicated_blocks_do_not_count(tmp_path: Path) -> None:
    """A block that was copied to the end, or over the block after it, is not read there."""
    path = tmp_path / "run.tape"
    data = make_tape(path, sealed=False)
    truth, blocks = truth_of(data), Reader(data).blocks
    for block in blocks:
        path.write_bytes(data + block_bytes(data, block))
        problem, status, found = read_everything(path)
        assert (problem, status, found) == (True, "incomplete", truth)
        assert offsets_found(path) == [b.offset for b in blocks]


def test_blocks_of_another_run_do_not_count(tmp_path: Path) -> None:
    """A block of a different run at its right offset, with right checksums, is refused and its ticks are missing."""
    path = tmp_path / "run.tape"
    other = make_tape(tmp_path / "other.tape", run_id=bytes(16))
    data = make_tape(path)
    for block in Reader(data).blocks:
        theirs = block_bytes(other, block)
        if len(theirs) == len(block_bytes(data, block)):
            path.write_bytes(data[: block.offset] + theirs + data[block.offset + len(theirs) :])
            assert block.offset not in offsets_found(path)
            if block.kind != INDEX:
                assert read_everything(path)[0]
    assert any(block.kind == FRAMES for block in Reader(data).blocks)


def test_a_trailer_of_another_run_does_not_seal(tmp_path: Path) -> None:
    """Only a trailer with the tape's marker seals it."""
    path = tmp_path / "run.tape"
    data = make_tape(path)
    path.write_bytes(data[:-24] + encode_trailer(b"12345678", Reader(data).blocks[-1].offset))
    with Tape(path) as tape:
        assert (tape.sealed, tape.status, len(tape.damages)) == (False, "incomplete", 1)


def test_a_tape_inside_the_inputs_is_not_read(tmp_path: Path) -> None:
    """Blocks inside a payload are ignored when the block around them is destroyed, whatever offset they state."""
    path = tmp_path / "run.tape"
    inner = make_tape(tmp_path / "inner.tape", run_id=bytes(16))
    blocks = Reader(inner).blocks
    header = decode_header(inner[blocks[2].offset :][:HEADER_BYTES], blocks[2].offset)

    class Reads:
        def __init__(self) -> None:
            self.state = State(Schema(Field("length", "i8")))

        def step(self, inputs: bytes) -> None:
            self.state["length"][...] += len(inputs)

    with Recorder(path, Reads(), deterministic=True, run_id=bytes(range(16))) as tape:
        tape.step(np.random.default_rng(0).bytes(4096))
    data = path.read_bytes()
    frames = next(block for block in Reader(data).blocks if block.kind == FRAMES)
    assert frames.codec == 0
    listed = [block for block in Reader(data).blocks if block.kind != INDEX]
    place = -(-(frames.offset + 200) // 8) * 8
    embedded = encode_header(attrs.evolve(header, offset=place)) + bytes(200) + inner
    start = place - frames.offset - HEADER_BYTES
    payload = frames.payload[:start] + embedded + frames.payload[start + len(embedded) :]
    data = rewritten(data, frames, payload)
    path.write_bytes(data)
    assert offsets_found(path) == [block.offset for block in listed]
    for destroyed in (frames.offset, frames.offset + 30, frames.offset + 70):
        path.write_bytes(data[:destroyed] + bytes([data[destroyed] ^ 0x40]) + data[destroyed + 1 :])
        assert offsets_found(path) == [block.offset for block in listed if block.kind != FRAMES]
