"""Corrupt the payload of a message: deterministically, to a value of the same type.

integer         plus one; the largest becomes the smallest (64 bits, signed or unsigned)
boolean         negated
float           with the opposite sign
text, bytes     with a prefix
fixed point     with the opposite sign; in a vector, the first number that is not 0: {"fixed": n} and {"vector": [n, ...]}, Q32.32 as integers
list, array     the first element that can be corrupted
table           the value of the last key that can be corrupted: the first keys usually name its type
none            unchanged
"""

from __future__ import annotations

from typing import Any

import numpy as np

INT_MAX = (1 << 63) - 1
UINT_MAX = (1 << 64) - 1  # The largest integer in plain data.
TEXT_PREFIX = "corrupted:"


def corrupt(payload: Any) -> Any:
    """A corrupted copy of plain data; the payload itself if nothing in it can be corrupted."""
    match payload:
        case bool():
            return not payload
        case int():
            return -INT_MAX - 1 if payload in {INT_MAX, UINT_MAX} else payload + 1
        case float():
            return -payload
        case str():
            return TEXT_PREFIX + payload
        case bytes():
            return TEXT_PREFIX.encode() + payload
        case np.ndarray() | np.generic():
            return _corrupt_array(payload)
        case list():
            return _corrupt_one(payload, list(payload), range(len(payload)))
        case tuple():
            changed = _corrupt_one(payload, list(payload), range(len(payload)))
            return payload if changed is payload else tuple(changed)
        case {"fixed": number} if len(payload) == 1 and _is_fixed(number):
            return {"fixed": min(INT_MAX, -number)} if number else payload
        case {"vector": list(numbers)} if len(payload) == 1 and all(map(_is_fixed, numbers)):
            return _negate_first(payload, numbers)
        case dict():
            return _corrupt_one(payload, dict(payload), reversed(list(payload)))
    return payload


def _is_fixed(number: Any) -> bool:
    return type(number) is int and -INT_MAX - 1 <= number <= INT_MAX


def _negate_first(payload: Any, numbers: list[int]) -> Any:
    """Negate the first number that is not 0."""
    index = next((index for index, number in enumerate(numbers) if number), None)
    if index is None:
        return payload
    return {"vector": [*numbers[:index], min(INT_MAX, -numbers[index]), *numbers[index + 1 :]]}


def _corrupt_one(payload: Any, copy: Any, keys: Any) -> Any:
    for key in keys:
        changed = corrupt(copy[key])
        if changed is not copy[key]:
            copy[key] = changed
            return copy
    return payload


def _corrupt_array(array: Any) -> Any:
    copy = np.array(array)
    flat = copy.reshape(-1)
    if not flat.size:
        return array
    if flat.dtype.kind == "b":
        flat[0] = not flat[0]
    elif flat.dtype.kind in "iu":
        bounds = np.iinfo(flat.dtype)
        flat[0] = bounds.min if flat[0] == bounds.max else flat[0] + flat.dtype.type(1)
    else:
        flat[0] = -flat[0]
    return copy[()] if isinstance(array, np.generic) else copy
