"""Numbers with 16 binary places in int64: exact, and the same on every processor.

1.0 is 65,536. Sums and differences are plain integer ones. Products and quotients round down (towards minus
infinity), as Python's // and >> and NumPy's do, unless a function says otherwise.
"""

from __future__ import annotations

from fractions import Fraction

PLACES = 16
ONE = 1 << PLACES  # 1.0


def from_number(value: int | float | str, places: int = PLACES) -> int:
    """The fixed-point number nearest to value, ties to even; with another number of binary places where it is asked.

    A float counts as the decimal text that Python prints for it, so that 0.1 in a file is one tenth.
    Raises ValueError if value is no finite number.
    """
    try:
        return round(Fraction(str(value)) * (1 << places))
    except (ValueError, ZeroDivisionError):
        raise ValueError(f"{value!r} is no number") from None


def to_number(value: int) -> float:
    """The number that a fixed-point value stands for, as a float: for showing, never for the state."""
    return value / ONE


def multiply(left: int, right: int) -> int:
    """left × right, rounded down; also for int64 arrays whose products stay below 2**63."""
    return (left * right) >> PLACES
