"""Read the types and the numbers of many objects at once: from their memory where its layout is known, else one by one.

Everything here is tested when it is first used, and has a slower way beside it. The objects must be alive.

Facts about CPython that this module relies on, and tests:
    1. The address of an object is its identity; the items of a tuple are addresses behind its head.
    2. The second word of an object is the address of its type; the third one of a float its bits.
    3. An integer has digits of 30 bits from its fourth word on. The third one is their number, negative for a negative
       integer; or, from Python 3.12 on, their number times 8, plus 1 for 0 and 2 for a negative integer.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from array import array
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

Values = tuple[Any, ...]
Integers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

_WORD_BYTES = 8
_TYPE, _FIRST, _SECOND = 1, 2, 3  # Words of an object.
_DIGIT_BITS = 30
_DIGIT = (1 << _DIGIT_BITS) - 1
_WORDS = 1 << 44  # All addresses that a program can have on the usual machines of 64 bits. Only given ones are read.

_PROBES: Values = (
    0, 1, -1, 255, _DIGIT, -_DIGIT, _DIGIT + 1, -_DIGIT - 1, (1 << 60) - 1, 1 - (1 << 60), 1 << 60, 1 << 62, -(1 << 63),
    0.0, -0.0, 1.5, float("inf"), float("nan"), True, False, None, "a", b"a", (), (1,), [], {}, int, object(),
)  # fmt: skip


def identities(values: Values) -> Integers:
    """The identities of a tuple's items, as a view of the tuple's own memory where possible; it must outlive that."""
    return _pointers(values) if pointers_are_known() else np.fromiter(map(id, values), np.int64, len(values))


def kinds_of(addresses: Integers, values: Callable[[], list[Any]]) -> Integers:
    """The identities of the types of objects. values: returns the same objects."""
    if _types_are_known():
        return _word(addresses, _TYPE)
    listed = values()
    return np.fromiter(map(id, map(type, listed)), np.int64, len(listed))


def float_bits(addresses: Integers, values: Callable[[], list[float]]) -> Integers:
    """The bits of floats. values: returns the same objects."""
    if _floats_are_known():
        return _word(addresses, _FIRST)
    found: Integers = np.frombuffer(array("d", values()), np.int64)
    return found


def integers(addresses: Integers, values: Callable[[], list[int]]) -> tuple[Integers, Mask]:
    """The values of integers, and for each False if it was not read. Those of up to 60 bits are."""
    read = _integer_reader()
    if read is not None:
        return read(addresses)
    listed = values()
    is_read = np.array([abs(one) >> 2 * _DIGIT_BITS == 0 for one in listed], bool)
    return np.array([one if fits else 0 for one, fits in zip(listed, is_read.tolist(), strict=True)], np.int64), is_read


# --- memory


def _pointers(values: Values) -> Integers:
    start = (id(values) + tuple.__basicsize__ >> 3) - 1
    return all_memory()[start : start + len(values)]


@functools.cache
def all_memory() -> Integers:
    """All memory behind the first word: printing it, or any other look at all of it, ends the program."""
    words: Any = (ctypes.c_int64 * _WORDS).from_address(_WORD_BYTES)
    found: Integers = np.frombuffer(words, np.int64)
    return found


def _word(addresses: Integers, index: int) -> Integers:
    found: Integers = all_memory().take((addresses >> 3) + (index - 1))
    return found


def _signed_count(addresses: Integers) -> tuple[Integers, Integers]:
    count = _word(addresses, _FIRST)
    return np.abs(count), np.sign(count)


def _tagged_count(addresses: Integers) -> tuple[Integers, Integers]:
    tag = _word(addresses, _FIRST)
    return tag >> 3, 1 - (tag & 3)


def _read_integers(
    counted: Callable[[Integers], tuple[Integers, Integers]], addresses: Integers
) -> tuple[Integers, Mask]:
    count, sign = counted(addresses)
    digits = _word(addresses, _SECOND)
    high = np.where(count > 1, (digits >> 32) & _DIGIT, 0)
    found: Integers = ((high << _DIGIT_BITS) | (digits & _DIGIT)) * sign
    return found, count <= 2


# --- what is known


@functools.cache
def pointers_are_known() -> bool:
    """Return True if this Python keeps the items of a tuple where they are read."""
    if ctypes.sizeof(ctypes.c_void_p) != _WORD_BYTES or sys.byteorder != "little":
        return False
    return bool(_pointers(_PROBES).tolist() == list(map(id, _PROBES)))


@functools.cache
def _types_are_known() -> bool:
    if not pointers_are_known():
        return False
    addresses = _pointers(_PROBES)
    is_in_reach = bool((addresses & 7 == 0).all() and (addresses > 0).all() and (addresses < _WORDS << 3).all())
    return is_in_reach and _word(addresses, _TYPE).tolist() == list(map(id, map(type, _PROBES)))


@functools.cache
def _floats_are_known() -> bool:
    if not _types_are_known():
        return False
    floats = tuple(one for one in _PROBES if type(one) is float)
    return _word(_pointers(floats), _FIRST).tobytes() == array("d", floats).tobytes()


@functools.cache
def _integer_reader() -> Callable[[Integers], tuple[Integers, Mask]] | None:
    if not _types_are_known():
        return None
    probes = tuple(one for one in _PROBES if type(one) is int)
    are_small = [abs(one) >> 2 * _DIGIT_BITS == 0 for one in probes]
    for counted in (_signed_count, _tagged_count):
        found, is_read = _read_integers(counted, _pointers(probes))
        small = [one for one, fits in zip(probes, are_small, strict=True) if fits]
        if is_read.tolist() == are_small and found[is_read].tolist() == small:
            return functools.partial(_read_integers, counted)
    return None
