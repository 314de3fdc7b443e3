"""Frames of the page, decoded here by a plain reader of the bytes that the module's docstring states."""

from __future__ import annotations

import math
import struct
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from replayer.view.states.frame_encoding import (
    bounds_of,
    encode_difference,
    encode_head,
    encode_picture,
    encode_points,
    encode_values,
)


def grid(values: list[Any]) -> np.ndarray[Any, Any]:
    return np.array(values).reshape(1, -1)


SAME_KIND = st.one_of(
    st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=12).map(lambda v: grid([np.int64(x) for x in v])),
    st.lists(st.floats(width=64), min_size=1, max_size=12).map(grid),
    st.lists(st.integers(0, 3), min_size=1, max_size=12).map(lambda v: grid([np.uint8(x) for x in v])),
)


def read_layer(encoded: bytes) -> tuple[int, int, int, int, int, float, float, bytes]:
    """Number, kind, steps, width, height, low, high, codes; the size is a multiple of eight."""
    number, kind, steps, width, height, size, low, high = struct.unpack_from("<HBBIIIdd", encoded)
    assert len(encoded) % 8 == 0
    assert 0 <= len(encoded) - 32 - size < 8
    return number, kind, steps, width, height, low, high, encoded[32 : 32 + size]


def test_a_head_has_the_stated_bytes() -> None:
    """Literally."""
    assert encode_head(1, 5, 2, 7, 2**40, 3, 0xFEDCBA9876543210).hex() == (
        "01010502" + "07000000" + "0000000000010000" + "0300000000000000" + "1032547698badcfe"
    )


@given(SAME_KIND)
def test_values_are_decoded_within_half_a_step(array: np.ndarray[Any, Any]) -> None:
    """Values that are not finite have a byte above steps, and only the lowest value has byte 0."""
    number, kind, steps, width, height, low, high, codes = read_layer(encode_values(9, array))

    assert (number, kind, height, width) == (9, 0, 1, array.shape[1])
    finite = [value for value in array[0].tolist() if math.isfinite(value)]
    assert (low, high) == ((float(min(finite)), float(max(finite))) if finite else (0.0, 0.0))
    for value, code in zip(array[0].tolist(), codes, strict=True):
        if not math.isfinite(value):
            assert code > steps
            continue
        assert code <= steps
        assert (code == 0) == (value == min(finite))
        step = (Fraction(high) - Fraction(low)) / steps
        error = abs(Fraction(low) + code * step - Fraction(value))
        # The least value above the lowest may be moved up to the first step; integers beyond 2**53 are rounded.
        assert error <= step * (1 if code == 1 else Fraction(501, 1000)) + abs(Fraction(value)) / 2**50


@given(SAME_KIND, st.data())
def test_in_a_difference_128_means_equal_and_nothing_else(one: np.ndarray[Any, Any], data: st.DataObject) -> None:
    """Also for differences that floats of 64 bits round away, and for NaN in both."""
    order = data.draw(st.permutations(range(one.shape[1])))
    other = one[:, order]
    _, kind, steps, _, _, low, high, codes = read_layer(encode_difference(0, one, other))

    assert (kind, low) == (2, -high)
    for left, right, code in zip(one[0].tolist(), other[0].tolist(), codes, strict=True):
        is_equal = left == right or (left != left and right != right)  # noqa: PLR0124
        assert (code == 128) == is_equal
        change = right - left
        if not is_equal and math.isfinite(change):
            assert code <= steps
            assert (code > 128) == (right > left)
            assert abs((code - 128) / 126 * high - change) <= high * 1.001 / 126 + abs(change) * 1e-9


def test_one_cell_that_differs_by_one_is_seen_among_many() -> None:
    """In a field of 512 * 512 large values."""
    one = np.full((512, 512), 2**60, np.int64)
    other = one.copy()
    other[300, 200] += 1

    codes = np.frombuffer(read_layer(encode_difference(0, one, other))[-1], np.uint8).reshape(512, 512)

    assert np.argwhere(codes != 128).tolist() == [[300, 200]]


def test_a_picture_and_points_are_sent_as_they_are() -> None:
    """Red, green, blue by rows; x and y as floats."""
    picture = np.arange(24, dtype=np.uint8).reshape(2, 4, 3)
    number, kind, _, width, height, _, _, codes = read_layer(encode_picture(3, picture))
    assert (number, kind, width, height, codes) == (3, 1, 4, 2, bytes(range(24)))

    sized = encode_points(2, np.array([[0.5, 1.25, 7.0]]))
    assert sized == struct.pack("<IIfff", 2, 1, 0.5, 1.25, 7.0)
    assert encode_points(2, np.array([[0.5, 1.25]]))[:16] == struct.pack("<IIff", 2, 1, 0.5, 1.25)
    assert np.isnan(struct.unpack_from("<f", encode_points(2, np.array([[0.5, 1.25]])), 16)[0])


@pytest.mark.parametrize("values", [[True, False], [0, 0, 0], [math.nan, math.nan]])
def test_maps_of_one_value_or_none_are_encoded(values: list[Any]) -> None:
    """Booleans, equal values, nothing finite."""
    _, _, steps, _, _, low, high, codes = read_layer(encode_values(0, grid(values)))
    if low == high == 0.0 and any(value != value for value in values):  # noqa: PLR0124
        assert all(code > steps for code in codes)
    else:
        assert list(codes) == [1 if value else 0 for value in values]


def test_the_difference_of_two_pictures_is_the_greatest_of_a_colour() -> None:
    draw = np.random.default_rng(3)
    one = draw.integers(0, 256, (5, 4, 3)).astype(np.uint8)
    other = one.copy()
    other[1, 2] = (one[1, 2].astype(int) + np.array([7, 100, 255])) % 256
    encoded = encode_difference(0, one, other)
    _, kind, _, width, height, size, _, high = struct.unpack_from("<HBBIIIdd", encoded)
    assert (kind, width, height) == (2, 4, 5)
    codes = np.frombuffer(encoded, np.uint8, size, 32).reshape(5, 4)
    assert np.argwhere(codes != 128).tolist() == [[1, 2]]
    assert high == max(abs(int(a) - int(b)) for a, b in zip(one[1, 2], other[1, 2], strict=True))


def test_the_bounds_of_an_encoded_map_are_its_lowest_and_highest_value() -> None:
    """Whatever is not finite is left out; a picture, a difference and a layer that a tick lacks have none."""
    values = np.array([[3.0, -2.5], [np.nan, 7.0]])
    assert bounds_of(encode_values(0, values)) == (-2.5, 7.0)
    assert bounds_of(encode_picture(0, np.zeros((2, 2, 3), np.uint8))) is None
    assert bounds_of(encode_difference(0, values, values)) is None
    assert bounds_of(b"") is None


@pytest.mark.parametrize(
    ("values", "steps", "codes"),
    [
        (np.array([[3, 5, 4]], np.uint8), 2, b"\0\2\1"),
        (np.array([[False, True]]), 1, b"\0\1"),
        (np.array([[-7, -7]], np.int64), 1, b"\0\0"),
        (np.array([[-100, 153]], np.int16), 253, b"\0\xfd"),
        (np.array([[-100, 154]], np.int16), 255, b"\0\xff"),  # Too far apart to be exact.
        (np.array([[0.0, 1.0]]), 255, b"\0\xff"),
    ],
)
def test_whole_numbers_that_lie_close_together_are_exact(values: Any, steps: int, codes: bytes) -> None:
    """Their bytes are how far they are above the lowest, and steps is how far the highest is."""
    found = read_layer(encode_values(0, values))
    assert (found[2], found[7]) == (steps, codes)
