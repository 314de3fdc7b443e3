"""The weak references to an object: those of the program, which may see its end, and those of a tool, which do not count."""

from __future__ import annotations

import weakref
from typing import Any


class ToolReference(weakref.ref[Any]):
    """A weak reference of a tool that looks on: a state is captured as if it did not exist."""

    __slots__ = ()


def is_referred_weakly(one: Any) -> bool:
    """Return True if a weak reference to an object exists that is not a tool's."""
    # Nearly all objects have none, and are not to be asked twice.
    return weakref.getweakrefcount(one) > 0 and any(type(ref) is not ToolReference for ref in weakref.getweakrefs(one))
