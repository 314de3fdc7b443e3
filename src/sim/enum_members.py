"""Members of enumerations as people name them. None of the user's code is run."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any

_NAME, _VALUE = "_name_", "_value_"


def member_name(member: Any) -> str | None:
    """A member as code names it; one without a name, such as some flags together, by its value. None for other values."""
    if not issubclass(type(member), enum.Enum):
        return None
    content = object.__getattribute__(member, "__dict__")
    name, kind = content.get(_NAME), type(member).__name__
    return f"{kind}({content.get(_VALUE)!r})" if name is None else f"{kind}.{name}"


def without_places(value: Any, content: dict[str, Any]) -> dict[str, Any]:
    """The attributes of a value, of a member without its place among the others: that is no value of its own."""
    if not issubclass(type(value), enum.Enum):
        return content
    return {name: one for name, one in content.items() if name in (_NAME, _VALUE) or not is_enums(name)}


def shown_attributes(content: Mapping[str, Any]) -> dict[str, Any]:
    """The value of a member, and what the user's class gives it besides."""
    return {"value": content.get(_VALUE)} | {name: one for name, one in content.items() if not is_enums(name)}


def is_enums(name: str) -> bool:
    """Return True for the names that Python keeps for enumerations."""
    return name.startswith("_") and name.endswith("_")
