"""Corruption: what the simplest payloads become, and what holds for any plain data."""

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
        ({"fixed": UINT_MAX}, {"fixed": INT_MIN}),  # That is no Q32.32.
        ({"vector": [-5, 3]}, {"vector": [5, 3]}),
        ({"vector": [0, 3]}, {"vector": [0, -3]}),
        ({"vector": [5, "x"]}, {"vector": [6, "x"]}),  # Nor that.
    ],
)
def test_what_becomes_of_it(payload: Any, expected: Any) -> None:
    """One more, the other one, the other sign, a prefix; the first of a list, the last of a table."""
    found = corrupt(payload)

    assert found == expected
    assert type(found) is type(expected)


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
    """Whole numbers wrap in their own width; dtype, shape and the other elements stay."""
    array = np.array([values], dtype)
    found = corrupt(array)

    assert (found.dtype, found.shape) == (array.dtype, (1, 2))
    assert found[0].tolist() == [first, values[1]]
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
    """The types in a value, and of which size its containers are."""
    match value:
        case np.ndarray() | np.generic():
            return (type(value), value.dtype, value.shape)
        case list() | tuple():
            return (type(value), [shape_of(one) for one in value])
        case dict():
            return (dict, [(key, shape_of(one)) for key, one in value.items()])
    return type(value)


def fixed(value: dict[Any, Any]) -> bool:
    """Whether it is a number in fixed point or a list of some."""
    numbers = [value["fixed"]] if set(value) == {"fixed"} else value.get("vector") if set(value) == {"vector"} else None
    return isinstance(numbers, list) and all(type(n) is int and INT_MIN <= n <= INT_MAX for n in numbers)


def can_be_corrupted(value: Any) -> bool:
    """Whether there is anything in it but nothing."""
    match value:
        case None:
            return False
        case np.ndarray():
            return value.size > 0
        case list() | tuple():
            return any(map(can_be_corrupted, value))
        case {"fixed": number} if fixed(value):
            return number != 0
        case {"vector": numbers} if fixed(value):
            return any(numbers)
        case dict():
            return any(map(can_be_corrupted, value.values()))
    return True


@settings(max_examples=100)
@given(PLAIN)
def test_for_any_plain_data(payload: Any) -> None:
    """The type stays, the value changes where it can, always in the same way; the payload is not touched."""
    before, untouched = encode_plain(payload), copy.deepcopy(payload)
    found = corrupt(payload)

    assert shape_of(found) == shape_of(payload)
    assert (encode_plain(found) != before) == can_be_corrupted(payload)
    assert (found is payload) != can_be_corrupted(payload)
    assert encode_plain(corrupt(untouched)) == encode_plain(found)
    assert encode_plain(payload) == before


@pytest.mark.parametrize("payload", [{"fixed": 0}, {"vector": []}, {"vector": [0, 0]}])
def test_nothing_has_no_sign(payload: Any) -> None:
    """What cannot become anything else is given back itself, so that it costs no budget."""
    assert corrupt(payload) is payload


def test_no_array_is_shared() -> None:
    """Writing to the array that was corrupted writes to the copy alone."""
    array = np.arange(3)
    found = corrupt([array])
    found[0][:] = 9

    assert array.tolist() == [0, 1, 2]
