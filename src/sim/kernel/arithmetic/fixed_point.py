"""Numbers with 16 binary places in int64: exact, and equal on every processor.

1.0 is 65,536. Sums and differences are plain integer operations. Products and quotients round down (towards minus
infinity), as Python's and NumPy's // and >> do, unless a function states otherwise.
"""

from __future__ import annotations

from fractions import Fraction

PLACES = 16
ONE = 1 << PLACES  # 1.0


def from_number(value: int | float | str, places: int = PLACES) -> int:
    """The fixed-point number nearest to value, ties to even. places: the number of binary places.

    A float counts as the decimal text that Python prints for it, so that 0.1 in a file is one tenth.
    Raises ValueError if value is not a finite number.
    """
    try:
        return round(Fraction(str(value)) * (1 << places))
    except (ValueError, ZeroDivisionError):
        raise ValueError(f"expected a finite number, got {value!r}") from None


def to_number(value: int) -> float:
    """The number that a fixed-point value stands for, as a float: for display, never for the state."""
    return value / ONE


def multiply(left: int, right: int) -> int:
    """left × right, rounded down; also for int64 arrays whose products stay below 2**63."""
    return (left * right) >> PLACES
