"""Unpack the hashes and the inputs of a block of frames at once.

MessagePack reads numbers, texts and dicts quickly, but calls us for each array. So where most inputs are arrays of one
dtype and shape, one of them is decoded, and those with the same bytes around their numbers are read as columns. The
remaining inputs are decoded one by one. Where most inputs are small whole numbers, alone or in a map of one key, they stay
columns: a block of them is read without an object for each tick.

Invariant: the result is that of decoding each frame. Of frames read as columns, the first head is at the start, and each
body is exactly one value, so the next head is where the body ends.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import attrs
import numpy as np
import numpy.typing as npt

from recorder.format.blocks.frame import ARRAY_OF_3, HEAD_BYTES, UINT64
from sim.kernel.plain_data import (
    BEFORE_TIMESTAMP,
    DECODE_ERRORS,
    TIMESTAMP_TYPE,
    decode_plain,
    make_unpacker,
    refuse_timestamp,
)

_FIXED_MAX = 0x7F  # A whole number up to it is its own byte in MessagePack,
_MAP_OF_1, _SHORT_TEXT = (
    0x81,
    0xA0,
)  # a map of one entry begins with the one, a text below 32 bytes with the other + its size.
_SHORT_MAX = 31
_TICK_AT, _HASH_AT = 2, 11  # The words of a head, each after a byte UINT64.
_EXTENSION_STARTS = frozenset(bytes([one]) for one in b"\xc7\xc8\xc9\xd4\xd5\xd6\xd7\xd8")  # By MessagePack.
_COMES_BEFORE_TYPE = np.zeros(256, np.bool_)
_COMES_BEFORE_TYPE[[*BEFORE_TIMESTAMP]] = True

_NO_SEAMS: Mapping[int, int] = MappingProxyType({})

_Bytes = npt.NDArray[np.uint8]


@attrs.frozen(eq=False)
class NumberInputs:
    """The inputs of consecutive ticks, most of which are whole numbers from 0 to 127.

    Attributes:
        key: of the map in which each number is; "" for numbers alone.
        numbers: int64, one for each tick; 0 where the inputs are among the others.
        others: the decoded inputs of the other ticks, by their index; the caller owns them.
    """

    key: str
    numbers: npt.NDArray[np.int64]
    others: dict[int, Any]

    def inputs(self) -> list[Any]:
        """The inputs of each tick, as plain data."""
        made: list[Any] = self.numbers.tolist()
        if self.key:
            made = [{self.key: number} for number in made]
        for index, inputs in self.others.items():
            made[index] = inputs
        return made

    def inputs_at(self, index: int) -> Any:
        """The inputs of one tick."""
        if index in self.others:
            return self.others[index]
        number = int(self.numbers[index])
        return {self.key: number} if self.key else number

    def cut(self, start: int, stop: int) -> NumberInputs:
        """The inputs of some of the ticks."""
        others = {index - start: inputs for index, inputs in self.others.items() if start <= index < stop}
        return NumberInputs(self.key, self.numbers[start:stop], others)


def unpack_numbers(
    payload: bytes, first_tick: int, tick_count: int, seams: Mapping[int, int] = _NO_SEAMS
) -> tuple[npt.NDArray[np.uint64], NumberInputs] | None:
    """The state hashes and the inputs of frames that are mostly small whole numbers; None for any other frames.

    seams: where the payloads of several blocks were put together: by offset, the number of frames before it.
    """
    second = payload.find(payload[:_TICK_AT], HEAD_BYTES) + HEAD_BYTES
    if not any(payload[at : at + 1] <= bytes([_MAP_OF_1]) for at in (HEAD_BYTES, second)):
        return None
    data = np.frombuffer(payload, np.uint8)
    starts = _starts(data, first_tick, tick_count)
    if starts is None or any(starts[frames] != offset for offset, frames in seams.items()):
        return None
    bodies, ends = starts + HEAD_BYTES, np.append(starts[1:], len(data))
    sizes = ends - bodies
    if sizes.min() < 1:
        return None
    size = int(np.bincount(sizes).argmax())
    same = np.flatnonzero(sizes == size)
    before = payload[bodies[same[0]] : ends[same[0]] - 1]
    rows = _pieces(data, bodies[same], size).view(np.uint8).reshape(-1, size)
    is_number = (rows[:, -1] <= _FIXED_MAX) & (rows[:, :-1] == rows[0, :-1]).all(axis=1)
    same = same[is_number]
    if 2 * len(same) <= tick_count:
        return None
    is_other = np.ones(tick_count, np.bool_)
    is_other[same] = False
    others = np.flatnonzero(is_other).tolist()
    try:
        key = _key_of(before)
        values = _decode_each([payload[bodies[index] : ends[index]] for index in others])
    except DECODE_ERRORS:
        return None
    numbers = np.zeros(tick_count, np.int64)
    numbers[same] = rows[is_number, -1]
    return _words(data, starts + _HASH_AT), NumberInputs(key, numbers, dict(zip(others, values, strict=True)))


def _key_of(before: bytes) -> str:
    """The key of a map of one number, from what is before the number; "" if nothing is. Raises ValueError for anything else."""
    if not before:
        return ""
    size = len(before) - 2
    if not 0 < size <= _SHORT_MAX or before[:2] != bytes([_MAP_OF_1, _SHORT_TEXT + size]):
        raise ValueError
    return before[2:].decode()


def _decode_each(pieces: list[bytes]) -> list[Any]:
    """Decode pieces, each of exactly one value. Raises one of DECODE_ERRORS for any others."""
    joined = b"".join(pieces)
    unpacker, values, end = make_unpacker(joined), [], 0
    for piece in pieces:
        values.append(unpacker.unpack())
        end += len(piece)
        if unpacker.tell() != end:
            raise ValueError
    if joined and _may_hold_timestamp(joined):
        refuse_timestamp(values, joined)
    return values


def unpack_block(payload: bytes, first_tick: int, tick_count: int) -> tuple[list[int], list[Any]] | None:
    """The state hashes and the decoded inputs of the frames of a block; None if they need the closer look of decode_frames.

    Several times as fast as frames.
    """
    try:
        found = _decode_arrays(payload, first_tick, tick_count) if _begins_with_array(payload) else None
        if found is not None:
            return found
        frames = list(make_unpacker(payload))
        if {*map(type, frames)} != {list}:
            return None
        if {*map(len, frames)} != {3}:
            frames = [frame[:3] for frame in frames]
        ticks, hashes, inputs = map(list, zip(*frames, strict=True))
        if _may_hold_timestamp(payload):
            refuse_timestamp(inputs, payload)
    except DECODE_ERRORS:
        return None
    is_regular = ticks == list(range(first_tick, first_tick + tick_count)) and {*map(type, ticks + hashes)} == {int}
    return (hashes, inputs) if is_regular and min(hashes) >= 0 else None


def _may_hold_timestamp(payload: bytes) -> bool:
    """Return False if no two bytes of the payload are those of a timestamp: most blocks have bytes 0xFF, in hashes."""
    data = np.frombuffer(payload, np.uint8)
    return bool(_COMES_BEFORE_TYPE[data[np.flatnonzero(data[1:] == TIMESTAMP_TYPE)]].any())


def _begins_with_array(payload: bytes) -> bool:
    """Return True if the first or the second body may be an array: the first one is often a reset."""
    second = payload.find(payload[:_TICK_AT], HEAD_BYTES)
    return any(payload[at : at + 1] in _EXTENSION_STARTS for at in (HEAD_BYTES, second + HEAD_BYTES))


def _decode_arrays(payload: bytes, first_tick: int, tick_count: int) -> tuple[list[int], list[Any]] | None:
    """The state hashes and the inputs of frames that are mostly arrays; None for any other frames.

    Raises ValueError for inputs that cannot be decoded.
    """
    data = np.frombuffer(payload, np.uint8)
    starts = _starts(data, first_tick, tick_count)
    if starts is None:
        return None
    bodies = starts + HEAD_BYTES
    ends = np.append(starts[1:], len(data))
    sizes = ends - bodies
    if sizes.min() < 1:
        return None
    size = int(np.bincount(sizes).argmax())
    same = np.flatnonzero(sizes == size)
    value = decode_plain(payload[bodies[same[0]] : ends[same[0]]])
    if type(value) is not np.ndarray or not value.ndim or not value.nbytes:
        return None
    rows = _pieces(data, bodies[same], size).view(np.uint8).reshape(-1, size)
    around = rows[:, : size - value.nbytes]
    is_alike = (around == around[0]).all(axis=1)
    same = same[is_alike]
    if 2 * len(same) <= tick_count:
        return None
    numbers = np.ascontiguousarray(rows[is_alike, size - value.nbytes :]).view(value.dtype)
    inputs: list[Any] = [None] * tick_count
    for index, numbers_of_one in zip(same.tolist(), numbers.reshape(-1, *value.shape), strict=True):
        inputs[index] = numbers_of_one.copy()  # Not a view of memory that others see.
    for index in np.setdiff1d(np.arange(tick_count), same).tolist():
        inputs[index] = decode_plain(payload[bodies[index] : ends[index]])
    return _words(data, starts + _HASH_AT).tolist(), inputs


def _starts(data: _Bytes, first_tick: int, tick_count: int) -> npt.NDArray[np.int64] | None:
    """The offsets of the frames; None unless each has a head of three elements with its tick and a hash."""
    count = len(data) - HEAD_BYTES + 1
    heads = np.flatnonzero(data[: max(0, count)] == ARRAY_OF_3)
    heads = heads[(data[heads + _TICK_AT - 1] == UINT64) & (data[heads + _HASH_AT - 1] == UINT64)]
    distances = _words(data, heads + _TICK_AT) - np.uint64(first_tick)
    heads = heads[distances < tick_count]
    is_regular = len(heads) == tick_count > 0 and heads[0] == 0
    return heads if is_regular and np.array_equal(distances[distances < tick_count], np.arange(tick_count)) else None


def _words(data: _Bytes, offsets: npt.NDArray[np.int64]) -> npt.NDArray[np.uint64]:
    """The big-endian words at these offsets."""
    return _pieces(data, offsets, 8).view(">u8").astype(np.uint64)


def _pieces(data: _Bytes, offsets: npt.NDArray[np.int64], size: int) -> npt.NDArray[np.void]:
    """The pieces of this size at these offsets, none of which ends after the data: each is copied at once."""
    at_all_offsets = np.ndarray((max(0, len(data) - size + 1),), f"V{size}", data, strides=(1,))
    return at_all_offsets[offsets]
