"""The payload of a FRAMES block with equal things next to each other, which compresses better: for packed tapes.

Little-endian:
    elements u8 | is_chained u8 | field_hash_bytes u16 | phase_hash_bytes u16 | form u16 | count u32 | first_tick u64 |
    hashes, 8 bytes each, big-endian, or chained hashes | lengths of the inputs, u32, first all lowest bytes, then all
    second ones, … | the inputs back to back, or with form 1 as in value_streams.py | hashes of fields | hashes of phases

The hashes of fields and phases are a table of one row a tick, each row XORed with the one before, stored column by
column: a field that does not change is a series of zeros.

Invariant: join_frames(b"".join(split_frames(payload))) is payload. split_frames refuses every payload for which it is not.
"""

from __future__ import annotations

import struct

import numpy as np

from recorder.errors import CorruptError
from recorder.format.blocks.frame import Frame, encode_frame, unpack_frames
from recorder.format.blocks.hash_chain import LINK_BYTES
from recorder.format.blocks.packed.value_streams import join_values, split_values
from recorder.format.limits import BLOCK_TICKS_MAX, INPUT_BYTES_MAX

_HEAD = struct.Struct("<BBHHHIQ")
HEAD_BYTES = _HEAD.size
LENGTH_BYTES = 4
# Times the payload: a single frame of inputs with few bytes becomes 100 bytes of heads and counts.
STREAMS_SIZE_MAX = 4
AS_THEY_ARE, AS_STREAMS = FORMS = (0, 1)  # The inputs.
ELEMENTS_MIN = 3


def split_frames(payload: bytes, form: int) -> list[bytes] | None:
    """Split the frames of a payload into streams; None if they are not alike, or would not come back the same.

    form: of the inputs, one of FORMS.
    """
    try:
        frames = unpack_frames(payload, 0)
    except CorruptError:
        return None
    if not frames:
        return None
    first = frames[0]
    kinds = {(one.state_hash is None, len(one.field_hashes), len(one.phase_hashes)) for one in frames}
    if len(kinds) > 1 or max(len(first.field_hashes), len(first.phase_hashes)) >= 1 << 16:
        return None
    elements = _elements(len(first.field_hashes), len(first.phase_hashes))
    is_chained = first.state_hash is None
    inputs = b"".join(one.encoded_inputs for one in frames)
    split = [inputs] if form == AS_THEY_ARE else split_values(inputs)
    if split is None:
        return None
    head = _HEAD.pack(
        elements, is_chained, len(first.field_hashes), len(first.phase_hashes), form, len(frames), first.tick
    )
    lengths = np.array([len(one.encoded_inputs) for one in frames], "<u4").view(np.uint8).reshape(-1, LENGTH_BYTES)
    streams = [
        head + b"".join(_proof(one) for one in frames),
        lengths.T.tobytes(),
        *split,
        _columns(frames, [one.field_hashes for one in frames]),
        _columns(frames, [one.phase_hashes for one in frames]),
    ]
    try:
        is_same = join_frames(b"".join(streams), len(payload)) == payload
    except ValueError:
        return None
    return streams if is_same else None


def _elements(field_bytes: int, phase_bytes: int) -> int:
    """The number of elements of a frame with hashes of these lengths."""
    return ELEMENTS_MIN + (2 if phase_bytes else 1 if field_bytes else 0)


def _proof(frame: Frame) -> bytes:
    return frame.link if frame.state_hash is None else frame.state_hash.to_bytes(LINK_BYTES, "big")


def _columns(frames: list[Frame], rows: list[bytes]) -> bytes:
    table = np.frombuffer(b"".join(rows), np.uint8).reshape(len(frames), -1).copy()
    table[1:] ^= table[:-1].copy()
    return table.T.tobytes()


def _rows(columns: bytes, count: int) -> list[bytes]:
    if not columns:
        return [b""] * count
    table = np.bitwise_xor.accumulate(np.frombuffer(columns, np.uint8).reshape(-1, count), axis=1)
    return [row.tobytes() for row in np.ascontiguousarray(table.T)]


def join_frames(streams: bytes, raw_bytes: int) -> bytes:
    """Join streams to the payload of a FRAMES block. raw_bytes: its size. Raises ValueError if they are not streams."""
    if len(streams) < HEAD_BYTES:
        raise ValueError("streams of frames without a head")
    elements, is_chained, field_bytes, phase_bytes, form, count, first_tick = _HEAD.unpack_from(streams)
    if form not in FORMS or is_chained > 1 or elements != _elements(field_bytes, phase_bytes):
        raise ValueError(f"streams of form {form} for frames of {elements} elements")
    fixed = HEAD_BYTES + count * (LINK_BYTES + LENGTH_BYTES + field_bytes + phase_bytes)
    if not 0 < count <= BLOCK_TICKS_MAX or fixed > len(streams) or first_tick + count >= 1 << 64:
        raise ValueError(f"{len(streams)} bytes of streams for {count} frames")
    at = HEAD_BYTES + count * LINK_BYTES
    planes = np.frombuffer(streams, np.uint8, count * LENGTH_BYTES, at).reshape(LENGTH_BYTES, count)
    lengths = np.ascontiguousarray(planes.T).view("<u4").reshape(-1).tolist()
    size = sum(lengths)
    at += count * LENGTH_BYTES
    hashes_at = len(streams) - count * (field_bytes + phase_bytes)
    if size > raw_bytes or max(lengths) > INPUT_BYTES_MAX or (form == AS_THEY_ARE and hashes_at - at != size):
        raise ValueError(f"{len(streams)} bytes of streams for {size} bytes of inputs")
    values = streams[at:hashes_at] if form == AS_THEY_ARE else join_values(streams[at:hashes_at], size)
    fields = _rows(streams[hashes_at : hashes_at + count * field_bytes], count)
    phases = _rows(streams[hashes_at + count * field_bytes :], count)
    joined, at = [], 0
    for number, length in enumerate(lengths):
        place = HEAD_BYTES + number * LINK_BYTES
        hashed = streams[place : place + LINK_BYTES]
        proof = hashed if is_chained else int.from_bytes(hashed, "big")
        inputs = values[at : at + length]
        joined.append(encode_frame(first_tick + number, proof, inputs, fields[number], phases[number]))
        at += length
    return b"".join(joined)
