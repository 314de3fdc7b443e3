"""The data that classes keep."""

from __future__ import annotations

import enum
from abc import ABCMeta
from functools import cache
from itertools import product
from types import CodeType, FunctionType
from typing import Any

from recorder.ambient.process_wide import registered_classes
from recorder.ambient.roots import content_of, is_users
from replayer.diagnose.explain.texts.value_texts import MembersByName
from replayer.diagnose.explain.value_hash import is_cache, is_data
from sim.enum_members import is_enums

BY_NAME = 1000  # In place of the number of arguments before one that is passed by its name only.
_NONE: Any = object()


def asked_of_class(kind: Any, label: str) -> dict[str, Any]:
    """What code may ask a class of the user's itself: which others isinstance() takes for it, the members of an enumeration."""
    if not isinstance(kind, type) or not is_users(kind.__module__):
        return {}
    if isinstance(kind, ABCMeta):
        return {label: [one.__qualname__ for one in registered_classes(kind)]}
    if isinstance(kind, enum.EnumMeta):
        members = vars(kind).get("_member_map_", {})
        values = {name: (content_of(one) or {}).get("_value_") for name, one in members.items()}
        return {label: MembersByName(values)}
    return {}


def kept_by_classes(kind: type) -> dict[str, Any]:
    """The data that a class and those that it inherits from keep, by the names of the trace."""
    return {
        f"c{cls.__qualname__}:{name}": value
        for cls in kind.__mro__[:-1]
        for name, value in vars(cls).items()
        if is_kept(cls, name, value) or is_cache(value)
    }


def named_class(kind: type, module: str, code: CodeType) -> dict[str, Any]:
    """What code of a module may read of a class of the user's that it names: of one of another module, what it names."""
    if not is_users(kind.__module__):
        return {}
    content = vars(kind)
    names = list(content) if kind.__module__ == module else [name for name in code.co_names if name in content]
    kept = {f"c{kind.__qualname__}:{name}": content[name] for name in names if is_kept(kind, name, content[name])}
    return default_values(kind) | kept


def default_values(kind: type) -> dict[str, Any]:
    """What a constructor that was made for a class, as by dataclasses, attrs and NamedTuple, gives an attribute itself.

    By the names of the trace: the class, with the number of arguments that a call passes before this one.
    """
    found = ((name, _default_of(made, place)) for name, made, place in _defaults(kind))
    return {name: value for name, value in found if value is not _NONE and is_data(value)}


def _default_of(made: FunctionType, place: int | str) -> Any:
    """A default argument of a function now: by its place among those, or by its name for one that is passed by name only."""
    if isinstance(place, str):
        return (made.__kwdefaults__ or {}).get(place, _NONE)
    values = made.__defaults__ or ()
    return values[place] if place < len(values) else _NONE


@cache
def _defaults(kind: type) -> list[tuple[str, FunctionType, int | str]]:
    for base, key in product(kind.__mro__, ("__init__", "__new__")):
        made = vars(base).get(key)
        made = made.__func__ if isinstance(made, staticmethod) else made
        if not isinstance(made, FunctionType):
            continue
        if not made.__code__.co_filename.startswith("<"):  # Of a file: its lines are traced.
            return []
        label, code = f"c{kind.__qualname__}", made.__code__
        names = code.co_varnames[1 : code.co_argcount]
        first = len(names) - len(made.__defaults__ or ())
        by_place = [(f"{label}({number}):{names[number]}", made, number - first) for number in range(first, len(names))]
        return [*by_place, *((f"{label}({BY_NAME}):{name}", made, name) for name in made.__kwdefaults__ or ())]
    return []


def is_kept(kind: type, name: str, value: Any) -> bool:
    """Return True if a class keeps data under a name; not what Python keeps for an enumeration beside its members."""
    if name.startswith("__") or (isinstance(kind, enum.EnumMeta) and is_enums(name)):
        return False
    return is_data(value) and not hasattr(value, "__get__")
