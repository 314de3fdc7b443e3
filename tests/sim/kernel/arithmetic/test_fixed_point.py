"""Numbers with 16 binary places, against exact fractions."""

from __future__ import annotations

import math
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
    """The nearest multiple of 1/65536; a tie goes to the even one."""
    assert from_number(value) == fixed


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, "", "one", "1/0", None, True])
def test_what_is_no_number(value: Any) -> None:
    """NaN, infinities and other things are refused by name."""
    with pytest.raises(ValueError, match=r"is no number$"):
        from_number(value)


@given(st.floats(-1e9, 1e9))
def test_a_float_counts_as_its_decimal_text(value: float) -> None:
    """0.1 in a file is one tenth and not the binary fraction next to it."""
    assert abs(Fraction(from_number(value), ONE) - Fraction(str(value))) <= Fraction(1, 2 * ONE)
    assert abs(to_number(from_number(value)) - value) <= 1 / ONE


@given(st.integers(-(1 << 30), 1 << 30), st.integers(-(1 << 30), 1 << 30))
def test_products_round_down(left: int, right: int) -> None:
    """Towards minus infinity, for plain integers and for arrays alike."""
    exact = math.floor(Fraction(left, ONE) * Fraction(right, ONE) * ONE)

    assert multiply(left, right) == exact
    assert multiply(np.array([left]), np.array([right])).tolist() == [exact]  # type: ignore[arg-type, attr-defined]
