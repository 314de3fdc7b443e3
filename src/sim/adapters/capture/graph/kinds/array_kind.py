"""Arrays of NumPy anywhere in a graph; views share the memory of the array that owns it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from sim.adapters.capture.graph.unsavable import UnsavableError

_DTYPE_TEXT = re.compile(r"[<>|=]?[biufcSUmMV]\d{1,9}(\[\w{1,20}\])?")
Array = np.ndarray[Any, Any]


def is_array(value: Any) -> bool:
    """Return True for an array of NumPy's own class."""
    return type(value) is np.ndarray


def memory_of(array: Array) -> Array | None:
    """The memory of an array as a flat array of bytes; None for a view, whose memory is another array's."""
    if type(array.base) is np.ndarray:
        return None
    flat = array if array.flags.c_contiguous else array.T if array.flags.f_contiguous else np.ascontiguousarray(array)
    return flat.reshape(-1).view(np.uint8)


def layout_of(array: Array) -> tuple[list[Any], tuple[Any, ...]]:
    """Plain data of an array, and the array whose memory it views, if it is a view. Raises UnsavableError."""
    dtype = array.dtype
    if dtype.hasobject or dtype.fields is not None or not _DTYPE_TEXT.fullmatch(dtype.str):
        raise UnsavableError(f"it is an array of {dtype}", "use arrays of numbers, or a list", array)
    base = array.base
    if base is not None and type(base) not in (np.ndarray, bytes):
        raise UnsavableError(f"an array over the memory of a {type(base).__qualname__}", "keep a copy of it", array)
    if type(base) is not np.ndarray:
        is_fortran = bool(array.flags.f_contiguous and not array.flags.c_contiguous)
        return [dtype.str, list(array.shape), is_fortran, bool(array.flags.writeable)], ()
    while type(base.base) is np.ndarray:
        base = base.base
    offset = array.__array_interface__["data"][0] - base.__array_interface__["data"][0]
    return [dtype.str, list(array.shape), list(array.strides), offset, bool(array.flags.writeable)], (base,)


def make_array(plain: Any, parts: Sequence[Any], memory: bytes | None) -> Array:
    """The array of layout_of, writeable. memory: of an array that owns it. Raises ValueError."""
    match plain, parts:
        case [[str(dtype), list(shape), bool(is_fortran), bool()], []] if _DTYPE_TEXT.fullmatch(dtype):
            flat = np.frombuffer(memory or b"", dtype)
            made: Array = flat.reshape(tuple(shape), order="F" if is_fortran else "C").copy("F" if is_fortran else "C")
            return made
        case [[str(dtype), list(shape), list(strides), int(offset), bool()], [np.ndarray() as base]] if (
            _DTYPE_TEXT.fullmatch(dtype)
        ):
            return np.ndarray(tuple(shape), dtype, base, offset, tuple(strides))
    raise ValueError("expected an array")


def finish_array(array: Array, plain: Any) -> None:
    """Make the array read-only if it was: after all views, since one may be writeable when its base is not."""
    if not plain[-1]:
        array.flags.writeable = False
