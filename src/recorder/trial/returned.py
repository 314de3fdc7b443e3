"""What a step returned, as digests by path, so that two runs are compared by value.

Equal values of equal types have equal digests: arrays by dtype, shape and bytes, floats by their bits, dicts by key in
any order, sets by their elements in any order, objects by their class and attributes. Addresses never count.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xxhash

LEAVES_MAX = 200  # Parts of one result that are told apart.
DEPTH_MAX = 12  # What lies deeper is not compared.

Leaves = dict[str, int]  # Digests by path.


def leaves_of(value: Any, names: Sequence[str] = (), root: str = "returned") -> Leaves:
    """The parts of what a step returned, by path. names: of the items of a tuple, if it has that many."""
    leaves: Leaves = {}
    if isinstance(value, tuple) and names and len(value) == len(names):
        for name, part in zip(names, value, strict=True):
            _collect(leaves, name, part, 1)
    else:
        _collect(leaves, root, value, 0)
    return leaves


def differing_leaves(expected: Leaves, actual: Leaves) -> tuple[str, ...]:
    """The paths at which two results differ."""
    if expected == actual:
        return ()
    missing = object()
    return tuple(path for path in {**expected, **actual} if expected.get(path, missing) != actual.get(path, missing))


def _collect(leaves: Leaves, path: str, value: Any, depth: int) -> None:
    is_room = len(leaves) + _length(value) <= LEAVES_MAX and depth < 4
    if is_room and type(value) is dict and value and all(isinstance(key, str | int) for key in value):
        for key, part in value.items():
            _collect(leaves, f"{path}[{key!r}]", part, depth + 1)
    elif is_room and isinstance(value, tuple | list) and 0 < len(value) <= 16:
        for index, part in enumerate(value):
            _collect(leaves, f"{path}[{index}]", part, depth + 1)
    else:
        leaves[path] = digest_of(value)


def _length(value: Any) -> int:
    return len(value) if isinstance(value, dict | tuple | list) else 1


def digest_of(value: Any) -> int:
    """The digest of a value."""
    return xxhash.xxh3_64_intdigest(_encoded(value, 0, ()))


def _encoded(value: Any, depth: int, holders: tuple[int, ...]) -> bytes:
    """Bytes that are equal for equal values. holders: the ids of the values around it, to stop at cycles."""
    kind = type(value)
    if value is None or kind in (bool, int, str, bytes):
        return f"{kind.__name__}:{value!r}".encode("utf-8", "surrogatepass")
    if kind is float:
        return f"float:{value.hex()}".encode()
    if isinstance(value, np.ndarray) and not value.dtype.hasobject:
        return f"{value.dtype.str}{value.shape}".encode() + np.ascontiguousarray(value).tobytes()
    if isinstance(value, np.generic) and not value.dtype.hasobject:
        return f"number {value.dtype.str}".encode() + value.tobytes()
    if depth >= DEPTH_MAX or id(value) in holders:
        return f"deep {kind.__qualname__}".encode()
    inside = (*holders, id(value))

    def parts(items: Any) -> list[bytes]:
        return [_framed(_encoded(item, depth + 1, inside)) for item in items]

    name = kind.__qualname__.encode()
    if isinstance(value, Mapping):
        pairs = zip(parts(value.keys()), parts(value.values()), strict=True)
        return name + b"".join(sorted(key + item for key, item in pairs))
    if isinstance(value, set | frozenset):
        return name + b"".join(sorted(parts(value)))
    if isinstance(value, np.ndarray):
        return name + str(value.shape).encode() + b"".join(parts(value.reshape(-1).tolist()))
    if isinstance(value, Sequence):
        return name + b"".join(parts(value))
    attributes = getattr(value, "__dict__", None)
    if type(attributes) is dict and not callable(value):
        return name + _encoded(attributes, depth + 1, inside)
    return name  # Of C code, a function, a generator: only its class counts.


def _framed(part: bytes) -> bytes:
    return len(part).to_bytes(8, "little") + part
