"""Make Arrow arrays of NumPy arrays and of texts from their bytes.

pyarrow.array() imports pandas, if it is installed, to find out that it was given none of its objects. That takes as long
as many short tapes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

_OFFSET_MAX = (1 << 31) - 1  # Of the bytes of all texts of a column, in Arrow's usual texts.

Flags = npt.NDArray[np.bool_]


def numbers_array(values: npt.NDArray[Any], present: Flags | None = None) -> pa.Array:
    """An array of the numbers of a NumPy array of one axis, without a copy. present: False where one is missing."""
    values = np.ascontiguousarray(values, values.dtype.newbyteorder("="))
    data = _bits(values) if values.dtype == np.bool_ else pa.py_buffer(values)
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), [_mask(present), data])


def texts_array(values: Sequence[str | None]) -> pa.Array:
    """An array of texts, None where one is missing."""
    if values.count("") == len(values):  # The agent and the options of most environments.
        buffers = [None, pa.py_buffer(np.zeros(len(values) + 1, np.int32)), pa.py_buffer(b"")]
        return pa.Array.from_buffers(pa.string(), len(values), buffers)
    encoded = [b"" if text is None else text.encode() for text in values]
    offsets = _offsets([len(text) for text in encoded])
    if offsets[-1] > _OFFSET_MAX:
        return pa.array(values, pa.string())  # It says so.
    buffers = [_mask(_present(values)), pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(b"".join(encoded))]
    return pa.Array.from_buffers(pa.string(), len(values), buffers)


def lists_array(items: pa.Array, lengths: Sequence[int], present: Flags | None = None) -> pa.Array:
    """An array of lists of so many of the items each. present: False where a list is missing."""
    buffers = [_mask(present), pa.py_buffer(_offsets(lengths).astype(np.int32))]
    return pa.Array.from_buffers(pa.list_(items.type), len(lengths), buffers, children=[items])


def text_lists_array(values: Sequence[Sequence[str] | None]) -> pa.Array:
    """An array of lists of texts, None where a list is missing."""
    items = texts_array([text for texts in values for text in texts or ()])
    return lists_array(items, [len(texts or ()) for texts in values], _present(values))


def fixed_lists_array(items: pa.Array, size: int, present: Flags | None = None) -> pa.Array:
    """An array of lists of the same number of items. present: False where a list is missing."""
    count = len(items) // size if present is None else len(present)
    return pa.Array.from_buffers(pa.list_(items.type, size), count, [_mask(present)], children=[items])


def _offsets(lengths: Sequence[int]) -> npt.NDArray[np.int64]:
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def _present(values: Sequence[Any]) -> Flags | None:
    present = np.array([value is not None for value in values], np.bool_)
    return None if present.all() else present


def _mask(present: Flags | None) -> pa.Buffer | None:
    return None if present is None else _bits(present)


def _bits(flags: Flags) -> pa.Buffer:
    return pa.py_buffer(np.packbits(flags, bitorder="little"))
