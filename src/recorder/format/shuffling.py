"""Byte-shuffled numbers: the first bytes of all, then the second bytes of all, and so on.

Numbers of like size share their high bytes, which LZ4 then finds in one place. Numbers that repeat as a whole, such as
zeros between others, it finds as well, or better, where they stand. So it is tried on a piece of each field.
"""

from __future__ import annotations

from typing import Any

import lz4.block
import numpy as np
import numpy.typing as npt

FIELD_BYTES_MIN = 16 << 10  # Of smaller fields nobody would notice the bytes, but the microseconds at each seek.
SAMPLE_BYTES = 64 << 10
GAIN_MIN = 0.15  # Of the field's bytes: putting them back in order takes longer than unpacking a tenth of them.


def shuffled(numbers: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    """The bytes of numbers, one axis, shuffled."""
    return np.ascontiguousarray(numbers.view(np.uint8).reshape(len(numbers), numbers.itemsize).T).reshape(-1)


def unshuffled(content: npt.NDArray[np.uint8], number_bytes: int) -> npt.NDArray[np.unsignedinteger[Any]]:
    """The numbers of which these are the shuffled bytes."""
    whole = np.ascontiguousarray(content.reshape(number_bytes, -1).T).reshape(-1)
    return whole.view(f"<u{number_bytes}")


def planes(field: npt.NDArray[np.uint8], number_bytes: int) -> list[npt.NDArray[np.uint8]]:
    """Where in a field's memory its shuffled bytes go: the first bytes of all, the second bytes of all, and so on."""
    return list(field.reshape(-1, number_bytes).T)


def pays(field: npt.NDArray[np.uint8], number_bytes: int) -> bool:
    """Whether a field should be shuffled, by a piece out of its middle."""
    if number_bytes < 2 or len(field) < FIELD_BYTES_MIN:
        return False
    size = min(SAMPLE_BYTES, len(field)) // number_bytes * number_bytes
    begin = (len(field) - size) // 2 // number_bytes * number_bytes
    sample = field[begin : begin + size]
    gained = _packed_bytes(sample) - _packed_bytes(shuffled(sample.view(f"V{number_bytes}")))
    return gained >= GAIN_MIN * size


def _packed_bytes(data: npt.NDArray[np.uint8]) -> int:
    return min(len(data), len(lz4.block.compress(data.data, store_size=False)))
