"""Compare two arrays element by element, as text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import numpy as np

from sim.adapters.object_view.value_text import array_text, leaf_text

_Difference = tuple[Literal["value", "count"], str, tuple[str, str], tuple[float, float] | None]


def array_differences(
    path: str, one: np.ndarray[Any, Any], other: np.ndarray[Any, Any], limit: int
) -> Iterator[_Difference]:
    """The elements whose bytes differ, each with its path, both values, and both numbers if they are 64-bit floats.

    limit: of them; if there are more, their number comes first. Arrays of different shapes or dtypes differ as a whole.
    """
    if one.dtype != other.dtype or one.shape != other.shape:
        yield "value", path, (array_text(one), array_text(other)), None
        return
    if one.tobytes() == other.tobytes():
        return
    flat = [np.ascontiguousarray(array).reshape(-1) for array in (one, other)]
    words = [array.view(np.uint8).reshape(array.size, -1) for array in flat]
    places = np.flatnonzero((words[0] != words[1]).any(axis=1))
    if len(places) > limit:
        yield "count", path, (f"{len(places):,} of {one.size:,} elements", ""), None
    for place in places[:limit].tolist():
        index = ", ".join(str(int(axis)) for axis in np.unravel_index(place, one.shape))
        values = flat[0][place].item(), flat[1][place].item()
        numbers = values if one.dtype == np.float64 else None
        yield "value", f"{path}[{index}]" if index else path, _texts(values, words, place), numbers


def _texts(values: tuple[Any, Any], words: list[np.ndarray[Any, Any]], place: int) -> tuple[str, str]:
    """Both values; with bits if the texts are equal and the bytes differ, as for two kinds of NaN."""
    texts = leaf_text(values[0]), leaf_text(values[1])
    if texts[0] != texts[1]:
        return texts
    bits = [word[place][::-1].tobytes().hex() for word in words]
    return f"{texts[0]} (bits {bits[0]})", f"{texts[1]} (bits {bits[1]})"
