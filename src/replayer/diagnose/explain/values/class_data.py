"""The data that classes keep."""

from __future__ import annotations

from typing import Any

from replayer.diagnose.explain.value_hash import is_cache, is_data


def kept_by_classes(kind: type) -> dict[str, Any]:
    """The data that a class and those that it inherits from keep, by the names of the trace."""
    return {
        f"c{cls.__qualname__}:{name}": value
        for cls in kind.__mro__[:-1]
        for name, value in vars(cls).items()
        if is_kept(name, value) or is_cache(value)
    }


def is_kept(name: str, value: Any) -> bool:
    """Return True if a class keeps data under a name."""
    return is_data(value) and not name.startswith("__") and not hasattr(value, "__get__")
