"""Many lists of tuples of numbers have the digest that they have one by one."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest

from sim.adapters.capture.digest import value_digest
from sim.adapters.capture.digest.tuple_lists import FLOATS_MAX, INTEGERS_MAX, tokens_of_lists
from sim.adapters.capture.digest.value_digest import ValueSubject, digest_values

CHANCE = random.Random(3)
FLOATS = [0.0, -0.0, 1.5, math.inf, math.nan, 1e-320, *(CHANCE.gauss(0, 9) for _ in range(20))]
INTEGERS = [0, -1, 255, 1 << 40, (1 << 63) - 1, -(1 << 63), *(CHANCE.randrange(-99, 99) for _ in range(20))]
LONGEST = [-(1 << 63), 1 - (1 << 63)]  # The texts of these take the most bytes.


def lists_of(numbers: list[Any], size: int) -> list[list[tuple[Any, ...]]]:
    """Lists of 0 to 5 tuples."""
    return [[tuple(CHANCE.choices(numbers, k=size)) for _ in range(length)] for length in (3, 0, 1, 2, 5, 1, 0)]


def digest(value: Any) -> bytes:
    """The digest of one value."""
    return digest_values(ValueSubject({"it": value})).digest


@pytest.mark.parametrize("size", range(1, FLOATS_MAX + 2))
@pytest.mark.parametrize(
    ("numbers", "size_max"),
    [(FLOATS, FLOATS_MAX), (INTEGERS, INTEGERS_MAX), (LONGEST, INTEGERS_MAX)],
    ids=["floats", "integers", "longest"],
)
def test_the_digest_is_that_of_one_by_one(
    size: int, numbers: list[Any], size_max: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    lists = lists_of(numbers, size)
    assert (tokens_of_lists(lists) is None) is (size > size_max)
    at_once = digest([*lists, "end", [1], *lists])
    monkeypatch.setattr(value_digest, "_LISTS_MIN", 1 << 30)
    assert digest([*lists, "end", [1], *lists]) == at_once


@pytest.mark.parametrize(
    "odd",
    [[(1, 2), (3,)], [(1, 2.0)], [(True, 2)], [(1, 1 << 63)], [[1, 2]], [(1, [])], [()], [], [(1, "a")], [(1, None)]],
)
def test_other_lists_are_left_to_the_walk(odd: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    lists = [[(1, 2)], odd, [(5, 6)], [(7, 8)]]
    assert (tokens_of_lists(lists) is None) is (odd != [])
    at_once = digest(lists)
    monkeypatch.setattr(value_digest, "_LISTS_MIN", 1 << 30)
    assert digest(lists) == at_once


def test_one_bit_of_one_number_is_another_digest() -> None:
    lists = [[(0.0, 1.0), (0.1, 0.2)] for _ in range(6)]
    before = digest(lists)
    for changed in ((-0.0, 1.0), (0.0, math.nextafter(1.0, 2.0)), (0, 1)):
        lists[4][0] = changed
        assert digest(lists) != before
