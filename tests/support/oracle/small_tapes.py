"""A small tape, ways of changing it, and its complete content, for tests of damage to single bits and blocks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import attrs
import google_crc32c

from recorder import Recorder
from recorder.format.blocks.block import HEADER_BYTES, decode_header, encode_header, pad
from recorder.format.segments.seal import encode_trailer
from replayer.tape.tape import Tape
from sim import Field, Schema, State

from oracle import readings
from oracle.readings import Found
from oracle.second_reader import Reader


class Adder:
    """Adds its inputs to a few numbers."""

    def __init__(self) -> None:
        self.state = State(Schema(Field("numbers", "i2", (8,))))

    def step(self, inputs: int) -> None:
        self.state["numbers"][inputs % 8] += inputs


TICKS = 7


def make_tape(path: Path, *, sealed: bool = True, run_id: bytes = bytes(range(16)), sync: str = "never") -> bytes:
    """Seven ticks with keyframes at 0, 3 and 6; unsealed is the same file up to END."""
    with Recorder(path, Adder(), keyframe_interval_ticks=3, sync=sync, deterministic=True, run_id=run_id) as tape:
        for number in range(1, TICKS + 1):
            tape.step(number)
    data = path.read_bytes()
    if not sealed:
        *_, index, _ = Reader(data).blocks
        data = data[: index.offset]
        path.write_bytes(data)
    return data


def read_everything(path: Path) -> tuple[bool, str, Found | None]:
    """Return True if a problem was reported, the status, and the content that was still read."""
    reading = readings.read_everything(path)
    return bool(reading.problems), reading.status, reading.found


def truth_of(data: bytes) -> Found:
    """The content by the second reader."""
    reader = Reader(data)
    frames = {tick: (state_hash, inputs) for tick, state_hash, inputs in reader.frames()}
    states = {keyframe.tick: (keyframe.is_full, keyframe.state_hash, keyframe.arena) for keyframe in reader.keyframes()}
    return Found(frames, states, reader.meta, reader.seal is not None)


def block_bytes(data: bytes, block: Any) -> bytes:
    """A block as it lies in the file."""
    return data[block.offset : block.offset + HEADER_BYTES + -(-block.stored // 8) * 8]


def offsets_found(path: Path) -> list[int]:
    """The offsets of the blocks that a scan finds."""
    with Tape(path) as tape:
        tape.distrust_index()
        return [entry.offset for entry in tape.segments[0].contents.entries]


def rewritten(data: bytes, block: Any, payload: bytes) -> bytes:
    """The tape with a new payload of the same length in an uncompressed block, and corrected checksums."""
    assert (len(payload), block.codec) == (block.stored, 0)
    header = decode_header(data[block.offset :][:HEADER_BYTES], block.offset)
    padded = pad(payload)
    header = attrs.evolve(header, payload_crc=google_crc32c.value(padded))
    return data[: block.offset] + encode_header(header) + padded + data[header.end_offset :]


def lie(path: Path, data: bytes, payload: bytes, index: Any) -> None:
    """Write the tape with a new INDEX payload; the following blocks move, with corrected offsets and checksums."""
    *_, end = Reader(data).blocks
    header = decode_header(data[index.offset :][:HEADER_BYTES], index.offset)
    padded = pad(payload)
    header = attrs.evolve(
        header, stored_bytes=len(payload), raw_bytes=len(payload), codec=0, payload_crc=google_crc32c.value(padded)
    )
    end_header = decode_header(data[end.offset :][:HEADER_BYTES], end.offset)
    moved = attrs.evolve(end_header, offset=header.end_offset)
    path.write_bytes(
        data[: index.offset]
        + encode_header(header)
        + padded
        + encode_header(moved)
        + data[end.offset + HEADER_BYTES : -24]
        + encode_trailer(header.marker, moved.offset)
    )
