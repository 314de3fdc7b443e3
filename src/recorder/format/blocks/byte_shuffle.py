"""Byte-shuffled numbers: the first bytes of all, then the second bytes of all, and so on.

Numbers of similar size share their high bytes, and shuffling puts these next to each other for LZ4. Numbers that
repeat completely, such as zeros between others, compress as well or better unshuffled. So a sample of each field
decides.

Large fields are shuffled in runs. The bytes of one run stay in the processor's cache; those of a complete field would be
loaded once for each byte of a number.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import lz4.block
import numpy as np
import numpy.typing as npt

Unsigned = npt.NDArray[np.unsignedinteger[Any]]

FIELD_BYTES_MIN = 16 << 10  # Below, the saved bytes do not matter, but the microseconds of each seek do.
SAMPLE_BYTES = 64 << 10
RUN_NUMBERS = 65_536  # The first bytes of a run fill LZ4's window of 64 KiB; a run fits into a level 2 cache.
GAIN_MIN = 0.05  # A fraction of the field's bytes; below, the time to unshuffle is not worth it.
_FEW = 4096  # Numbers: with fewer, the calls cost more than they save.
_SHIFTED_BYTES_MAX = 4  # Up to this size of a number, shifting numbers is faster than writing single bytes with gaps.


def folded(differences: Unsigned) -> Unsigned:
    """Map differences of either sign to small unsigned numbers (zigzag): 0, -1, 1, -2 become 0, 1, 2, 3."""
    top = differences.dtype.type(8 * differences.itemsize - 1)
    one = differences.dtype.type(1)
    return (differences << one) ^ (~(differences >> top) + one)


def unfolded(numbers: Unsigned) -> Unsigned:
    """Undo ``folded``."""
    one = numbers.dtype.type(1)
    return (numbers >> one) ^ (~(numbers & one) + one)


def shuffled(numbers: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    """Shuffle the bytes of a one-dimensional array of numbers."""
    return np.ascontiguousarray(numbers.view(np.uint8).reshape(len(numbers), numbers.itemsize).T).reshape(-1)


def unshuffled(content: npt.NDArray[np.uint8], number_bytes: int) -> npt.NDArray[np.unsignedinteger[Any]]:
    """Undo ``shuffled``."""
    dtype, parts = np.dtype(f"<u{number_bytes}"), content.reshape(number_bytes, -1)
    count = parts.shape[1]
    if number_bytes == 1 or count < _FEW:
        return np.ascontiguousarray(parts.T).reshape(-1).view(dtype)
    # Faster than a transpose: NumPy transposes a narrow array number by number, and most high bytes are zero.
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
    """Yield the shuffled runs of a field; each is valid until the next one is requested."""
    run_bytes = RUN_NUMBERS * number_bytes
    memory = np.empty(min(run_bytes, len(field)), np.uint8)
    for begin in range(0, len(field), run_bytes):
        run = field[begin : begin + run_bytes]
        content = memory[: len(run)]
        np.copyto(content.reshape(number_bytes, -1), run.reshape(-1, number_bytes).T)
        yield content


def planes(field: npt.NDArray[np.uint8], number_bytes: int, run_numbers: int) -> list[npt.NDArray[np.uint8]]:
    """Views of a field's memory in the order of its shuffled bytes: per run first bytes, second bytes, and so on."""
    run_bytes = run_numbers * number_bytes
    runs = (field[begin : begin + run_bytes] for begin in range(0, len(field), run_bytes))
    return [plane for run in runs for plane in run.reshape(-1, number_bytes).T]


def is_worth_shuffling(field: npt.NDArray[np.uint8], number_bytes: int) -> bool:
    """Return True if shuffling makes a field enough smaller, judged by a sample from its middle."""
    if number_bytes < 2 or len(field) < FIELD_BYTES_MIN:
        return False
    size = min(SAMPLE_BYTES, len(field)) // number_bytes * number_bytes
    begin = (len(field) - size) // 2 // number_bytes * number_bytes
    sample = field[begin : begin + size]
    gained = _packed_bytes(sample) - _packed_bytes(shuffled(sample.view(f"V{number_bytes}")))
    return gained >= GAIN_MIN * size


def _packed_bytes(data: npt.NDArray[np.uint8]) -> int:
    return min(len(data), len(lz4.block.compress(data.data, store_size=False)))
