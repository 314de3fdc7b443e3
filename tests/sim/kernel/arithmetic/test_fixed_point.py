"""Numbers with 16 binary places, against exact fractions."""

from __future__ import annotations

import math
import re
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.kernel.arithmetic.fixed_point import ONE, from_number, multiply, to_number


@pytest.mark.parametrize(
    ("value", "fixed"),
    [
        (0, 0),
        (1, 65_536),
        (-2, -131_072),
        (0.1, 6_554),
        (-0.1, -6_554),
        (3.5, 229_376),
        ("0.25", 16_384),
        (1e-9, 0),
        ("0.00000762939453125", 0),
        ("0.00002288818359375", 2),
        ("-0.00000762939453125", 0),
    ],
)
def test_decimals_round_to_the_nearest(value: Any, fixed: int) -> None:
    """A decimal becomes the nearest multiple of 1/65536; a tie rounds to even."""
    assert from_number(value) == fixed


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, "", "one", "1/0", None, True])
def test_values_that_are_not_finite_numbers(value: Any) -> None:
    """NaN, infinities and other things are refused by name."""
    with pytest.raises(ValueError, match=rf"^expected a finite number, got {re.escape(repr(value))}$"):
        from_number(value)


@given(st.floats(-1e9, 1e9))
def test_a_float_counts_as_its_decimal_text(value: float) -> None:
    """0.1 in a file is one tenth, not the nearest binary fraction."""
    assert abs(Fraction(from_number(value), ONE) - Fraction(str(value))) <= Fraction(1, 2 * ONE)
    assert abs(to_number(from_number(value)) - value) <= 1 / ONE


@given(st.integers(-(1 << 30), 1 << 30), st.integers(-(1 << 30), 1 << 30))
def test_products_round_down(left: int, right: int) -> None:
    """Products round towards minus infinity, for plain integers and for arrays."""
    exact = math.floor(Fraction(left, ONE) * Fraction(right, ONE) * ONE)

    assert multiply(left, right) == exact
    assert multiply(np.array([left]), np.array([right])).tolist() == [exact]  # type: ignore[arg-type, attr-defined]
