"""Sets get any order of their elements, and stay sets."""

from __future__ import annotations

import random
from typing import Any

import pytest

from sim.kernel.sets.given_order import give_order


class Thing:
    """Hashes by its memory address."""


@pytest.mark.parametrize("count", [1, 2, 3, 8, 20])
@pytest.mark.parametrize("make", [lambda _: Thing(), str, float, lambda number: number * 128])
def test_a_set_iterates_in_the_given_order(count: int, make: Any) -> None:
    """Before and after changes it holds what a set holds; elements that collide included."""
    value = {make(number) for number in range(count)}
    elements = random.sample(list(value), count)
    assert give_order(value, elements)
    assert all(a is b for a, b in zip(value, elements, strict=True))
    assert all(one in value for one in elements)
    value.remove(elements[0])
    value.add("other")
    assert value == {*elements[1:], "other"}
    assert elements[0] not in value


def test_a_set_that_is_too_large_or_empty_stays_as_it_is() -> None:
    """No table of a bearable size has these in any order."""
    large = {Thing() for _ in range(2000)}
    before = list(large)
    assert not give_order(large, before[::-1])
    assert list(large) == before
    assert not give_order(set(), [])
