"""Objects of C code that a reset does not make again: what an episode leaves in them cannot be read or restored."""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any

from sim.adapters.capture.digest.attribute_reader import AttributeReader
from sim.adapters.capture.digest.value_contents import HANDLE
from sim.adapters.capture.native_objects import is_native
from sim.kernel.class_names import package_of

VALUES_MAX = 2_000  # Further values are not inspected: the result names examples.
_NOT_STATE = ("", "builtins", "numpy", "_thread")  # Packages of arrays, which are looked into elsewhere, and of locks.


def find_compiled_objects(values: Mapping[str, Any]) -> dict[str, weakref.ref[Any]]:
    """The objects of unknown C code that values lead to, by their full names, if weak references allow it.

    A weak reference keeps no physics world alive that a reset drops.
    """
    waiting = deque(values.items())
    seen: dict[int, Any] = {}
    found: dict[str, weakref.ref[Any]] = {}
    while waiting and len(seen) < VALUES_MAX:
        name, value = waiting.popleft()
        if id(value) in seen:
            continue
        seen[id(value)] = value
        if _is_compiled(value):
            found[name] = weakref.ref(value)
        else:
            waiting.extend((f"{name}{step}", inner) for step, inner in _inside(value))
    return found


def outlived(before: Mapping[str, weakref.ref[Any]], after: Mapping[str, weakref.ref[Any]]) -> list[str]:
    """The names whose object is the same in both."""
    return sorted(name for name, one in after.items() if name in before and one() is before[name]() is not None)


def _is_compiled(value: Any) -> bool:
    kind = type(value)
    if type(getattr(value, "__dict__", {}).get("this")).__name__ == HANDLE:
        return True
    if kind.__weakrefoffset__ == 0 or package_of(kind) in _NOT_STATE or is_native(value):
        return False
    return AttributeReader(kind, b"").is_opaque


def _inside(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        yield from ((f"[{key!r}]", inner) for key, inner in value.items())
    elif isinstance(value, list | tuple | deque):
        yield from ((f"[{index}]", inner) for index, inner in enumerate(value))
    elif isinstance(getattr(value, "__dict__", None), dict):
        yield from ((f".{name}", inner) for name, inner in vars(value).items())
