"""Numbers and arrays of which only bounds are known, and calculations with them.

A result holds everything that the calculation of exact_values gives for any operands within the bounds. Where that
calculation might raise, or might give anything else than numbers, NotKnownError is raised: nothing is concluded then.
Rounding is monotone, so the bounds of a result are results of bounds.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable
from typing import Any, NoReturn

import attrs
import numpy as np

from replayer.search.exact_values import INT64
from replayer.search.lookup.zone import Dimension, Number, Zone

FLOAT_MAX = 1e300  # Beyond, sums may become infinite in one order and not in another.
WHOLE_MAX = 1 << 512  # Beyond, whole numbers may not fit into a float.
EPSILON = 2.0**-52


class NotKnownError(Exception):
    """Nothing can be said about a value: it may be of any kind, or reading it may fail."""


@attrs.frozen
class Bounded:
    """A number, or an array of numbers, within bounds.

    Attributes:
        kind: "b" truth values, "i" whole numbers, "o" whole numbers that may not fit into int64, "f" floating point.
        low, high: of all values that are not NaN; None if there are none.
        has_nan: True if a value may be NaN.
        shape: of the array, None for a number; a dimension that is a text is of unknown length.
        size_min, size_max: the number of values.
        total: the sum of the values, if more is known of it than the bounds say.
        nonzero: the least and the greatest number of values that are not 0, if more is known.
    """

    kind: str
    low: Number | None
    high: Number | None
    has_nan: bool = False
    shape: tuple[Dimension, ...] | None = None
    size_min: int = 1
    size_max: int = 1
    total: tuple[Number, Number] | None = None
    nonzero: tuple[int, int] | None = None

    @property
    def may_be_zero(self) -> bool:
        """True if a value may be 0, which is false."""
        return self.low is not None and self.high is not None and self.low <= 0 <= self.high

    @property
    def may_be_nonzero(self) -> bool:
        """True if a value may be other than 0; NaN is true."""
        return self.has_nan or (self.low is not None and not self.low == self.high == 0)


def unknown(why: str = "") -> NoReturn:
    """Raise NotKnownError."""
    raise NotKnownError(why)


def number(kind: str, low: Number | None, high: Number | None, *, has_nan: bool = False) -> Bounded:
    """A single number within bounds."""
    return Bounded(kind, low, high, has_nan)


def truth(*, may_hold: bool, may_fail: bool) -> Bounded:
    """A truth value."""
    return Bounded("b", 0 if may_fail else 1, 1 if may_hold else 0)


def of_zone(zone: Zone) -> Bounded:
    """The field of a zone at any of its ticks. Raises NotKnownError for a field without bounds."""
    if zone.kind not in "biuf" or (zone.low is None and not zone.has_nan and zone.size_max):
        unknown()
    kind = "o" if zone.kind == "u" and zone.item_bytes == 8 else "i" if zone.kind == "u" else zone.kind
    shape = zone.shape or None
    total = None
    if zone.sum_low is not None and zone.sum_high is not None and not zone.has_nan and zone.low is not None:
        total = zone.sum_low, zone.sum_high
        if kind == "f":
            total = _widened(total, zone.size_max, _largest(zone.low, zone.high))
    nonzero = zone.nonzero_min, zone.nonzero_max
    sizes = (zone.size_min, zone.size_max)
    return Bounded(kind, zone.low, zone.high, zone.has_nan, shape, *sizes, total, nonzero)


def _largest(low: Number | None, high: Number | None) -> Number:
    return max(abs(low or 0), abs(high or 0))


def _widened(total: tuple[Number, Number], size: int, largest: Number) -> tuple[Number, Number] | None:
    """Bounds for a sum in another order of its terms; None if it may overflow."""
    if largest * max(size, 1) > FLOAT_MAX:
        return None
    slack = 4 * size * size * EPSILON * float(largest)
    return total[0] - slack, total[1] + slack


# --- arithmetic


def calculated(calculate: Callable[[Any, Any], Any], one: Bounded, other: Bounded) -> Bounded:
    """A calculation with two operands, as exact_values.exact does it. Raises NotKnownError."""
    if calculate in (operator.and_, operator.or_, operator.xor):
        return _bitwise(calculate, one, other)
    shape = _joined_shape(one, other)
    sizes = _sizes(one, other)
    has_nan = one.has_nan or other.has_nan
    is_float = "f" in (one.kind, other.kind) or calculate is operator.truediv
    large = "o" in (one.kind, other.kind)
    if is_float and large and shape is not None:
        unknown("arrays of Python's whole numbers and floats")
    if calculate in (operator.floordiv, operator.mod):
        return _divided(calculate, one, other, shape, sizes)
    if calculate is operator.truediv and other.may_be_zero:
        unknown("a division by zero")
    if None in (one.low, other.low):
        return Bounded("f", None, None, has_nan, shape, *sizes)
    ends = [_ends(part, as_float=is_float) for part in (one, other)]
    results = [calculate(first, second) for first, second in itertools.product(*ends)]
    if calculate is operator.truediv and "f" not in (one.kind, other.kind):  # Of whole numbers Python divides exactly.
        exact_ends = [_ends(part, as_float=False) for part in (one, other)]
        results += [calculate(first, second) for first, second in itertools.product(*exact_ends)]
    low, high = min(results), max(results)
    if is_float:
        return Bounded("f", low, high, has_nan, shape, *sizes)
    fits = not large and INT64.min <= low and high <= INT64.max
    return Bounded("i" if fits or shape is None else "o", low, high, False, shape, *sizes)


def _ends(value: Bounded, *, as_float: bool) -> tuple[Number, Number]:
    """The two bounds, which are finite. Raises NotKnownError."""
    if value.low is None or value.high is None:
        unknown()
    if as_float:
        if _largest(value.low, value.high) > (WHOLE_MAX if value.kind != "f" else math.inf):
            unknown()
        low, high = float(value.low), float(value.high)
        if not (math.isfinite(low) and math.isfinite(high)):
            unknown("infinite values give NaN")
        return low, high
    if _largest(value.low, value.high) > WHOLE_MAX:
        unknown()
    return value.low, value.high


def _divided(
    calculate: Callable[[Any, Any], Any],
    one: Bounded,
    other: Bounded,
    shape: tuple[Dimension, ...] | None,
    sizes: tuple[int, int],
) -> Bounded:
    """Whole numbers divided by one positive whole number."""
    divisor = other.low
    if not {one.kind, other.kind} <= {"b", "i"} or other.shape is not None or divisor != other.high:
        unknown()
    if divisor is None or one.low is None or one.high is None or divisor <= 0 or divisor > INT64.max:
        unknown()
    if calculate is operator.mod:
        return Bounded("i", 0, int(divisor) - 1, False, shape, *sizes)
    return Bounded("i", one.low // divisor, one.high // divisor, False, shape, *sizes)


def _bitwise(calculate: Callable[[Any, Any], Any], one: Bounded, other: Bounded) -> Bounded:
    """Truth values connected by & | ^."""
    if not one.kind == other.kind == "b":
        unknown()
    shape = _joined_shape(one, other)
    pairs = itertools.product(_truths(one), _truths(other))
    results = [int(calculate(first, second)) for first, second in pairs]
    return Bounded("b", min(results, default=0), max(results, default=0), False, shape, *_sizes(one, other))


def _truths(value: Bounded) -> list[bool]:
    """The truth values that a value may have."""
    return [False] * value.may_be_zero + [True] * value.may_be_nonzero


def _joined_shape(one: Bounded, other: Bounded) -> tuple[Dimension, ...] | None:
    """The shape of two operands together; arrays have to have the same one. Raises NotKnownError."""
    if one.shape is None or other.shape is None:
        return one.shape if other.shape is None else other.shape
    if one.shape != other.shape or "?" in one.shape:
        unknown("arrays whose shapes may differ")
    return one.shape


def _sizes(one: Bounded, other: Bounded) -> tuple[int, int]:
    larger = one if one.shape is not None else other
    return larger.size_min, larger.size_max


def absolute(value: Bounded) -> Bounded:
    """The values without their signs."""
    kind = "i" if value.kind == "b" and value.shape is None else value.kind
    value = attrs.evolve(value, kind=kind, total=None)
    if value.low is None or value.high is None:
        return value
    high = _largest(value.low, value.high)
    low = 0 if value.may_be_zero else min(abs(value.low), abs(value.high))
    is_large = kind == "i" and value.shape is not None and high > INT64.max
    return attrs.evolve(value, kind="o" if is_large else kind, low=low, high=high)


# --- truth values

COMPARABLE = {operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne}


def compared_bounds(test: Callable[[Any, Any], Any], one: Bounded, other: Bounded) -> Bounded:
    """A comparison of two numbers, or of arrays element by element."""
    shape = _joined_shape(one, other)
    has_nan = one.has_nan or other.has_nan
    if None in (one.low, one.high, other.low, other.high):
        may_hold, may_fail = False, False  # There is NaN alone on a side, or nothing.
    elif test in (operator.lt, operator.le):
        may_hold, may_fail = test(one.low, other.high), not test(one.high, other.low)
    elif test in (operator.gt, operator.ge):
        may_hold, may_fail = test(one.high, other.low), not test(one.low, other.high)
    else:
        overlaps = one.low <= other.high and other.low <= one.high  # type: ignore[operator]
        is_one = one.low == one.high == other.low == other.high
        may_hold, may_fail = (overlaps, not is_one) if test is operator.eq else (not is_one, overlaps)
    if has_nan:
        may_hold, may_fail = may_hold or test is operator.ne, may_fail or test is not operator.ne
    answer = truth(may_hold=bool(may_hold), may_fail=bool(may_fail))
    if not (may_hold or may_fail):
        answer = Bounded("b", 0, 1)
    return attrs.evolve(answer, shape=shape, size_min=_sizes(one, other)[0], size_max=_sizes(one, other)[1])


def inverted_truth(value: Bounded) -> Bounded:
    """Not, of a number or element by element."""
    answer = truth(may_hold=value.may_be_zero, may_fail=value.may_be_nonzero)
    if value.size_max == 0:
        answer = Bounded("b", 0, 1)
    return attrs.evolve(answer, shape=value.shape, size_min=value.size_min, size_max=value.size_max)


def both_true(one: Bounded, other: Bounded) -> Bounded:
    """And, of two numbers or of two arrays of one shape."""
    if (one.shape is None) is not (other.shape is None):
        unknown("a number and an array: the first may decide alone")
    one, other = inverted_truth(inverted_truth(one)), inverted_truth(inverted_truth(other))
    return _bitwise(operator.and_, one, other)


# --- parts


def part_of(value: Bounded, place: Any) -> Bounded:
    """Elements of an array at a place: an index, a slice or a tuple of them. Raises NotKnownError if it may not exist."""
    if value.shape is None:
        unknown()
    if isinstance(value.shape[0], str):
        shape = _rows_part(value, place)
    else:
        try:
            empty = np.broadcast_to(np.int8(0), tuple(int(part) for part in value.shape))
            shape = np.shape(empty[place])
        except (IndexError, TypeError, ValueError):
            unknown()
    size = math.prod(int(part) for part in shape)
    return Bounded(value.kind, value.low, value.high, value.has_nan, shape or None, size, size)


def _rows_part(value: Bounded, place: Any) -> tuple[int, ...]:
    """The shape of one row, or a part of it, of a table whose number of rows changes."""
    assert value.shape is not None
    first, rest = (place[0], place[1:]) if isinstance(place, tuple) and place else (place, ())
    tail = tuple(int(part) for part in value.shape[1:])
    rows = value.size_min // max(1, math.prod(tail))
    if not isinstance(first, int) or not -rows <= first < rows:
        unknown()
    try:
        return np.shape(np.broadcast_to(np.int8(0), tail)[rest])
    except (IndexError, TypeError):
        unknown()


def chosen(value: Bounded, mask: Bounded) -> Bounded:
    """The rows of an array where a mask holds."""
    if value.shape is None or mask.shape is None or mask.kind != "b" or "?" in mask.shape:
        unknown()
    if mask.shape != value.shape[: len(mask.shape)]:
        unknown()
    size_max = value.size_max if mask.may_be_nonzero else 0
    size_min = value.size_min if not mask.may_be_zero else 0
    return Bounded(
        value.kind, value.low, value.high, value.has_nan, ("?", *value.shape[len(mask.shape) :]), size_min, size_max
    )


# --- reductions


def _extreme(value: Bounded) -> Bounded:
    if not value.size_min:
        unknown("there may be no values to reduce")
    return number(value.kind, value.low, value.high, has_nan=value.has_nan)


def _summed(value: Bounded) -> Bounded:
    kind = "f" if value.kind == "f" else "i"
    if value.total is not None:
        return number(kind, *value.total)
    if value.has_nan:
        unknown()
    if value.low is None or value.high is None:
        return number(kind, 0, 0)
    sizes = (value.size_min, value.size_max)
    low, high = min(value.low * size for size in sizes), max(value.high * size for size in sizes)
    if kind == "f":
        total = _widened((low, high), value.size_max, _largest(value.low, value.high))
        if total is None or not (math.isfinite(low) and math.isfinite(high)):
            unknown()
        low, high = total
    return number(kind, low, high)


def _mean(value: Bounded) -> Bounded:
    if not value.size_min:
        unknown("there may be no values to reduce")
    return calculated(operator.truediv, _summed(value), number("i", value.size_min, value.size_max))


def _any(value: Bounded) -> Bounded:
    least, most = _nonzero(value)
    return truth(may_hold=most > 0, may_fail=least == 0)


def _all(value: Bounded) -> Bounded:
    least, most = _nonzero(value)
    return truth(may_hold=most >= value.size_min, may_fail=least < value.size_max)


def _nonzero(value: Bounded) -> tuple[int, int]:
    if value.nonzero is not None:
        return value.nonzero
    return (0 if value.may_be_zero else value.size_min), (value.size_max if value.may_be_nonzero else 0)


def _count(value: Bounded) -> Bounded:
    return number("i", *_nonzero(value))


def _length(value: Bounded) -> Bounded:
    if value.shape is None:
        unknown()
    if isinstance(value.shape[0], int):
        return number("i", value.shape[0], value.shape[0])
    row = math.prod(int(part) for part in value.shape[1:])
    if not row:
        unknown()
    return number("i", value.size_min // row, value.size_max // row)


BOUND_REDUCTIONS: dict[str, Callable[[Bounded], Bounded]] = {
    "sum": _summed,
    "min": _extreme,
    "max": _extreme,
    "mean": _mean,
    "any": _any,
    "all": _all,
    "count": _count,
    "len": _length,
    "abs": absolute,
}
