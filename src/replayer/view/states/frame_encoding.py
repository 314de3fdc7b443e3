"""Encode what the page shows of one tick: maps as 8-bit values with their range, pictures, points.

Bytes out: no sockets, no clock. The page decodes them in page/wire.js.

Layout, little-endian:
    head    kind u8 (1) | side u8 | flags u8 | layer count u8 | request u32 | tick asked u64 | tick shown u64 | hash u64
    layer   number u16 | kind u8 | steps u8 | width u32 | height u32 | size u32 | lowest f64 | highest f64
            | size bytes, padded to 8
    points  kind u32 | count u32 | count * (x f32, y f32, size f32), places in cells; a size that is NaN is none

Invariants:
    1. A value of a map is lowest + byte * (highest - lowest) / steps, wrong by at most half a step.
    2. What is greater than the lowest value never becomes byte 0: nothing and hardly anything look different.
    3. In a difference, byte 128 means equal and nothing else. The others are (byte - 128) / 126 * highest.
    4. A byte above steps stands for a value that is not finite. Without such values, steps is 255, or:
    5. Of integers and booleans that are at most 253 apart, steps is how far they are apart, at least 1: the bytes are exact.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

import attrs
import numpy as np
import numpy.typing as npt

FRAME = 1  # The first byte of a message.
VALUES, PICTURE, DIFFERENCE = 0, 1, 2  # Kinds of layers.
WHOLE_STEPS_MAX = 253  # Steps that no layer of other values has.
PREVIEW, CACHED, OTHER_TICK, HEAD = 1, 2, 4, 8  # Flags of a frame.
EQUAL, DIFFERENCE_STEPS, NOT_FINITE = 128, 126, 255

_HEAD = struct.Struct("<BBBBIQQQ")
_LAYER = struct.Struct("<HBBIIIdd")
_POINTS = struct.Struct("<II")
assert _HEAD.size == 32
assert _LAYER.size == 32

Array = npt.NDArray[Any]


@attrs.frozen
class EncodedTick:
    """All that is shown of one tick, as it is kept and sent.

    Attributes:
        shown: the tick of the state: another one if only states of keyframes are available.
        state_hash: hash of that state.
        layers: the encoded layers by name.
        points: the encoded points of all kinds.
        exact: the values of the layers by name, for differences; empty without a comparison.
    """

    shown: int
    state_hash: int
    layers: Mapping[str, bytes]
    points: bytes
    exact: Mapping[str, Array]

    @property
    def size_bytes(self) -> int:
        """The memory that it takes, about."""
        encoded = sum(map(len, self.layers.values())) + len(self.points)
        return encoded + sum(array.nbytes for array in self.exact.values()) + 400  # The objects around them.


def encode_head(
    side: int, flags: int, layer_count: int, request: int, asked: int, shown: int, state_hash: int
) -> bytes:
    """The head of a frame's message."""
    return _HEAD.pack(FRAME, side, flags, layer_count, request & 0xFFFFFFFF, asked, shown, state_hash)


def encode_values(number: int, values: Array) -> bytes:
    """One map. values: (height, width), boolean, integers or floats of any range."""
    array = np.asarray(values)
    known = np.isfinite(array)
    steps = 255 if known.all() else 254
    inside = array[known]
    if not inside.size:
        return _layer(number, VALUES, steps, array, np.full(array.shape, NOT_FINITE, np.uint8), 0.0, 0.0)
    lowest, highest = inside.min(), inside.max()
    if array.dtype.kind in "biu" and int(highest) - int(lowest) <= WHOLE_STEPS_MAX:
        steps = max(1, int(highest) - int(lowest))
    codes = np.zeros(array.shape, np.uint8)
    if highest > lowest:
        share = _share(np.where(known, array, lowest), lowest, highest)
        codes = np.maximum(np.rint(share * steps), known & (array > lowest)).astype(np.uint8)
    codes[~known] = NOT_FINITE
    return _layer(number, VALUES, steps, array, codes, float(lowest), float(highest))


def _share(array: Array, lowest: Any, highest: Any) -> npt.NDArray[np.float64]:
    """Where each value is between two, from 0.0 to 1.0; also for integers and ranges that floats cannot hold."""
    if array.dtype.kind in "iu":
        above = array.astype(np.uint64) - np.uint64(int(lowest) % 2**64)  # Exact: it wraps around twice.
        return above.astype(np.float64) / float(int(highest) - int(lowest))
    values, low, high = array.astype(np.float64), float(lowest), float(highest)
    if not np.isfinite(high - low):
        values, low, high = values / 2, low / 2, high / 2
    share: npt.NDArray[np.float64] = (values - low) / (high - low)
    return share


def encode_picture(number: int, picture: Array) -> bytes:
    """One picture. picture: (height, width, 3) uint8, red, green and blue; a fourth, how opaque it is, is not shown."""
    return _layer(number, PICTURE, 255, picture, np.ascontiguousarray(picture[..., :3], np.uint8), 0.0, 255.0)


def encode_difference(number: int, one: Array, other: Array) -> bytes:
    """The map of other - one, both (height, width); cells that are NaN in both are equal.

    Of two pictures, (height, width, 3 or 4), the greatest change of a colour at each pixel.
    """
    if one.ndim == 3:
        change_of_colours = np.abs(other.astype(np.int16) - one.astype(np.int16)).max(axis=2)
        one, other = np.zeros_like(change_of_colours), change_of_colours
    differs = (one != other) & ~((one != one) & (other != other))  # noqa: PLR0124 - NaN alone is not itself
    with np.errstate(invalid="ignore", over="ignore"):
        change = other.astype(np.float64) - one.astype(np.float64)
    finite = np.isfinite(change)
    top = float(np.abs(change[finite & differs]).max(initial=0.0)) or 1.0
    codes = EQUAL + np.rint(np.where(finite, change, 0.0) / top * DIFFERENCE_STEPS).astype(np.int16)
    sign = np.where(other > one, 1, -1)
    codes = np.where(codes == EQUAL, EQUAL + sign, codes)
    codes = np.where(finite, codes, NOT_FINITE)
    codes = np.where(differs, codes, EQUAL).astype(np.uint8)
    return _layer(number, DIFFERENCE, 254, one, codes, -top, top)


def encode_points(kind: int, points: Array) -> bytes:
    """Positions of one kind of thing. points: (count, 2) or (count, 3), x to the right and y down, in cells, and the size."""
    rows = np.full((len(points), 3), np.nan, "<f4")
    rows[:, : points.shape[1]] = points
    return _POINTS.pack(kind, len(points)) + rows.tobytes()


def bounds_of(layer: bytes) -> tuple[float, float] | None:
    """The lowest and the highest value of an encoded map; None of a picture, a difference, or a layer that a tick lacks."""
    if len(layer) < _LAYER.size:
        return None
    _, kind, *_, low, high = _LAYER.unpack_from(layer)
    return (low, high) if kind == VALUES else None


def _layer(number: int, kind: int, steps: int, array: Array, codes: Array, low: float, high: float) -> bytes:
    payload = codes.tobytes()
    head = _LAYER.pack(number, kind, steps, array.shape[1], array.shape[0], len(payload), low, high)
    return head + payload + bytes(-len(payload) % 8)
