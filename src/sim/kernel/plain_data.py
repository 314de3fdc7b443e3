"""Plain data as MessagePack and back: the inputs of a tick, metadata, heads of payloads.

Plain data is None, bool, int (64 bits), float, str, bytes, list, dict, and NumPy arrays and numbers, which travel as
extension types with their dtype and shape and come back bit for bit. Tuples come back as lists.

Decoding never runs code; MessagePack's lengths are checked against the bytes at hand, and only numeric dtypes are
made.

Extension types:
    1  array   MessagePack [dtype, shape] and then the raw bytes, C order, little-endian
    2  number  the same with shape []; comes back as a NumPy number
"""

from __future__ import annotations

import math
import re
from typing import Any

import msgpack
import numpy as np

ARRAY_EXTENSION = 1
NUMBER_EXTENSION = 2

_KINDS = "biufc"
_DTYPE_TEXT = re.compile(r"[<|][biufc]\d{1,2}")  # NumPy itself would parse far more, with SyntaxErrors.
_AXES_MAX = 32
# Extension -1 in every form that msgpack takes; whether such bytes are one, or part of a number, shows the value.
_TIMESTAMP_BYTES = re.compile(
    rb"[\xd6\xd7]\xff|\xc7[\x04\x08\x0c]\xff|\xc8\0[\x04\x08\x0c]\xff|\xc9\0\0\0[\x04\x08\x0c]\xff"
)
_BEFORE_TIMESTAMP = frozenset(b"\xd6\xd7\x04\x08\x0c")  # What stands before the type in each of them.
_LOOKS_MAX = 6  # As many take as long as looking for each pair.


def encode_plain(value: Any) -> bytes:
    """value as MessagePack; equal values give equal bytes as long as their dicts have equal order.

    Raises TypeError for what is not plain data: sets, dates, enums, dataclasses and other objects would come back as
    something else. Raises ValueError or OverflowError for an integer beyond 64 bits and for text that is no Unicode.
    """
    encoded: bytes = msgpack.packb(value, default=_encode_special, strict_types=True)
    _refuse_timestamp(value, encoded)
    return encoded


class PlainEncoder:
    """Encodes many values; one for each thread."""

    def __init__(self) -> None:
        self._special = False
        # Types are taken strictly, so that a subclass (an enum, a named tuple) is never written as its base class.
        self._packer = msgpack.Packer(default=self._encode_special, strict_types=True)

    def encode(self, value: Any) -> tuple[bytes, bool]:
        """What encode_plain gives, and whether value held nothing but what is sure to come back.

        False where there were tuples, arrays or NumPy numbers: one of them may be the key of a dict.
        """
        self._special = False
        encoded: bytes = self._packer.pack(value)
        place = encoded.find(0xFF)
        if place >= 0 and _may_be_timestamp(encoded, place):
            _refuse_timestamp(value, encoded)
        return encoded, not self._special

    def _encode_special(self, value: Any) -> Any:
        self._special = True
        return _encode_special(value)


def _encode_special(value: Any) -> Any:
    if type(value) is tuple:
        return list(value)
    if isinstance(value, np.ndarray) and not isinstance(value, np.ma.MaskedArray):
        return msgpack.ExtType(ARRAY_EXTENSION, _encode_array(value))
    if isinstance(value, np.generic):
        return msgpack.ExtType(NUMBER_EXTENSION, _encode_array(np.asarray(value)))
    if type(value) is int:
        raise OverflowError(f"{value} does not fit into 64 bits")
    raise _no_plain_data(value)


def _no_plain_data(value: Any) -> TypeError:
    return TypeError(
        f"{type(value).__name__} is no plain data: None, bool, int, float, str, bytes, list, dict, "
        "NumPy arrays and NumPy numbers are"
    )


def _may_be_timestamp(encoded: bytes, place: int) -> bool:
    """Whether one of the bytes 0xFF, of which the first is at place, may be the type of a timestamp.

    Numbers have such bytes often enough, but few: those are looked at one by one, which takes less than a search.
    """
    for _ in range(_LOOKS_MAX):
        if encoded[place - 1] in _BEFORE_TIMESTAMP:
            return True
        place = encoded.find(0xFF, place + 1)
        if place < 0:
            return False
    return any(bytes([byte, 0xFF]) in encoded for byte in _BEFORE_TIMESTAMP)


def _refuse_timestamp(value: Any, encoded: bytes) -> None:
    """Raise TypeError if a msgpack Timestamp is in value, which msgpack writes and reads without asking us.

    encoded: the same as bytes; a look at them spares the way through nearly all values.
    """
    if 0xFF not in encoded or not _TIMESTAMP_BYTES.search(encoded):
        return
    rest = [value]
    while rest:
        one = rest.pop()
        if type(one) is msgpack.Timestamp:
            raise _no_plain_data(one)
        if isinstance(one, dict):
            rest += [*one.keys(), *one.values()]
        elif isinstance(one, list | tuple):
            rest += one


def _encode_array(array: np.ndarray[Any, Any]) -> bytes:
    if array.dtype.kind not in _KINDS:
        raise TypeError(f"an array of dtype {array.dtype} is no plain data: booleans and numbers are")
    little = array.astype(array.dtype.newbyteorder("<"), copy=False)
    head: bytes = msgpack.packb([little.dtype.str, list(little.shape)])
    return head + little.tobytes()


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
    """The value that encode_plain wrote as data. Raises ValueError for any other bytes."""
    try:
        value = msgpack.unpackb(data, ext_hook=_decode_extension, strict_map_key=False, raw=False)
        _refuse_timestamp(value, data)
    except DECODE_ERRORS as error:
        raise ValueError(f"no MessagePack: {error}") from None
    return value


# What msgpack raises for bytes that are not MessagePack, are cut off, nest too deeply or hold unhashable keys.
DECODE_ERRORS = (ValueError, TypeError, msgpack.exceptions.UnpackException, RecursionError, UnicodeDecodeError)


def _decode_extension(code: int, data: bytes) -> Any:
    if code not in (ARRAY_EXTENSION, NUMBER_EXTENSION):
        raise ValueError(f"extension type {code} is not known")
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
