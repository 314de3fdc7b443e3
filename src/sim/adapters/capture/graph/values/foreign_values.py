"""Arrays of other libraries inside a graph, as plain data, and back. Their bits are part of the data.

An array that nothing can write to, such as JAX's, is a value. One that can be written to, such as PyTorch's, is a node.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import numpy as np

from sim.adapters.capture.graph.names.classes import NotFoundError
from sim.adapters.capture.graph.unsavable import UnsavableError
from sim.kernel.foreign_arrays import (
    ArrayKind,
    ForeignArrayError,
    array_kind_from_plain,
    is_foreign_array,
    is_immutable_array,
    kind_of,
    like,
    memory_of,
    to_numpy,
)

Memory = tuple[int, int]  # The first address, and the one behind the last.
_DTYPE_TEXT = re.compile(r"[<|][biufc]\d{1,2}")  # NumPy itself would parse far more.


def is_foreign_constant(value: Any) -> bool:
    """Return True for an array of another library that nothing can write to."""
    return is_foreign_array(value) and is_immutable_array(value)


def ensure_in_memory(array: Any) -> None:
    """Raise UnsavableError for an array that cannot be saved, or that only one like it in its place can make again."""
    _kind_of(array)
    device = getattr(getattr(array, "device", None), "type", None)
    if device != "cpu":
        raise UnsavableError(
            "an array of a device, or of a library that makes none without another one like it",
            "keep it in an attribute of its own",
            array,
        )


def encode_foreign(array: Any) -> list[Any]:
    """The array as plain data. Raises UnsavableError for one that cannot be saved."""
    kind, bits = _kind_of(array), to_numpy(array)
    little = bits.astype(bits.dtype.newbyteorder("<"), copy=False)
    return [kind.to_plain(), little.dtype.str, list(little.shape), little.tobytes()]


def _kind_of(array: Any) -> ArrayKind:
    try:
        return kind_of(array)
    except ForeignArrayError as error:
        reason, _, advice = str(error).partition(": ")
        raise UnsavableError(reason, advice or "keep an array of NumPy", array) from None


def decode_foreign(plain: Any) -> Any:
    """The array of encode_foreign. Raises ValueError for other data; NotFoundError without the library of the array."""
    match plain:
        case [list(kind), str(dtype), list(shape), bytes(content)] if _DTYPE_TEXT.fullmatch(dtype):
            bits = np.frombuffer(content, dtype).reshape(tuple(shape))
            try:
                return like(None, bits, array_kind_from_plain(kind))
            except ForeignArrayError as error:
                raise NotFoundError(str(error)) from None
    raise ValueError("expected an array of another library")


# --- memory


def overlap(ours: Iterable[Memory], theirs: Iterable[Memory]) -> bool:
    """Return True if two of these memories have an address in common."""
    return any(start < end_ and start_ < end for start, end in ours for start_, end_ in theirs)


def shared_memory(value: Any, name: str, path: str = "") -> UnsavableError:
    """The refusal of a value at a path, whose memory is also that of the attribute of this name."""
    error = UnsavableError(f"its memory is shared with {name}", "keep a copy of one of them", value)
    error.path = path
    return error


def memories_of_array(array: Any) -> list[Memory]:
    """The memory of an array of any library that others may write to; none if it is not known, or no array."""
    if isinstance(array, np.ndarray):
        start = array.__array_interface__["data"][0]
        spans = [(size - 1) * stride for size, stride in zip(array.shape, array.strides, strict=True)]
        before, after = sum(min(span, 0) for span in spans), sum(max(span, 0) for span in spans)
        return [(start + before, start + after + array.itemsize)] if array.size else []
    memory = memory_of(array) if is_foreign_array(array) else None
    return [] if memory is None else [memory]
