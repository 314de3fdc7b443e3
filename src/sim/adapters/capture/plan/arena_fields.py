"""How numbers and arrays stand in the fields of an arena, and the room that a blob gets in it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from sim.adapters.capture.own_memory import TEXT_KINDS
from sim.kernel.schema import Field

BLOB_BYTES_MIN = 256
HOT_BYTES_MAX = 1 << 12  # Larger arrays are copied one by one.


def is_hot(size_bytes: int) -> bool:
    """Return True if an array of this size is written together with the other small ones."""
    return 0 < size_bytes <= HOT_BYTES_MAX


def array_field(name: str, dtype: str, shape: Sequence[int]) -> Field:
    """The field for an array; an array of texts is stored as bytes."""
    made = np.dtype(dtype)
    return Field(name, "u1", (*shape, made.itemsize)) if made.kind in TEXT_KINDS else Field(name, made, tuple(shape))


def room_for(content: bytes) -> int:
    """The capacity of a blob: a power of two, so that it does not depend on earlier contents."""
    return max(BLOB_BYTES_MIN, 1 << (len(content) - 1).bit_length())


def as_number(value: Any) -> Any:
    """The number for the memory of a cell, which does not accept NumPy's booleans."""
    if value is None:
        return 0
    return int(value) if type(value) is np.bool_ else value


def bytes_of(texts: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The bytes of an array of texts, of each text in a row of their own."""
    return np.ascontiguousarray(texts)[..., None].view(np.uint8)


def is_quiet_by_equality(value: Any) -> bool:
    """Return True if every equal value of the same type is identical to this one, including its sign."""
    kind = type(value)
    if kind is float:
        return math.isfinite(value) and not value.is_integer()
    return kind in (type(None), bool, str, bytes)
