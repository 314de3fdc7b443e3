"""Encode plain data as MessagePack and decode it: the inputs of a tick, metadata, headers of payloads.

Plain data is None, bool, int (64 bits), float, str, bytes, list, dict, and NumPy arrays and numbers. Arrays and numbers
are extension types with their dtype and shape, and are restored bit for bit. Tuples are restored as lists.

Decoding never runs code. The lengths in MessagePack are checked against the available bytes, and only numeric dtypes
are created.

Extension types:
    1  array   MessagePack [dtype, shape] and then the raw bytes, C order, little-endian
    2  number  the same with shape []; restored as a NumPy number
"""

from __future__ import annotations

import functools
import math
import re
import sys
from typing import Any

import msgpack
import numpy as np

ARRAY_EXTENSION = 1
NUMBER_EXTENSION = 2

_KINDS = "biufc"
_DTYPE_TEXT = re.compile(r"[<|][biufc]\d{1,2}")  # NumPy itself would parse far more, with SyntaxErrors.
_AXES_MAX = 32
# Extension -1 in every form that msgpack takes. Such bytes may also be part of a number: only the value decides.
_TIMESTAMP_BYTES = re.compile(
    rb"[\xd6\xd7]\xff|\xc7[\x04\x08\x0c]\xff|\xc8\0[\x04\x08\x0c]\xff|\xc9\0\0\0[\x04\x08\x0c]\xff"
)
TIMESTAMP_TYPE = 0xFF
BEFORE_TIMESTAMP = frozenset(b"\xd6\xd7\x04\x08\x0c")  # The byte before the type in each of these forms.
_TIMESTAMP_PAIRS = tuple(bytes([byte, TIMESTAMP_TYPE]) for byte in BEFORE_TIMESTAMP)
_CHECKS_MAX = 6  # This many checks take as long as a search for each pair.


def encode_plain(value: Any) -> bytes:
    """Encode value as MessagePack; equal values give equal bytes if their dicts have equal order.

    Raises TypeError for a value that is not plain data: sets, dates, enums, dataclasses and other objects would be
    restored as something else. Raises ValueError or OverflowError for an integer beyond 64 bits and for text that is
    not valid Unicode.
    """
    encoded: bytes = msgpack.packb(value, default=_encode_special, strict_types=True)
    refuse_timestamp(value, encoded)
    return encoded


class PlainEncoder:
    """An encoder for many values; each thread needs its own.

    Attributes:
        reorders: True if an array in the last value is restored with its numbers in another order of memory: it is
            transposed, strided or big-endian. Sums of it may then differ in the last bits.
    """

    def __init__(self) -> None:
        self._special = self.reorders = False
        # Types are strict, so that a subclass (an enum, a named tuple) is never written as its base class.
        self._packer = msgpack.Packer(default=self._encode_special, strict_types=True)

    def encode(self, value: Any) -> tuple[bytes, bool]:
        """The result of encode_plain, and True if every part of value is restored with the same type.

        False if there were tuples or NumPy numbers: one of them may be the key of a dict. An array cannot be one.
        """
        self._special = self.reorders = False
        kind = type(value)
        if kind is _ndarray or kind is dict:
            arrays = _encode_arrays(value)
            if arrays is not None:
                return arrays, True  # No timestamp can be among them.
        encoded: bytes = self._packer.pack(value)
        place = encoded.find(TIMESTAMP_TYPE)
        if place >= 0 and _may_be_timestamp(encoded, place):
            refuse_timestamp(value, encoded)
        return encoded, not self._special

    def _encode_special(self, value: Any) -> Any:
        if type(value) is _ndarray:  # Nearly always one that is written as it lies in memory.
            head = _head_as_it_is(value.dtype, value.shape)
            if head is not None and value.flags.c_contiguous:
                return _new_tuple(_ExtType, (ARRAY_EXTENSION, head + value.tobytes()))
        if isinstance(value, np.ndarray) and not (value.flags.c_contiguous and value.dtype.str[0] != ">"):
            self.reorders = True
        # Of the base class, which has no hash; and every such array can be decoded.
        if type(value) is np.ndarray and value.ndim <= _AXES_MAX and value.dtype.kind in _KINDS:
            return msgpack.ExtType(ARRAY_EXTENSION, _encode_array(value))
        self._special = True
        return _encode_special(value)


def _encode_special(value: Any) -> Any:
    if type(value) is tuple:
        return list(value)
    if isinstance(value, np.ndarray) and not _is_masked(value):
        return msgpack.ExtType(ARRAY_EXTENSION, _encode_array(value))
    if isinstance(value, np.generic):
        return msgpack.ExtType(NUMBER_EXTENSION, _encode_array(np.asarray(value)))
    if type(value) is int:
        raise OverflowError(f"{value} does not fit into 64 bits")
    raise _not_plain_data(value)


def _is_masked(value: Any) -> bool:
    """Return True for a masked array. Only a program that has imported its module can have one; the import takes 20 ms.

    While a different thread imports it, as np.unique does, it has no class yet.
    """
    kind = getattr(sys.modules.get("numpy.ma"), "MaskedArray", None)
    return kind is not None and isinstance(value, kind)


def _not_plain_data(value: Any) -> TypeError:
    return TypeError(
        f"{type(value).__name__} is not plain data: expected None, bool, int, float, str, bytes, list, dict, "
        "or NumPy arrays and NumPy numbers"
    )


def _may_be_timestamp(encoded: bytes, place: int) -> bool:
    """Return True if a byte 0xFF may be the type of a timestamp. place: of the first such byte.

    Numbers often have such bytes, but few of them. Checking these one by one takes less time than a search.
    """
    for _ in range(_CHECKS_MAX):
        if encoded[place - 1] in BEFORE_TIMESTAMP:
            return True
        place = encoded.find(TIMESTAMP_TYPE, place + 1)
        if place < 0:
            return False
    return any(map(encoded.__contains__, _TIMESTAMP_PAIRS))


def refuse_timestamp(value: Any, encoded: bytes) -> None:
    """Raise TypeError if a msgpack Timestamp is in value: msgpack writes and reads these without calling our hooks.

    encoded: value as bytes. Checking these first avoids a walk through nearly all values.
    """
    if TIMESTAMP_TYPE not in encoded or not any(map(encoded.__contains__, _TIMESTAMP_PAIRS)):
        return  # The search for pairs takes far less time than that for the expression.
    if not _TIMESTAMP_BYTES.search(encoded):
        return
    rest = [value]
    while rest:
        item = rest.pop()
        if type(item) is msgpack.Timestamp:
            raise _not_plain_data(item)
        if isinstance(item, dict):
            rest += [*item.keys(), *item.values()]
        elif isinstance(item, list | tuple):
            rest += item


def _encode_array(array: np.ndarray[Any, Any]) -> bytes:
    if array.dtype.kind not in _KINDS:
        raise TypeError(f"an array of dtype {array.dtype} is not plain data: expected booleans or numbers")
    text = array.dtype.str
    if text[0] not in "<|":
        array = array.astype(array.dtype.newbyteorder("<"))
        text = array.dtype.str
    return _head(text, array.shape) + array.tobytes()


def _encode_arrays(value: Any) -> bytes | None:
    """An array, or a dict of a few, that is written as it lies in memory, in one copy; None for anything else.

    Actions are often such arrays. msgpack calls Python for each, and copies it four times.
    """
    if type(value) is _ndarray:
        head = _before_memory(value.dtype, value.shape)
        return head + value.tobytes() if head is not None and value.flags.c_contiguous else None
    if not 0 < len(value) <= _SMALL_MAP_MAX:
        return None
    parts: list[Any] = [_SMALL_MAPS[len(value)]]
    for key, one in value.items():
        if type(one) is not _ndarray or type(key) is not str:
            return None
        head = _before_memory(one.dtype, one.shape, key)
        if head is None:
            return None
        parts += (head, one)
    try:
        return _join(parts)
    except (TypeError, ValueError, BufferError):
        return None  # One is not in C order.


_ndarray, _ExtType = np.ndarray, msgpack.ExtType  # Each look into a module counts here.
_join = b"".join
_SMALL_MAP_MAX = 15  # In MessagePack.
_SMALL_MAPS = [bytes([0x80 | size]) for size in range(_SMALL_MAP_MAX + 1)]
_HEADED_BYTES_MAX = 1 << 16  # An array whose head is made from one of its size.
_new_tuple = tuple.__new__  # msgpack checks the two parts of an ExtType in Python, which takes longer than all else.
_SMALL_INT_MAX, _NIL = 0x7F, 0xC0  # In MessagePack.


@functools.lru_cache(256)
def _head(dtype: str, shape: tuple[int, ...]) -> bytes:
    """What is before the bytes of an array: inputs have the same few shapes in each tick."""
    head: bytes = msgpack.packb([dtype, list(shape)])
    return head


@functools.lru_cache(256)
def _head_as_it_is(dtype: np.dtype[Any], shape: tuple[int, ...]) -> bytes | None:
    """_head for an array in C order; None if it is refused, converted or not sure to be decoded."""
    is_plain = dtype.kind in _KINDS and dtype.str[0] in "<|" and len(shape) <= _AXES_MAX
    return _head(dtype.str, shape) if is_plain else None


@functools.lru_cache(256)
def _before_memory(dtype: np.dtype[Any], shape: tuple[int, ...], key: str | None = None) -> bytes | None:
    """All that is before the bytes of an array in C order; None if it is large, refused or not sure to be decoded.

    key: of the array in a dict, which is before that.
    """
    head, size = _head_as_it_is(dtype, shape), math.prod(shape) * dtype.itemsize
    if head is None or size > _HEADED_BYTES_MAX:
        return None
    extension: bytes = msgpack.packb(msgpack.ExtType(ARRAY_EXTENSION, head + bytes(size)))
    encoded_key: bytes = b"" if key is None else msgpack.packb(key)
    return encoded_key + extension[: len(extension) - size]


def make_unpacker(data: bytes) -> msgpack.Unpacker:
    """An iterator over the MessagePack values in data, under the limits of the format."""
    unpacker = msgpack.Unpacker(
        ext_hook=_decode_extension,
        strict_map_key=False,
        max_buffer_size=len(data),
        raw=False,
    )
    unpacker.feed(data)
    return unpacker


def decode_plain(data: bytes) -> Any:
    """Decode the value that encode_plain wrote as data. Raises ValueError for any other bytes."""
    if len(data) == 1:  # Most inputs of environments: a small number is its own byte.
        if data[0] <= _SMALL_INT_MAX:
            return data[0]
        if data[0] == _NIL:
            return None
    try:
        value = msgpack.unpackb(data, ext_hook=_decode_extension, strict_map_key=False, raw=False)
        refuse_timestamp(value, data)
    except DECODE_ERRORS as error:
        raise ValueError(f"not MessagePack: {error}") from None
    return value


# The exceptions of msgpack for bytes that are not MessagePack, are cut off, nest too deeply or hold unhashable keys.
DECODE_ERRORS = (ValueError, TypeError, msgpack.exceptions.UnpackException, RecursionError, UnicodeDecodeError)


def _decode_extension(code: int, data: bytes) -> Any:
    if code not in (ARRAY_EXTENSION, NUMBER_EXTENSION):
        raise ValueError(f"extension type: expected {ARRAY_EXTENSION} or {NUMBER_EXTENSION}, got {code}")
    unpacker = msgpack.Unpacker(max_buffer_size=len(data), strict_map_key=True)
    unpacker.feed(data)
    match unpacker.unpack():
        case [str(name), list(shape)] if _DTYPE_TEXT.fullmatch(name) and len(shape) <= _AXES_MAX:
            dtype = np.dtype(name)
        case _:
            raise ValueError("an array without dtype and shape")
    if not all(isinstance(size, int) and size >= 0 for size in shape) or (shape and code == NUMBER_EXTENSION):
        raise ValueError(f"an array of dtype {dtype} and shape {shape}")
    start = unpacker.tell()
    if math.prod(shape) * dtype.itemsize != len(data) - start:
        raise ValueError(f"{len(data) - start} bytes for an array of {dtype} and shape {shape}")
    array = np.frombuffer(data, dtype, offset=start).reshape(shape) if len(data) > start else np.zeros(shape, dtype)
    return array[()] if code == NUMBER_EXTENSION else array.copy()
