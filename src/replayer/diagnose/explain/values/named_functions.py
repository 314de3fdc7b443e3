"""Functions that a traced line may call by name: a step may have put others in their place."""

from __future__ import annotations

from types import CodeType, FunctionType, ModuleType
from typing import Any

from recorder.ambient.roots import is_users
from replayer.diagnose.explain.value_hash import is_cache, is_data


class NamedMethods:
    """The methods of the user's classes that code names, looked up once for each class and code."""

    def __init__(self) -> None:
        self._known: dict[tuple[type, CodeType], list[tuple[str, type, str]]] = {}

    def of(self, kind: type, code: CodeType) -> dict[str, Any]:
        """The methods of a class that a function's code names, by the names of values in a trace."""
        known = self._known.get((kind, code))
        if known is None:
            holders = [base for base in kind.__mro__ if is_users(base.__module__)]
            known = self._known[kind, code] = [
                (f"c{base.__qualname__}:{inner}", base, inner)
                for inner in code.co_names
                for base in holders
                if is_function(vars(base).get(inner))
            ]
        return {name: vars(base)[inner] for name, base, inner in known if inner in vars(base)}


def is_function(value: Any) -> bool:
    """Return True for a function of the user's."""
    return isinstance(value, FunctionType) and is_users(value.__module__)


def is_compared(module: ModuleType, name: str) -> bool:
    """Return True if what a module holds under a name is compared: memos, and values and functions of the user's."""
    member = vars(module)[name]
    return is_cache(member) or ((is_data(member) or is_function(member)) and is_users(module.__name__))
