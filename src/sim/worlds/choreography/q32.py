"""Q32.32 fixed-point arithmetic, 32 binary places in 64 bits: integers only, exact on every machine, saturating.

1.0 is 2**32. A result that does not fit becomes the nearest number that does. Products and quotients are truncated
towards zero, which makes them symmetric: (-a) × b == -(a × b). One role gains exactly the amount that its peer loses.
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any

PLACES = 32
ONE = 1 << PLACES  # 1.0
LOWEST = -(1 << 63)
HIGHEST = (1 << 63) - 1
NEWTON_STEPS = 16  # Enough for any number of 96 bits, if the first guess has the right number of bits.
TANH_LIMIT = 3 * ONE  # The fraction in tanh reaches 1 here.

_DECIMAL = re.compile(r"[+-]?\d{1,20}(\.\d{1,40})?")


def read_decimal(value: Any) -> int:
    """The Q32.32 number nearest to an integer, a float or a text such as "0.1"; ties to even.

    A float counts as the decimal text that Python prints for it, as in fixed_point.from_number.
    Raises ValueError for any other value, or one that does not fit.
    """
    if isinstance(value, float) and value - value == 0:  # Neither infinite nor a NaN.
        number = round(Fraction(repr(value)) * ONE)
    elif not isinstance(value, bool | float) and isinstance(value, int | str) and _DECIMAL.fullmatch(str(value)):
        number = round(Fraction(str(value)) * ONE)
    else:
        raise ValueError(f"expected a decimal number, got {value!r}")
    if not LOWEST <= number <= HIGHEST:
        raise ValueError(f"expected a decimal number from -2147483648 to 2147483647.99…, got {value!r}")
    return number


def to_text(value: int) -> str:
    """A Q32.32 number as text, with six decimal places."""
    millionths = abs(value) * 1_000_000 + ONE // 2 >> PLACES
    sign = "-" if value < 0 and millionths else ""
    return f"{sign}{millionths // 1_000_000}.{millionths % 1_000_000:06d}"


def saturate(value: int) -> int:
    """The nearest integer that fits in 64 bits."""
    return max(LOWEST, min(HIGHEST, value))


def add(left: int, right: int) -> int:
    """left + right."""
    return saturate(left + right)


def subtract(left: int, right: int) -> int:
    """left - right."""
    return saturate(left - right)


def multiply(left: int, right: int) -> int:
    """left × right."""
    product = abs(left) * abs(right) >> PLACES
    return saturate(product if (left < 0) == (right < 0) else -product)


def divide(left: int, right: int) -> int:
    """left / right. Division by zero gives the highest or lowest number, by the sign of left; 0 / 0 is 0."""
    if right == 0:
        return 0 if left == 0 else HIGHEST if left > 0 else LOWEST
    quotient = (abs(left) << PLACES) // abs(right)
    return saturate(quotient if (left < 0) == (right < 0) else -quotient)


def square_root(value: int) -> int:
    """The square root, rounded down, by at most NEWTON_STEPS Newton steps; 0 for a negative number."""
    if value <= 0:
        return 0
    wide = value << PLACES
    root = 1 << (wide.bit_length() + 1) // 2  # At least the root, and less than twice the root.
    for _ in range(NEWTON_STEPS):
        nearer = root + wide // root >> 1
        if nearer >= root:
            break
        root = nearer
    return root


def tanh(value: int) -> int:
    """An approximation of the hyperbolic tangent: x(27 + x²) / (27 + 9x²), and ±1 from |x| = 3 on."""
    if abs(value) >= TANH_LIMIT:
        return ONE if value > 0 else -ONE
    square = multiply(value, value)
    return divide(multiply(value, 27 * ONE + square), 27 * ONE + 9 * square)
