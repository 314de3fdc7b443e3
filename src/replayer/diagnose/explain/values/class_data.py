"""The data that classes keep."""

from __future__ import annotations

import enum
from typing import Any

from replayer.diagnose.explain.value_hash import is_cache, is_data
from sim.enum_members import is_enums


def kept_by_classes(kind: type) -> dict[str, Any]:
    """The data that a class and those that it inherits from keep, by the names of the trace."""
    return {
        f"c{cls.__qualname__}:{name}": value
        for cls in kind.__mro__[:-1]
        for name, value in vars(cls).items()
        if is_kept(cls, name, value) or is_cache(value)
    }


def is_kept(kind: type, name: str, value: Any) -> bool:
    """Return True if a class keeps data under a name; not what Python keeps for an enumeration beside its members."""
    if name.startswith("__") or (isinstance(kind, enum.EnumMeta) and is_enums(name)):
        return False
    return is_data(value) and not hasattr(value, "__get__")
