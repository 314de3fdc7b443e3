"""Compare two arrays element by element: the elements that differ, and for floats their distance in ULPs.

One ULP is the step to the next number that the dtype can hold; +0.0 and -0.0 are zero steps apart but differ.
"""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np

ELEMENTS_SHOWN = 4


@attrs.frozen
class DifferingElements:
    """The elements that differ between two arrays.

    Attributes:
        count, total: number of elements that differ, and of all elements.
        shown: the first of them: index, both values (NumPy's numbers), and their distance in ULPs or None.
        ulp_max: the largest distance of all; None if the dtype has no ULPs, or no pair has a distance (NaN has none).
    """

    count: int
    total: int
    shown: list[tuple[tuple[int, ...], Any, Any, int | None]]
    ulp_max: int | None


def compare_elements(first: np.ndarray[Any, Any], second: np.ndarray[Any, Any]) -> DifferingElements | None:
    """Compare the bytes of two arrays; None if their shapes or dtypes differ."""
    if first.shape != second.shape or first.dtype != second.dtype:
        return None
    flat = [np.ascontiguousarray(array).reshape(-1) for array in (first, second)]
    size = first.dtype.itemsize
    differs = (flat[0].view(np.uint8).reshape(-1, size) != flat[1].view(np.uint8).reshape(-1, size)).any(axis=1)
    numbers = np.flatnonzero(differs)
    ulps = ulp_distances(flat[0][numbers], flat[1][numbers])
    shown = []
    for position, number in enumerate(numbers[:ELEMENTS_SHOWN].tolist()):
        index = tuple(int(axis_index) for axis_index in np.unravel_index(number, first.shape))
        ulp = ulps[position] if ulps is not None else None
        shown.append((index, flat[0][number], flat[1][number], ulp))
    distances = [ulp for ulp in ulps or [] if ulp is not None]
    return DifferingElements(len(numbers), first.size, shown, max(distances, default=None))


def ulp_distances(first: np.ndarray[Any, Any], second: np.ndarray[Any, Any]) -> list[int | None] | None:
    """Distances of floats in ULPs, element by element; None for other dtypes.

    A pair with a NaN has the distance None; complex numbers have the larger distance of their two parts.
    """
    if first.dtype.kind == "c":
        part = np.dtype(f"f{first.dtype.itemsize // 2}")
        pairs = ulp_distances(first.view(part), second.view(part)) or []
        return [
            None if None in (real, imaginary) else max(real or 0, imaginary or 0)
            for real, imaginary in zip(pairs[::2], pairs[1::2], strict=True)
        ]
    if first.dtype.kind != "f" or first.dtype.itemsize > 8:
        return None
    is_nan = np.isnan(first) | np.isnan(second)
    steps = [_steps(array) for array in (first, second)]
    return [
        None if nan else abs(steps_a - steps_b)
        for steps_a, steps_b, nan in zip(steps[0], steps[1], is_nan.tolist(), strict=True)
    ]


def _steps(array: np.ndarray[Any, Any]) -> list[int]:
    """The number of ULPs from zero to each float: integers in the order of the floats."""
    bits = array.dtype.itemsize * 8
    raw = array.view(f"i{array.dtype.itemsize}").tolist()
    return [value if value >= 0 else -(value + (1 << (bits - 1))) for value in raw]
