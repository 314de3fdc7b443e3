"""Compare two arrays element by element: which differ, and how far apart they are, in ULPs where they are floats.

One ULP is the step to the next number that the dtype can hold; +0.0 and -0.0 are zero steps apart but differ.
"""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np

LANES_SHOWN = 4


@attrs.frozen
class DifferingElements:
    """How two arrays differ.

    Attributes:
        count, total: elements that differ, of how many.
        shown: the first of them: index, both values (NumPy's numbers), and their distance in ULPs (None where there is none).
        ulp_max: the largest distance of all; None if these are no floats, or none of the pairs has one, as with NaN.
    """

    count: int
    total: int
    shown: list[tuple[tuple[int, ...], Any, Any, int | None]]
    ulp_max: int | None


def compare_elements(first: np.ndarray[Any, Any], second: np.ndarray[Any, Any]) -> DifferingElements | None:
    """How two arrays of one shape and dtype differ, by bytes; None if they are not of one."""
    if first.shape != second.shape or first.dtype != second.dtype:
        return None
    flat = [np.ascontiguousarray(array).reshape(-1) for array in (first, second)]
    size = first.dtype.itemsize
    differs = (flat[0].view(np.uint8).reshape(-1, size) != flat[1].view(np.uint8).reshape(-1, size)).any(axis=1)
    numbers = np.flatnonzero(differs)
    ulps = ulp_distances(flat[0][numbers], flat[1][numbers])
    shown = []
    for place, number in enumerate(numbers[:LANES_SHOWN].tolist()):
        index = tuple(int(part) for part in np.unravel_index(number, first.shape))
        ulp = ulps[place] if ulps is not None else None
        shown.append((index, flat[0][number], flat[1][number], ulp))
    known = [ulp for ulp in ulps or [] if ulp is not None]
    return DifferingElements(len(numbers), first.size, shown, max(known, default=None))


def ulp_distances(first: np.ndarray[Any, Any], second: np.ndarray[Any, Any]) -> list[int | None] | None:
    """Of floats, element by element, None where one is NaN; complex numbers by their worse part; None for other dtypes."""
    if first.dtype.kind == "c":
        part = np.dtype(f"f{first.dtype.itemsize // 2}")
        pairs = ulp_distances(first.view(part), second.view(part)) or []
        return [
            None if None in (real, imaginary) else max(real or 0, imaginary or 0)
            for real, imaginary in zip(pairs[::2], pairs[1::2], strict=True)
        ]
    if first.dtype.kind != "f" or first.dtype.itemsize > 8:
        return None
    lost = np.isnan(first) | np.isnan(second)
    steps = [_steps(array) for array in (first, second)]
    return [
        None if is_lost else abs(one - other)
        for one, other, is_lost in zip(steps[0], steps[1], lost.tolist(), strict=True)
    ]


def _steps(array: np.ndarray[Any, Any]) -> list[int]:
    """How many steps each float is above zero: whole numbers in the order of the floats."""
    bits = array.dtype.itemsize * 8
    raw = array.view(f"i{array.dtype.itemsize}").tolist()
    return [value if value >= 0 else -(value + (1 << (bits - 1))) for value in raw]
