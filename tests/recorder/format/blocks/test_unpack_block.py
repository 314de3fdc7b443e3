"""Blocks that are unpacked at once: the hashes and inputs of their frames, or None where frames have to be decoded."""

from __future__ import annotations

from typing import Any

import msgpack
import pytest

from recorder.format.blocks.frame import decode_frame, encode_frame, unpack_block
from sim.kernel.plain_data import encode_plain

INPUTS: list[Any] = [0, {"<i8": 3}, {"reset": 7, "options": b"x"}, [1, [2.5, None]], b"\xd6\xff", "reset"]


def block(first: int = 5) -> list[bytes]:
    return [encode_frame(first + n, (1 << 64) - 1 - n, encode_plain(inputs)) for n, inputs in enumerate(INPUTS)]


@pytest.mark.parametrize("fields", [b"", b"abcd"])
def test_it_has_what_the_frames_have(fields: bytes) -> None:
    frames = [encode_frame(5 + n, n, encode_plain(inputs), fields) for n, inputs in enumerate(INPUTS)]
    found = unpack_block(b"".join(frames), 5, len(frames))
    decoded = [decode_frame(frame, 0) for frame in frames]

    assert found == ([frame.state_hash for frame in decoded], [frame.inputs for frame in decoded])
    assert found == (list(range(len(INPUTS))), INPUTS)


@pytest.mark.parametrize(
    ("payload", "first", "count"),
    [
        (b"".join(block()), 4, len(INPUTS)),
        (b"".join(block()), 5, len(INPUTS) - 1),
        (b"".join(block()), 5, len(INPUTS) + 1),
        (b"".join(block())[:-1], 5, len(INPUTS)),
        (b"", 5, 0),
        (encode_frame(5, b"8 bytes.", b"\x00"), 5, 1),
        (msgpack.packb([5, 1]), 5, 1),
        (msgpack.packb([5.0, 1, 2]), 5, 1),
        (msgpack.packb([5, True, 2]), 5, 1),
        (msgpack.packb([5, -1, 2]), 5, 1),
        (msgpack.packb({0: 5, 1: 1, 2: 2}), 5, 1),
        (msgpack.packb([5, 1, msgpack.Timestamp(1)]), 5, 1),
    ],
)
def test_anything_else_is_left_to_the_frames(payload: bytes, first: int, count: int) -> None:
    """Other ticks, a cut, a chained hash, numbers that are no hashes, a value that is no plain data."""
    assert unpack_block(payload, first, count) is None
