"""Identify any value of a step by 64 bits: two processes can compare their values by these digests.

Equal values give equal digests in every process: no memory address and no hash of Python goes into them. The order of a
set does not count, since only iterating it shows one; that of a dict and a list does. A value that cannot be read (a
file, an object of an extension) counts by its type alone.
"""

from __future__ import annotations

import random
import struct
from collections import deque
from collections.abc import Callable, Mapping
from functools import cache
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np
import xxhash

from sim.kernel.state import Snapshot, State

PARTS_MAX = 20_000  # Of one value; of a larger one, the first parts and the size count.
PART_BYTES = 1600  # Reading one part takes as long as hashing this many bytes.
LEVELS_MAX = 12  # Nested containers and objects deeper than this count by their type.
TEXT_CHARS_MAX = 80  # Of a value that is shown.

_DOUBLE = struct.Struct("<d")
_PLAIN = (type(None), bool, int, str, bytes, complex, Ellipsis.__class__, range, slice)
_BY_NAME = (FunctionType, BuiltinFunctionType, ModuleType, type)


def is_cache(value: Any) -> bool:
    """Return True if value is a function with functools.lru_cache around it."""
    return callable(getattr(type(value), "cache_info", None))


def is_data(value: Any) -> bool:
    """Return True if a step may change value: if it is not a function, a class or a module."""
    return not isinstance(value, (*_BY_NAME, staticmethod, classmethod, property)) and not callable(value)


class Digester:
    """Makes digests, and counts the bytes that were hashed for them."""

    def __init__(self, state_offset_of: Callable[[Any], int | None] = lambda _: None) -> None:
        """state_offset_of: the offset of an array in the state's memory, or None; that memory is not hashed."""
        self._state_offset_of = state_offset_of
        self.hashed_bytes = 0
        self.parts = 0  # Of the last value.

    def digest(self, value: Any) -> int:
        """64 bits that identify value."""
        hasher, left = xxhash.xxh3_64(), [PARTS_MAX]
        self._feed(hasher, value, 0, {}, left)
        self.parts = PARTS_MAX - left[0]
        self.hashed_bytes += self.parts * PART_BYTES
        return hasher.intdigest()

    def _feed(self, hasher: Any, value: Any, level: int, seen: dict[int, int], left: list[int]) -> None:
        left[0] -= 1
        kind = type(value)
        if kind in _PLAIN:  # Most values, and so first.
            hasher.update(f"{kind.__name__}:{value!r}".encode("utf-8", "surrogatepass"))
            return
        if kind is float:
            hasher.update(b"float:" + _DOUBLE.pack(value))  # By bytes: -0.0 is not 0.0, and a NaN is itself.
            return
        if isinstance(value, np.ndarray) and not value.ndim and self._is_outside_state(value):
            value = np.asarray(value)[()]  # Arithmetic turns such arrays into scalars, which a load then restores.
            kind = type(value)
        hasher.update(b"array:" if isinstance(value, np.ndarray) else f"{kind.__name__}:".encode())
        if isinstance(value, float):
            hasher.update(_DOUBLE.pack(value))
        elif isinstance(value, np.ndarray):
            self._feed_array(hasher, value, level, seen, left)
        elif isinstance(value, np.generic):
            hasher.update(value.dtype.str.encode() + value.tobytes())
        elif isinstance(value, State | Snapshot):
            pass  # Its fields are watched one by one.
        elif isinstance(value, _BY_NAME):
            hasher.update(f"{value.__module__ if not isinstance(value, ModuleType) else ''}.{value.__name__}".encode())
        elif is_cache(value):
            hasher.update(str(value.cache_info().currsize).encode())
        elif level >= LEVELS_MAX or left[0] < 0:
            hasher.update(str(len(value)).encode() if isinstance(value, list | tuple | dict | set) else b"")
        elif id(value) in seen:
            hasher.update(f"again {seen[id(value)]}".encode())
        else:
            seen[id(value)] = len(seen)
            self._feed_parts(hasher, value, level + 1, seen, left)

    def _is_outside_state(self, array: Any) -> bool:
        """Return True if an array holds plain values outside the state's memory."""
        plain = np.asarray(array)
        return not plain.dtype.hasobject and self._state_offset_of(plain) is None

    def _feed_array(self, hasher: Any, value: Any, level: int, seen: dict[int, int], left: list[int]) -> None:
        plain = np.asarray(value)
        hasher.update(f"{plain.dtype.str}{plain.shape}".encode())
        offset = self._state_offset_of(plain)
        if offset is not None:
            hasher.update(f"state {offset} {plain.strides}".encode())
        elif plain.dtype.hasobject:
            self._feed(hasher, plain.tolist(), level + 1, seen, left)
        else:
            self.hashed_bytes += plain.nbytes
            hasher.update(np.ascontiguousarray(plain).view(np.uint8).data if plain.ndim else plain.tobytes())

    def _feed_parts(self, hasher: Any, value: Any, level: int, seen: dict[int, int], left: list[int]) -> None:
        match value:
            case list() | tuple() | deque():
                hasher.update(str(len(value)).encode())
                for part in value:
                    if left[0] < 0:
                        break
                    self._feed(hasher, part, level, seen, left)
            case set() | frozenset():
                hasher.update(",".join(map(str, sorted(self.digest(part) for part in value))).encode())
            case Mapping() if isinstance(value, dict):
                for key, part in value.items():
                    if left[0] < 0:
                        break
                    self._feed(hasher, key, level, seen, left)
                    self._feed(hasher, part, level, seen, left)
            case MethodType():
                hasher.update(value.__func__.__qualname__.encode())
            case _:
                for name, part in (_generator_state(value) or attributes_of(value)).items():
                    hasher.update(name.encode())
                    self._feed(hasher, part, level, seen, left)


def _generator_state(value: Any) -> dict[str, Any] | None:
    """The complete state of a random generator; None if value is not a generator."""
    match value:
        case random.Random():
            return {"state": value.getstate()}
        case np.random.Generator():
            return dict(value.bit_generator.state)
        case np.random.BitGenerator():
            return dict(value.state)
    return None


@cache
def _slots_of(kind: type) -> list[tuple[str, Any]]:
    """Names and members of the slots of a class."""
    members = []
    for cls in kind.__mro__:
        slots = cls.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            member = cls.__dict__.get(name)
            if name not in {"__weakref__", "__dict__"} and member is not None:
                members.append((name, member))
    return members


def attributes_of(value: Any) -> dict[str, Any]:
    """The values in an object's dictionary and slots; no property and no __getattr__ is run."""
    attributes: dict[str, Any] = {}
    for name, member in _slots_of(type(value)):  # type: ignore[arg-type] # A class is hashable.
        try:
            attributes[name] = member.__get__(value)
        except AttributeError:
            continue  # An empty slot.
    own = getattr(value, "__dict__", None)
    return attributes | own if isinstance(own, dict) else attributes


def text_of(value: Any) -> str:
    """A short text of a value, for people. It runs no code of the user's."""
    if type(value) in _PLAIN or isinstance(value, float):
        text = repr(value)
    elif isinstance(value, np.ndarray):
        plain = np.asarray(value)
        shape = "×".join(map(str, plain.shape)) or "one"
        text = f"{shape} {plain.dtype}"
        if plain.size <= 6 and not plain.dtype.hasobject:
            text += f" {plain.tolist()}"
    elif isinstance(value, np.generic):
        text = f"{value.dtype} {value.item()!r}"
    elif is_cache(value):
        text = f"a cache of {value.cache_info().currsize}"
    elif type(value) in {list, tuple, dict, set, frozenset}:
        text = _text_of_many(value)
    else:
        text = _text_of_generator(value) or f"a {type(value).__name__}"
    text = " ".join(text.split())
    return text if len(text) <= TEXT_CHARS_MAX else text[: TEXT_CHARS_MAX - 1] + "…"


def _text_of_generator(value: Any) -> str | None:
    """The state of a random generator as text, large parts as hashes; None if value is not a generator."""
    state = _generator_state(value)
    if state is None:
        return None
    name = state.pop("bit_generator", type(value).__name__)
    digest = Digester().digest
    shown = [
        f"{key} {part}" if type(part) is int else f"{key} {digest(part):016x}"
        for key, part in state.items()
        if type(part) is not int or part  # Buffers are mostly empty.
    ]
    return f"{name}: {', '.join(shown)}"


def _text_of_many(value: Any) -> str:
    shown = list(value.items() if isinstance(value, dict) else value)[:8]
    parts = [f"{text_of(part[0])}: {text_of(part[1])}" if isinstance(value, dict) else text_of(part) for part in shown]
    inside = ", ".join(parts) + (f", … ({len(value):,})" if len(value) > len(shown) else "")
    left, right = "[]" if isinstance(value, list) else "()" if isinstance(value, tuple) else "{}"
    return f"{left}{inside}{right}" if value or type(value) in {list, tuple, dict} else "set()"
