"""Mutable bytes and numbers: bytearray, array.array, and memoryviews of them."""

from __future__ import annotations

import array
from collections.abc import Sequence
from typing import Any

import numpy as np

from sim.adapters.capture.graph.kinds.kind_protocol import Plain, StrongKind, wrong_data
from sim.adapters.capture.graph.unsavable import UnsavableError

TYPE_CODES = "bBhHiIlLqQfd"  # Not of texts: invalid code points in them end the interpreter's work when they are read.
VIEW_FORMATS = TYPE_CODES + "?c"


class ByteArray(StrongKind):
    """A bytearray: its content."""

    name = "bytearray"

    def take(self, value: bytearray) -> tuple[Plain, tuple[Any, ...]]:
        """The content."""
        return bytes(value), ()

    def make(self, plain: Plain, parts: Sequence[Any]) -> Any:
        """A bytearray of this content."""
        if type(plain) is bytes and not parts:
            return bytearray(plain)
        raise wrong_data(self.name)


class NumberArray(StrongKind):
    """An array of the module array: its type code, size of an element and content."""

    name = "array"

    def take(self, value: array.array[Any]) -> tuple[Plain, tuple[Any, ...]]:
        """The type code, the size of an element and the content."""
        if value.typecode not in TYPE_CODES:
            raise UnsavableError(f"array({value.typecode!r}) of characters", "keep a list or a str instead")
        return [value.typecode, value.itemsize, value.tobytes()], ()

    def make(self, plain: Plain, parts: Sequence[Any]) -> Any:
        """An array of this content."""
        match plain, parts:
            case [str(code), int(size), bytes(content)], [] if len(code) == 1 and code in TYPE_CODES:
                made = array.array(code)
                if made.itemsize == size and len(content) % size == 0:
                    made.frombytes(content)
                    return made
        raise wrong_data(self.name)


class MemoryView(StrongKind):
    """A memoryview of one dimension over bytes, a bytearray or an array: its format, place, length and stride."""

    name = "memoryview"

    def take(self, value: memoryview) -> tuple[Plain, tuple[Any, ...]]:
        """[format, offset in bytes, number of elements, stride in bytes, read-only] and the owner of the memory."""
        try:
            owner = value.obj
        except ValueError:
            raise UnsavableError("a memoryview that was released", "delete it") from None
        if type(owner) not in (bytes, bytearray, array.array) or value.ndim != 1 or value.format not in VIEW_FORMATS:
            raise UnsavableError(
                f"a memoryview over {type(owner).__qualname__} of format {value.format!r}",
                "keep a bytearray, an array.array or a NumPy array instead",
            )
        (count,), (stride,) = value.shape or (0,), value.strides or (0,)
        if stride % value.itemsize:
            raise UnsavableError("a memoryview whose stride is not a multiple of its element", "keep a NumPy array")
        offset = _address(value) - _address(memoryview(owner)) if count else 0
        return [value.format, offset, count, stride, value.readonly], (owner,)

    def make(self, plain: Plain, parts: Sequence[Any]) -> Any:
        """A view of the same bytes. The owner has its content already: it was made with it."""
        match plain, parts:
            case (
                [str(code), int(offset), int(count), int(stride), bool(is_readonly)],
                [owner],
            ) if type(owner) in (bytes, bytearray, array.array) and len(code) == 1 and code in VIEW_FORMATS:
                made = _view_of(owner, code, offset, count, stride)
                if made is not None and len(made) == count:
                    return made.toreadonly() if is_readonly else made
        raise wrong_data(self.name)


def _address(view: memoryview) -> int:
    """The address of the first element."""
    return int(np.asarray(view).__array_interface__["data"][0])


def _view_of(owner: Any, code: Any, offset: int, count: int, stride: int) -> memoryview | None:
    size = np.dtype("S1" if code == "c" else code).itemsize
    steps, rest = divmod(stride, size)
    view: Any = memoryview(owner)
    if rest or not steps or count < 0:
        return None
    if count == 0:
        if view.format != code and view.nbytes >= size:
            view = view.cast("B")[: view.nbytes // size * size].cast(code)
        return view[:0:steps] if view.format == code else None
    low = offset + min(0, (count - 1) * stride)
    high = low + (count - 1) * abs(stride) + size
    if low < 0 or high > view.nbytes:
        return None
    made: memoryview = view.cast("B")[low:high].cast(code)[::steps]
    return made
