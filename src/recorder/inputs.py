"""Make sure that the inputs a replay will see are the inputs that the run saw."""

from __future__ import annotations

import math
from typing import Any

import numpy as np


def ensure_survives(given: Any, read_back: Any, tick: int) -> None:
    """Compare inputs with what decoding their recorded form gives; tuples may come back as lists.

    Raises TypeError that names the place of the first difference, for example an object that became a dict.
    """
    place = _difference(given, read_back, "inputs")
    if place is not None:
        raise TypeError(
            f"tick {tick}: {place} would come back from the tape as something else; give plain data "
            "(None, bool, int, float, str, bytes, list, dict, NumPy arrays and numbers)"
        )


def _difference(given: Any, back: Any, place: str) -> str | None:
    if isinstance(given, list | tuple) and isinstance(back, list) and len(given) == len(back):
        parts = zip(given, back, range(len(back)), strict=True)
        return next(filter(None, (_difference(a, b, f"{place}[{i}]") for a, b, i in parts)), None)
    if isinstance(given, dict) and isinstance(back, dict) and list(given) == list(back):
        return next(filter(None, (_difference(given[key], back[key], f"{place}[{key!r}]") for key in given)), None)
    if isinstance(given, np.ndarray | np.generic):
        same = isinstance(back, np.ndarray | np.generic) and (
            (given.dtype.newbyteorder("<"), given.shape) == (back.dtype, back.shape)
            and np.array_equal(given, back, equal_nan=given.dtype.kind in "fc")
        )
        return None if same else place
    plain = isinstance(given, bool | int | float | str | bytes | None)
    same = (
        plain and isinstance(given, type(back)) and (given == back or (isinstance(given, float) and math.isnan(given)))
    )
    return None if same else place
