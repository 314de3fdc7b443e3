"""Arrays of NumPy anywhere in a graph; views share the memory of the array that owns it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sim.adapters.capture.graph.names.array_types import OBJECTS, array_type_from_plain, array_type_to_plain
from sim.adapters.capture.graph.unsavable import UnsavableError

Array = np.ndarray[Any, Any]


def is_array(value: Any) -> bool:
    """Return True for an array of NumPy's own class."""
    return type(value) is np.ndarray


def has_memory(array: Array) -> bool:
    """Return False for a view, whose memory is another array's, and for an array of objects."""
    return type(array.base) is not np.ndarray and not array.dtype.hasobject


def memory_of(array: Array) -> Array:
    """The memory of an array that has its own, as a flat array of bytes."""
    flat = array if array.flags.c_contiguous else array.T if array.flags.f_contiguous else np.ascontiguousarray(array)
    return flat.reshape(-1).view(np.uint8)


def layout_seal(array: Array) -> tuple[Any, ...] | None:
    """What layout_of depends on, quicker to compare; None for a view, or an array of objects."""
    return (array.shape, array.strides, array.dtype, array.flags.num) if has_memory(array) else None


def layout_of(array: Array) -> tuple[list[Any], tuple[Any, ...]]:
    """Plain data of an array, and the array whose memory it views or its objects. Raises UnsavableError."""
    try:
        dtype = array_type_to_plain(array.dtype)
    except UnsavableError as error:
        error.value = array
        raise
    base = array.base
    if base is not None and type(base) not in (np.ndarray, bytes):
        raise UnsavableError(f"an array over the memory of a {type(base).__qualname__}", "keep a copy of it", array)
    if type(base) is not np.ndarray:
        is_fortran = bool(array.flags.f_contiguous and not array.flags.c_contiguous)
        held = tuple(array.ravel("F" if is_fortran else "C")) if dtype == OBJECTS else ()
        return [dtype, list(array.shape), is_fortran, bool(array.flags.writeable)], held
    if dtype == OBJECTS:
        raise UnsavableError("it is a view of an array of objects", "keep a copy of it", array)
    while type(base.base) is np.ndarray:
        base = base.base
    return view_layout(array, base), (base,)


def owner_layout(array: Array) -> list[Any]:
    """Plain data of an array in C order, as layout_of gives it for one that owns its memory."""
    return [array_type_to_plain(array.dtype), list(array.shape), False, bool(array.flags.writeable)]


def view_layout(array: Array, base: Array) -> list[Any]:
    """Plain data of an array as a view of the memory of a base."""
    offset = array.__array_interface__["data"][0] - base.__array_interface__["data"][0]
    strides = list(array.strides)
    if array.ndim and min(array.shape) < 2:
        # Along an axis of one item or none any stride is as good, and a view of an array made again may have another one.
        step = array.itemsize
        for axis in reversed(range(array.ndim)):
            if array.shape[axis] < 2:
                strides[axis] = step
            step *= max(1, array.shape[axis])
    return [array_type_to_plain(array.dtype), list(array.shape), strides, offset, bool(array.flags.writeable)]


def owns_memory(plain: Sequence[Any]) -> bool:
    """Return True if layout_of gave this for an array that is no view of another one."""
    return len(plain) == 4


def make_array(plain: Any, parts: Sequence[Any], memory: bytes | None) -> Array:
    """The array of layout_of, writeable. memory: of an array that owns it. Raises ValueError."""
    match plain, parts:
        case [["|O", list(shape), bool(is_fortran), bool()], []]:
            return np.empty(tuple(shape), object, order="F" if is_fortran else "C")
        case [[dtype, list(shape), bool(is_fortran), bool()], []]:
            flat = np.frombuffer(memory or b"", array_type_from_plain(dtype))
            made: Array = flat.reshape(tuple(shape), order="F" if is_fortran else "C").copy("F" if is_fortran else "C")
            return made
        case [[dtype, list(shape), list(strides), int(offset), bool()], [np.ndarray() as base]] if dtype != OBJECTS:
            return np.ndarray(tuple(shape), array_type_from_plain(dtype), base, offset, tuple(strides))
    raise ValueError("expected an array")


def finish_array(array: Array, plain: Any, held: Sequence[Any]) -> None:
    """Fill an array of objects, and make the array read-only if it was.

    That comes after all views, since one may be writeable when its base is not.
    """
    if plain[0] == OBJECTS:
        if len(held) != array.size:
            raise ValueError("expected as many objects as an array has room for")
        flat = array.reshape(
            -1, order="F" if plain[2] else "C"
        )  # Not by one assignment: it would look into objects that are sequences.
        for index, one in enumerate(held):
            flat[index] = one
    if not plain[-1]:
        array.flags.writeable = False
