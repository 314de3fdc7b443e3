"""Byte-shuffled numbers: the first bytes of all, then the second bytes of all, and so on.

Numbers of like size share their high bytes, which LZ4 then finds in one place. Numbers that repeat as a whole, such as
zeros between others, it finds as well, or better, where they stand. So it is tried on a piece of each field.

Large fields are shuffled in runs: of each the bytes stay in the processor's cache while they find their places, where
those of a whole field would come and go as often as a number has bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import lz4.block
import numpy as np
import numpy.typing as npt

Unsigned = npt.NDArray[np.unsignedinteger[Any]]

FIELD_BYTES_MIN = 16 << 10  # Of smaller fields nobody would notice the bytes, but the microseconds at each seek.
SAMPLE_BYTES = 64 << 10
RUN_NUMBERS = 65_536  # The first bytes of a run are as many as LZ4 looks back; all of it is at home in a level 2 cache.
GAIN_MIN = 0.05  # Of the bytes of the field: below, putting them back in order takes longer than it is worth.
_FEW = 4096  # Numbers: with fewer the calls take longer than what they save.
_SHIFTED_BYTES_MAX = 4  # Shifting whole numbers is faster than single bytes with gaps up to this many bytes.


def folded(differences: Unsigned) -> Unsigned:
    """Differences, modulo their size, such that small ones of either sign are small numbers: 0, -1, 1, -2 are 0, 1, 2, 3."""
    top = differences.dtype.type(8 * differences.itemsize - 1)
    one = differences.dtype.type(1)
    return (differences << one) ^ (~(differences >> top) + one)


def unfolded(numbers: Unsigned) -> Unsigned:
    """The differences that were folded."""
    one = numbers.dtype.type(1)
    return (numbers >> one) ^ (~(numbers & one) + one)


def shuffled(numbers: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    """The bytes of numbers, one axis, shuffled."""
    return np.ascontiguousarray(numbers.view(np.uint8).reshape(len(numbers), numbers.itemsize).T).reshape(-1)


def unshuffled(content: npt.NDArray[np.uint8], number_bytes: int) -> npt.NDArray[np.unsignedinteger[Any]]:
    """The numbers of which these are the shuffled bytes."""
    dtype, parts = np.dtype(f"<u{number_bytes}"), content.reshape(number_bytes, -1)
    count = parts.shape[1]
    if number_bytes == 1 or count < _FEW:
        return np.ascontiguousarray(parts.T).reshape(-1).view(dtype)
    # Of many numbers the high bytes are mostly zero, and NumPy transposes a narrow array number by number.
    numbers = np.zeros(count, dtype)
    columns = numbers.view(np.uint8).reshape(count, number_bytes)
    for place, part in enumerate(parts):
        if not part.any():
            continue
        if number_bytes <= _SHIFTED_BYTES_MAX:
            numbers |= part.astype(dtype) << dtype.type(8 * place)
        else:
            columns[:, place] = part
    return numbers


def shuffled_runs(field: npt.NDArray[np.uint8], number_bytes: int) -> Iterator[npt.NDArray[np.uint8]]:
    """The bytes of a field, run by run shuffled; each is good until the next one is asked for."""
    run_bytes = RUN_NUMBERS * number_bytes
    memory = np.empty(min(run_bytes, len(field)), np.uint8)
    for begin in range(0, len(field), run_bytes):
        run = field[begin : begin + run_bytes]
        found = memory[: len(run)]
        np.copyto(found.reshape(number_bytes, -1), run.reshape(-1, number_bytes).T)
        yield found


def planes(field: npt.NDArray[np.uint8], number_bytes: int, run_numbers: int) -> list[npt.NDArray[np.uint8]]:
    """Where in a field's memory its shuffled bytes go: of each run the first bytes, the second bytes, and so on."""
    run_bytes = run_numbers * number_bytes
    runs = (field[begin : begin + run_bytes] for begin in range(0, len(field), run_bytes))
    return [plane for run in runs for plane in run.reshape(-1, number_bytes).T]


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
