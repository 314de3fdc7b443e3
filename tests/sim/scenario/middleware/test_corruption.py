"""Corruption of simple payloads by example, and of any plain data by property."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from sim.kernel.plain_data import encode_plain
from sim.scenario.middleware.corruption import corrupt

INT_MIN, INT_MAX, UINT_MAX = -(1 << 63), (1 << 63) - 1, (1 << 64) - 1


@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        (True, False),
        (False, True),
        (0, 1),
        (-1, 0),
        (INT_MAX, INT_MIN),
        (INT_MIN, INT_MIN + 1),
        (UINT_MAX, INT_MIN),
        (1.5, -1.5),
        ("yes", "corrupted:yes"),
        ("", "corrupted:"),
        (b"\0", b"corrupted:\0"),
        (None, None),
        ([], []),
        ({}, {}),
        ([1, 2], [2, 2]),
        ((1, 2), (2, 2)),
        ([None, [], 5, 6], [None, [], 6, 6]),
        ([[None, 1], 2], [[None, 2], 2]),
        ({"kind": "eat", "n": 1}, {"kind": "eat", "n": 2}),
        ({"kind": "eat", "to": None}, {"kind": "corrupted:eat", "to": None}),
        ({"kind": "go", "at": [3, 4]}, {"kind": "go", "at": [4, 4]}),
        ({"fixed": 5}, {"fixed": -5}),
        ({"fixed": INT_MIN}, {"fixed": INT_MAX}),
        ({"fixed": True}, {"fixed": False}),
        ({"fixed": UINT_MAX}, {"fixed": INT_MIN}),  # Not a Q32.32 number.
        ({"vector": [-5, 3]}, {"vector": [5, 3]}),
        ({"vector": [0, 3]}, {"vector": [0, -3]}),
        ({"vector": [5, "x"]}, {"vector": [6, "x"]}),  # Not a vector.
    ],
)
def test_corruption_by_type(payload: Any, expected: Any) -> None:
    """Plus one, negation, the opposite sign, a prefix; the first element of a list, the last value of a table."""
    corrupted = corrupt(payload)

    assert corrupted == expected
    assert type(corrupted) is type(expected)


@pytest.mark.parametrize(
    ("dtype", "values", "first"),
    [
        ("?", [True, True], False),
        ("i1", [127, 3], -128),
        ("u1", [255, 3], 0),
        ("u8", [UINT_MAX, 0], 0),
        ("i8", [INT_MAX, 0], INT_MIN),
        ("f4", [0.5, 2], -0.5),
        ("c8", [1 + 2j, 0], -1 - 2j),
    ],
)
def test_the_first_of_an_array(dtype: str, values: list[Any], first: Any) -> None:
    """Integers wrap at their width; dtype, shape and the other elements stay."""
    array = np.array([values], dtype)
    corrupted = corrupt(array)

    assert (corrupted.dtype, corrupted.shape) == (array.dtype, (1, 2))
    assert corrupted[0].tolist() == [first, values[1]]
    number = corrupt(array[0, 0])
    assert (type(number), number) == (type(array[0, 0]), first)


PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(INT_MIN, UINT_MAX)
    | st.floats()
    | st.text(max_size=3)
    | st.binary(max_size=3)
    | arrays.arrays(
        st.sampled_from(["?", "i1", "u8", "f4", "c16"]), arrays.array_shapes(min_dims=0, min_side=0, max_side=3)
    ),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.text(max_size=2) | st.integers(0, 9), inner, max_size=3)
    ),
    max_leaves=8,
)


def shape_of(value: Any) -> Any:
    """The types in a value, and the sizes of its containers."""
    match value:
        case np.ndarray() | np.generic():
            return (type(value), value.dtype, value.shape)
        case list() | tuple():
            return (type(value), [shape_of(item) for item in value])
        case dict():
            return (dict, [(key, shape_of(item)) for key, item in value.items()])
    return type(value)


def is_fixed_point(value: dict[Any, Any]) -> bool:
    """Return True for a fixed-point number or a vector of them."""
    numbers = [value["fixed"]] if set(value) == {"fixed"} else value.get("vector") if set(value) == {"vector"} else None
    return isinstance(numbers, list) and all(type(n) is int and INT_MIN <= n <= INT_MAX for n in numbers)


def can_be_corrupted(value: Any) -> bool:
    """Return True if any part of a value can change."""
    match value:
        case None:
            return False
        case np.ndarray():
            return value.size > 0
        case list() | tuple():
            return any(map(can_be_corrupted, value))
        case {"fixed": number} if is_fixed_point(value):
            return number != 0
        case {"vector": numbers} if is_fixed_point(value):
            return any(numbers)
        case dict():
            return any(map(can_be_corrupted, value.values()))
    return True


@settings(max_examples=100)
@given(PLAIN)
def test_for_any_plain_data(payload: Any) -> None:
    """The type stays, the value changes if it can, deterministically; the payload itself stays unchanged."""
    before, untouched = encode_plain(payload), copy.deepcopy(payload)
    corrupted = corrupt(payload)

    assert shape_of(corrupted) == shape_of(payload)
    assert (encode_plain(corrupted) != before) == can_be_corrupted(payload)
    assert (corrupted is payload) != can_be_corrupted(payload)
    assert encode_plain(corrupt(untouched)) == encode_plain(corrupted)
    assert encode_plain(payload) == before


@pytest.mark.parametrize("payload", [{"fixed": 0}, {"vector": []}, {"vector": [0, 0]}])
def test_zero_cannot_be_negated(payload: Any) -> None:
    """A payload that cannot change is returned itself, and costs no budget."""
    assert corrupt(payload) is payload


def test_no_array_is_shared() -> None:
    """Writing to the corrupted array does not write to the original."""
    array = np.arange(3)
    corrupted = corrupt([array])
    corrupted[0][:] = 9

    assert array.tolist() == [0, 1, 2]
