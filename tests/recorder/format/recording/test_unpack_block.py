"""Blocks that are unpacked at once: the hashes and inputs of their frames, or None where frames have to be decoded."""

from __future__ import annotations

from typing import Any

import msgpack
import numpy as np
import pytest

from recorder.format.blocks.frame import decode_frame, encode_frame
from recorder.format.recording.frame_columns import unpack_block, unpack_numbers
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


ALIKE: dict[str, list[Any]] = {
    "numbers": [n % 9 for n in range(40)],
    "typed numbers": [{"<i8": n % 7} for n in range(40)],
    "arrays": [np.arange(n, n + 3, dtype=np.float32) for n in range(40)],
    "nested arrays": [np.full((2, 2), n, np.uint8) for n in range(40)],
    "masks": [np.array([n % 2 == 0, n % 3 == 0]) for n in range(40)],
    "arrays without axes": [np.array(float(n)) for n in range(40)],
    "two entries": [{"a": n % 5, "b": 3} for n in range(40)],
    "texts": [f"{n:02}" for n in range(40)],
}
STRANGERS: list[Any] = [{"reset": 3, "options": None}, -1, 300, {"<i8": 200}, {"<i4": 1}, np.zeros(3), np.int64(4), "x"]


def are_equal(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray | np.generic):
        return (
            type(one) is type(other)
            and one.dtype == other.dtype
            and one.shape == other.shape
            and one.tobytes() == other.tobytes()
        )
    return type(one) is type(other) and one == other


@pytest.mark.parametrize("name", ALIKE)
def test_inputs_that_are_alike_are_those_of_the_frames(name: str) -> None:
    """Others among them, too; also first, where they are the ones that the rest is compared with."""
    for inserted in ([], [0, 20, 40], list(range(0, 60, 2))):
        inputs = list(ALIKE[name])
        for number, place in enumerate(inserted):
            inputs.insert(place, STRANGERS[number % len(STRANGERS)])
        frames = [encode_frame(9 + n, (7 << 60) + n, encode_plain(one)) for n, one in enumerate(inputs)]
        found = unpack_block(b"".join(frames), 9, len(frames))
        assert found is not None
        assert found[0] == [(7 << 60) + n for n in range(len(inputs))]
        assert len(found[1]) == len(inputs)
        assert all(map(are_equal, found[1], inputs))


def test_arrays_share_no_memory() -> None:
    """A step may keep one of its inputs, or change it."""
    frames = [encode_frame(1 + n, n, encode_plain(one)) for n, one in enumerate(ALIKE["arrays"])]
    found = unpack_block(b"".join(frames), 1, len(frames))
    assert found is not None
    assert all(array.flags.owndata and array.flags.writeable for array in found[1])


def test_each_cut_and_each_flipped_byte_gives_what_the_frames_give() -> None:
    """Arrays are read as columns only if they are exactly the frames that the header states."""
    whole = b"".join(encode_frame(1 + n, n, encode_plain(one)) for n, one in enumerate(ALIKE["arrays"][:12]))
    unpacked = 0
    for place in range(len(whole)):
        flipped = bytearray(whole)
        flipped[place] ^= 1 << place % 8
        for payload in (whole[:place], bytes(flipped)):
            found = unpack_block(payload, 1, 12)
            if found is None:
                continue
            unpacked += 1
            ends = [payload.index(frame_head(tick)) for tick in range(2, 13)]
            frames = [decode_frame(payload[i:j], 0) for i, j in zip([0, *ends], [*ends, len(payload)], strict=True)]
            assert found[0] == [frame.state_hash for frame in frames]
            assert all(map(are_equal, found[1], [frame.inputs for frame in frames]))
    assert unpacked > 12 * 12  # A flipped byte of a hash or a number is seen by the state or the block alone.


@pytest.mark.parametrize("name", ALIKE)
def test_numbers_are_those_of_the_frames(name: str) -> None:
    """Blocks of numbers are columns, with anything else among them; other blocks are not."""
    is_number = name in ("numbers", "typed numbers")
    for inserted in ([], [0, 20, 40], list(range(0, 60, 2))):
        inputs = list(ALIKE[name])
        for number, place in enumerate(inserted):
            inputs.insert(place, STRANGERS[number % len(STRANGERS)])
        frames = [encode_frame(9 + n, (7 << 60) + n, encode_plain(one)) for n, one in enumerate(inputs)]
        found = unpack_numbers(b"".join(frames), 9, len(frames))
        assert (found is not None) is is_number
        if found is None:
            continue
        hashes, columns = found
        assert hashes.tolist() == [(7 << 60) + n for n in range(len(inputs))]
        assert columns.key == ("<i8" if name == "typed numbers" else "")
        assert len(columns.inputs()) == len(inputs)
        assert all(map(are_equal, columns.inputs(), inputs))
        assert all(are_equal(columns.inputs_at(index), one) for index, one in enumerate(inputs))
        assert all(map(are_equal, columns.cut(3, 25).inputs(), inputs[3:25]))


@pytest.mark.parametrize("name", ["numbers", "typed numbers"])
def test_each_cut_and_each_flipped_byte_of_numbers_gives_what_the_frames_give(name: str) -> None:
    """A damaged block is read as columns only if it has exactly the frames that the header states."""
    inputs = [{"reset": 3}, *ALIKE[name][:10], {"reset": None, "ended": {"steps": 4}}]
    whole = b"".join(encode_frame(1 + n, n, encode_plain(one)) for n, one in enumerate(inputs))
    unpacked = 0
    for place in range(len(whole)):
        flipped = bytearray(whole)
        flipped[place] ^= 1 << place % 8
        for payload in (whole[:place], bytes(flipped)):
            found = unpack_numbers(payload, 1, len(inputs))
            if found is None:
                continue
            unpacked += 1
            ends = [payload.index(frame_head(tick)) for tick in range(2, len(inputs) + 1)]
            frames = [decode_frame(payload[i:j], 0) for i, j in zip([0, *ends], [*ends, len(payload)], strict=True)]
            assert found[0].tolist() == [frame.state_hash for frame in frames]
            assert all(map(are_equal, found[1].inputs(), [frame.inputs for frame in frames]))
    assert unpacked > 8 * 12


def frame_head(tick: int) -> bytes:
    return b"\x93\xcf" + tick.to_bytes(8)
