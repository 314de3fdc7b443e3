"""Bind a method that something outside an instance keeps to an object of the instance."""

from __future__ import annotations

from collections.abc import Mapping
from types import MethodType
from typing import Any

from recorder.ambient.replacement.named_values import Path, set_child

_OWNER = ("attribute", "__self__")


def bind_to(objects: Mapping[Path, Any], first: Path, path: Path) -> bool:
    """Put a method of the object at path in the place of one whose owner is at first; False if that is none.

    A method cannot be changed. Its owner outside is not the one whose attributes the state gave values. objects: by their paths.
    """
    if first[-1] != _OWNER:
        return False
    holder, method, owner = (objects.get(one) for one in (first[:-2], first[:-1], path))
    if type(method) is not MethodType or type(owner) is not type(method.__self__) or holder is None:
        return False
    set_child(holder, first[-2], MethodType(method.__func__, owner))
    return True
