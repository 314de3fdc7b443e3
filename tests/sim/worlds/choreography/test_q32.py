"""Q32.32 against exact fractions, limits included."""

from __future__ import annotations

import math
import re
from fractions import Fraction

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sim.worlds.choreography.q32 import (
    HIGHEST,
    LOWEST,
    ONE,
    add,
    divide,
    multiply,
    read_decimal,
    saturate,
    square_root,
    subtract,
    tanh,
    to_text,
)

EDGES = (LOWEST, LOWEST + 1, -ONE, -1, 0, 1, ONE, HIGHEST - 1, HIGHEST)
NUMBERS = st.one_of(st.sampled_from(EDGES), st.integers(LOWEST, HIGHEST), st.integers(-8 * ONE, 8 * ONE))


def fitted(exact: Fraction) -> int:
    """An exact result in units, truncated towards zero and clamped to 64 bits."""
    return max(LOWEST, min(HIGHEST, math.trunc(exact * ONE)))


@given(NUMBERS, NUMBERS)
@example(LOWEST, LOWEST)
@example(LOWEST, -1)
@example(LOWEST, -ONE)
@example(HIGHEST, HIGHEST)
def test_the_four_operations_are_the_exact_ones_truncated(left: int, right: int) -> None:
    """Sums, differences, products and quotients of any two numbers."""
    exact_left, exact_right = Fraction(left, ONE), Fraction(right, ONE)
    assert add(left, right) == fitted(exact_left + exact_right)
    assert subtract(left, right) == fitted(exact_left - exact_right)
    assert multiply(left, right) == fitted(exact_left * exact_right)
    if right:
        assert divide(left, right) == fitted(exact_left / exact_right)


def test_results_saturate_at_the_limits() -> None:
    """At the limit and one unit beyond it, and divisions by zero."""
    assert (saturate(HIGHEST), saturate(HIGHEST + 1)) == (HIGHEST, HIGHEST)
    assert (saturate(LOWEST), saturate(LOWEST - 1)) == (LOWEST, LOWEST)
    assert (add(HIGHEST, 1), subtract(LOWEST, 1), multiply(LOWEST, -ONE)) == (HIGHEST, LOWEST, HIGHEST)
    assert (divide(1, 0), divide(-1, 0), divide(0, 0)) == (HIGHEST, LOWEST, 0)


@given(NUMBERS, NUMBERS)
def test_a_product_of_the_negative_is_the_negative_product(left: int, right: int) -> None:
    """One role therefore gains exactly the amount that its peer loses."""
    if -left <= HIGHEST and abs(multiply(left, right)) <= HIGHEST and multiply(left, right) != HIGHEST:
        assert multiply(-left, right) == -multiply(left, right)


@given(NUMBERS)
@example(HIGHEST)
@example(1)
def test_square_roots_are_exact_after_16_steps(value: int) -> None:
    """The result equals math.isqrt of the wide number, which uses a different method."""
    assert square_root(value) == (math.isqrt(value << 32) if value > 0 else 0)


@given(NUMBERS)
def test_tanh_is_its_fraction(value: int) -> None:
    """x(27 + x²) / (27 + 9x²) within three units, odd, bounded, and ±1 from 3 on."""
    x = Fraction(value, ONE)
    exact = x * (27 + x * x) / (27 + 9 * x * x) if abs(x) < 3 else Fraction(1 if x > 0 else -1)
    assert abs(Fraction(tanh(value), ONE) - exact) <= Fraction(3, ONE)
    assert abs(tanh(value)) <= ONE
    if value > LOWEST:
        assert tanh(-value) == -tanh(value)


def test_tanh_at_its_limit() -> None:
    """One unit below 3, at 3, and above."""
    assert (tanh(3 * ONE), tanh(-3 * ONE), tanh(HIGHEST), tanh(0)) == (ONE, -ONE, ONE, 0)
    assert ONE - 2 <= tanh(3 * ONE - 1) <= ONE


@pytest.mark.parametrize(
    ("decimal", "units"),
    [
        ("0.1", 429496730),  # 429496729.6
        ("-0.1", -429496730),
        ("0.00000000011641532182693481445312", 0),  # Half a unit: ties to even.
        ("0.00000000034924596548080444335938", 2),  # One and a half.
        (0.1, 429496730),
        (3, 3 * ONE),
        ("+2", 2 * ONE),
        ("2147483647.9999999997", HIGHEST),
        (-2147483648, LOWEST),
    ],
)
def test_decimals_are_read_exactly(decimal: object, units: int) -> None:
    """A decimal becomes the nearest unit."""
    assert read_decimal(decimal) == units


@pytest.mark.parametrize("wrong", ["", "x", "1e3", "1/3", ".5", "1.", True, None, [], math.nan, math.inf, "9" * 30])
def test_a_value_that_is_not_a_decimal_is_refused(wrong: object) -> None:
    """The message shows the value."""
    with pytest.raises(ValueError, match=f"^expected a decimal number, got {re.escape(repr(wrong))}$"):
        read_decimal(wrong)


@pytest.mark.parametrize("wrong", [2147483648, "-2147483648.0000000002", 1e300])
def test_a_decimal_that_does_not_fit_is_refused(wrong: object) -> None:
    """One unit beyond the limits, and far beyond."""
    with pytest.raises(ValueError, match=r"^expected a decimal number from -2147483648 to 2147483647\.99…, got "):
        read_decimal(wrong)


def test_texts_have_six_places() -> None:
    """Values are rounded to the nearest; zero has no minus sign."""
    assert [to_text(n) for n in (0, 1, -1, ONE // 2, -3 * ONE // 2, HIGHEST)] == [
        "0.000000", "0.000000", "0.000000", "0.500000", "-1.500000", "2147483648.000000",
    ]  # fmt: skip
