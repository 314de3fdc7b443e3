"""Corrupt the payload of a message: always in the same way, always to something of the same type.

whole number    one more; behind the largest comes the smallest (64 bits, with or without a sign)
boolean         the other one
decimal         the other sign
text, bytes     with something before it
fixed point     the other sign, in a vector of the first that is not 0: {"fixed": n} and {"vector": [n, ...]}, Q32.32 as integers
list, array     the first element that can be corrupted
table           the value of the last key that can be corrupted: the first ones say what kind of thing it is
nothing         stays nothing
"""

from __future__ import annotations

from typing import Any

import numpy as np

INT_MAX = (1 << 63) - 1
UINT_MAX = (1 << 64) - 1  # Plain data holds whole numbers up to here.
TEXT_PREFIX = "corrupted:"


def corrupt(payload: Any) -> Any:
    """A corrupted copy of plain data; the payload itself where there is nothing to corrupt."""
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
            return _turn_first(payload, numbers)
        case dict():
            return _corrupt_one(payload, dict(payload), reversed(list(payload)))
    return payload


def _is_fixed(number: Any) -> bool:
    return type(number) is int and -INT_MAX - 1 <= number <= INT_MAX


def _turn_first(payload: Any, numbers: list[int]) -> Any:
    """The sign of the first number that has one."""
    place = next((place for place, number in enumerate(numbers) if number), None)
    if place is None:
        return payload
    return {"vector": [*numbers[:place], min(INT_MAX, -numbers[place]), *numbers[place + 1 :]]}


def _corrupt_one(payload: Any, copy: Any, places: Any) -> Any:
    for place in places:
        changed = corrupt(copy[place])
        if changed is not copy[place]:
            copy[place] = changed
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
