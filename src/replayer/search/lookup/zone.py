"""Zones: the least and the greatest of a field over the ticks of an interval, of its sum, and of its size.

A zone says what a field has been at any tick of its interval. It may say too little, never too much: every value lies
between its bounds. NaN is not between any bounds and is noted apart.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Self

import attrs
import numpy as np
import numpy.typing as npt

from sim.kernel.schema import Slot

KINDS = "biuf"  # Of NumPy: a field of any other kind has a zone without bounds.
WHOLE_MIN, WHOLE_MAX = -(1 << 63), (1 << 64) - 1  # What plain data can hold.
INT64_MAX = (1 << 63) - 1

Dimension = int | str  # A length, or the name of the table whose number of rows it is.
Number = int | float


@attrs.frozen
class Zone:
    """One field over the ticks of an interval.

    Attributes:
        kind: of its numbers, as NumPy names it: "b", "i", "u", "f", or another one without bounds.
        item_bytes: the size of a number.
        shape: of the field; the name of its table where the number of rows changed.
        size_min, size_max: the number of its values.
        low, high: of all values that are not NaN; None if there are none.
        has_nan: True if a value was NaN.
        sum_low, sum_high: of the sum at each tick, in float64 for floating point; None if unknown.
        nonzero_min, nonzero_max: of the number of values that are not 0, NaN included.
    """

    kind: str
    item_bytes: int
    shape: tuple[Dimension, ...]
    size_min: int
    size_max: int
    low: Number | None = None
    high: Number | None = None
    has_nan: bool = False
    sum_low: Number | None = None
    sum_high: Number | None = None
    nonzero_min: int = 0
    nonzero_max: int = 0

    def with_other(self, other: Zone, table: str | None) -> Zone:
        """The zone over the ticks of both. table: of which the field is a column; None if it is none."""
        is_fixed = self.shape == other.shape
        same_rows = (self.kind, self.item_bytes, self.shape[1:]) == (other.kind, other.item_bytes, other.shape[1:])
        if not same_rows or not (is_fixed or table is not None):
            return attrs.evolve(self, kind="?")  # Another field of that name: nothing is known.
        shape = self.shape if is_fixed else (str(table), *self.shape[1:])
        return Zone(
            self.kind,
            self.item_bytes,
            shape,
            min(self.size_min, other.size_min),
            max(self.size_max, other.size_max),
            _least([self.low, other.low]),
            _greatest([self.high, other.high]),
            self.has_nan or other.has_nan,
            None if None in (self.sum_low, other.sum_low) else _least([self.sum_low, other.sum_low]),
            None if None in (self.sum_high, other.sum_high) else _greatest([self.sum_high, other.sum_high]),
            min(self.nonzero_min, other.nonzero_min),
            max(self.nonzero_max, other.nonzero_max),
        )

    def to_plain(self) -> list[Any]:
        """As plain data."""
        return [*attrs.astuple(attrs.evolve(self, shape=()))[:2], list(self.shape), *attrs.astuple(self)[3:]]

    @classmethod
    def from_plain(cls, values: Any) -> Self:
        """The zone of plain data. Raises ValueError if it is none."""
        match values:
            case [str(), int(), list(shape), int(), int(), low, high, bool(), sum_low, sum_high, int(), int()]:
                numbers = (low, high, sum_low, sum_high)
                fits = all(one is None or type(one) in (int, float) for one in numbers)
                if fits and all(isinstance(part, int | str) for part in shape) and (low is None) is (high is None):
                    return cls(values[0], values[1], tuple(shape), *values[3:])
        raise ValueError("it holds no zone of a field")


def _least(values: Sequence[Any]) -> Any:
    return min((value for value in values if value is not None), default=None)


def _greatest(values: Sequence[Any]) -> Any:
    return max((value for value in values if value is not None), default=None)


def measure(slot: Slot, values: npt.NDArray[Any], counts: npt.NDArray[np.int64] | None) -> Zone:
    """The zone of a field over some ticks.

    values: (ticks, *shape of the field in the arena). counts: (ticks,), of the rows in use, for a column of a table.
    """
    dtype, tail = slot.dtype, slot.shape[1:]
    if counts is None:
        shape: tuple[Dimension, ...] = slot.shape
        sizes = (math.prod(slot.shape),) * 2
        used = None
    else:
        rows_min, rows_max = int(counts.min()), int(counts.max())
        values = values[:, :rows_max]
        sizes = rows_min * math.prod(tail), rows_max * math.prod(tail)
        is_fixed = rows_min == rows_max
        shape = (rows_max if is_fixed else str(slot.owner), *tail)
        used = None if is_fixed else np.arange(rows_max)[None, :] < counts[:, None]
    blank = Zone(dtype.kind, dtype.itemsize, shape, *sizes)
    if dtype.kind not in KINDS:
        return blank
    flat = values.reshape(len(values), -1)
    return _bounded(blank, flat, flat if used is None else values[used].reshape(-1))


def zone_of(value: Any) -> Zone | None:
    """The zone of a number or an array at one tick; None for anything else."""
    array = np.asarray(value)
    if array.dtype.kind not in KINDS:
        return None
    blank = Zone(array.dtype.kind, array.dtype.itemsize, array.shape, array.size, array.size)
    return _bounded(blank, array.reshape(1, -1), array.reshape(1, -1))


def _bounded(blank: Zone, flat: npt.NDArray[Any], live: npt.NDArray[Any]) -> Zone:
    """The zone of values, (ticks, values). live: those in rows that are in use; the others are zeros."""
    low, high, has_nan = _extremes(live)
    sums = _sums(flat, low, high)
    nonzero = np.count_nonzero(flat, axis=1)
    return attrs.evolve(
        blank,
        low=low,
        high=high,
        has_nan=has_nan,
        sum_low=_storable(sums[0]),
        sum_high=_storable(sums[1]),
        nonzero_min=int(nonzero.min()),
        nonzero_max=int(nonzero.max()),
    )


def _extremes(values: npt.NDArray[Any]) -> tuple[Number | None, Number | None, bool]:
    """The least and the greatest of the values that are not NaN, and whether there is a NaN."""
    has_nan = False
    if values.dtype.kind == "f":
        is_nan = np.isnan(values)
        has_nan = bool(is_nan.any())
        values = values[~is_nan] if has_nan else values
    if not values.size:
        return None, None, has_nan
    low, high = values.min().item(), values.max().item()
    return (int(low), int(high), False) if isinstance(low, bool) else (low, high, has_nan)


def _sums(values: npt.NDArray[Any], low: Number | None, high: Number | None) -> tuple[Number | None, Number | None]:
    """The least and the greatest of the sums of the rows of values, exact for whole numbers; None if a sum is infinite or NaN."""
    if low is None or high is None:
        return (0, 0) if not values.shape[1] else (None, None)
    if values.dtype.kind == "f":
        with np.errstate(all="ignore"):
            sums = values.sum(axis=1, dtype=np.float64)
        is_finite = bool(np.isfinite(sums).all())
        return (float(sums.min()), float(sums.max())) if is_finite else (None, None)
    if max(abs(low), abs(high)) * max(1, values.shape[1]) <= INT64_MAX:
        exact = values.sum(axis=1, dtype=np.int64)
        return int(exact.min()), int(exact.max())
    totals = [sum(row) for row in values.tolist()]
    return min(totals), max(totals)


def _storable(value: Number | None) -> Number | None:
    return None if isinstance(value, int) and not WHOLE_MIN <= value <= WHOLE_MAX else value
