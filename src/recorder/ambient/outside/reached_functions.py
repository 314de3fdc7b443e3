"""The functions that a name in a module or a class leads to, through decorators, closures, partial calls and tables; what these keep."""

from __future__ import annotations

import enum
import functools
import re
import types
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from recorder.ambient.outside.code_text import is_constant, value_text
from recorder.ambient.roots import content_of, is_users, kept_by_decorator
from sim.replaced_code import own_code

_VISITED_MAX = 2000  # Values behind one name: what a decorator keeps is few, but may lead to a cache of results.
_PARTIAL = (functools.partial, functools.partialmethod)
_KEPT_BY_CALLABLES = (types.FunctionType, types.MethodType, functools.partial)
_PLAIN_MEMBERS = (
    types.BuiltinFunctionType,
    types.GetSetDescriptorType,
    types.MemberDescriptorType,
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    np.ufunc,
)
_OF_FUNCTIONS = (types.FunctionType, types.MethodType, staticmethod, classmethod, property, functools.cached_property)


def reached_functions(value: Any) -> Iterator[types.FunctionType]:
    """Each function once: itself, what a decorator wrapped, and those in free variables, defaults and attributes of functions.

    No value is asked, and no class is entered.
    """
    waiting, seen, held = [value], set[int](), list[Any]()
    while waiting and len(seen) < _VISITED_MAX:
        one = waiting.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        held.append(one)  # Alive: another value gets no id that was seen.
        if type(one) is types.FunctionType:
            yield one
        waiting += _kept_by(one)


def _kept_by(value: Any) -> Iterable[Any]:
    kind = type(value)
    if kind is types.FunctionType:
        named = [*(value.__kwdefaults__ or {}).values(), *vars(value).values()]
        return [*(value.__closure__ or ()), *(value.__defaults__ or ()), *named]
    if kind is types.CellType:
        try:
            return [value.cell_contents]
        except ValueError:  # It is empty.
            return []
    if kind in _PARTIAL:
        return [value.func, *value.args, *value.keywords.values()]
    if kind is functools.singledispatchmethod:
        return [value.func, value.dispatcher]
    if kind in (dict, types.MappingProxyType):
        return list(value.values())[:_VISITED_MAX]
    if kind in (list, tuple, set, frozenset):
        return list(value)[:_VISITED_MAX]
    inner = kept_by_decorator(value)
    return inner if inner[0] is not value else _kept_by_callable(value)


def _kept_by_callable(value: Any) -> list[Any]:
    """What an object that is called like a function, or looked up like a property, wraps; if it does not say, its functions."""
    kind = type(value)
    if issubclass(kind, type) or not any(
        name in vars(base) for base in kind.__mro__ for name in ("__call__", "__get__")
    ):
        return []
    content = content_of(value) or {}
    if "__wrapped__" in content:
        return [content["__wrapped__"]]
    return [one for one in list(content.values()) if type(one) in _KEPT_BY_CALLABLES]


def kept_text(value: Any, module: str) -> str | None:
    """What functions of a module, partial calls and patterns keep besides code, as text that is the same in each process.

    Free variables, arguments of partial calls, and defaults that can change; those that cannot are part of the function's text.
    Empty if nothing is kept, None if a part of it is no plain value.
    """
    is_pattern = type(value) is re.Pattern
    functions = list(reached_functions(value))
    if not (is_pattern or type(value) in _PARTIAL or any(one.__module__ == module for one in functions)):
        return ""
    kept = _Kept()
    try:
        text = kept.text(value)
    except _NotPlainError:
        return None
    return text if kept.is_any else ""


class _NotPlainError(Exception):
    """A value that is kept has a part that is not plain."""


class _Kept:
    """What values keep, as text.

    Attributes:
        is_any: True if there is anything besides names of functions and classes.
    """

    def __init__(self) -> None:
        self.is_any = False
        self._seen = dict[int, Any]()

    def text(self, value: Any) -> str:
        """Raises _NotPlainError."""
        kind = type(value)
        if len(self._seen) > _VISITED_MAX:
            raise _NotPlainError
        if kind is types.FunctionType:
            return self._of_function(value)
        if kind in (types.BuiltinFunctionType, types.MethodType) and not (
            value.__self__ is None or issubclass(type(value.__self__), type | types.ModuleType)
        ):
            raise _NotPlainError  # It keeps an object, such as the list of a bound append.
        if issubclass(kind, type) or kind is types.BuiltinFunctionType:
            return f"{value.__module__}.{value.__qualname__}"
        if kind is re.Pattern:
            self.is_any = True
            return f"{value.pattern!r} {value.flags}"
        if kind in _PARTIAL:
            arguments = [
                *map(self.text, value.args),
                *(f"{name}={self.text(one)}" for name, one in value.keywords.items()),
            ]
            return f"{self.text(value.func)}({arguments})"
        plain = value_text(value)
        if plain is not None:
            self.is_any = True
            return plain
        if kind in (list, tuple):
            return f"{kind.__name__}({[self.text(one) for one in value]})"
        if kind is dict:
            return f"dict({[(self.text(key), self.text(one)) for key, one in list(value.items())]})"
        inner = kept_by_decorator(value)
        if inner[0] is value:
            raise _NotPlainError
        return f"{kind.__qualname__}({[self.text(one) for one in inner if one is not None]})"

    def _of_function(self, function: types.FunctionType) -> str:
        name = f"{function.__module__}.{function.__qualname__}"
        if id(function) in self._seen:
            return name
        self._seen[id(function)] = function  # Alive: another function gets no id that was seen.
        cells = [self._of_cell(cell) for cell in function.__closure__ or ()]
        defaults = [*enumerate(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).items()]
        changing = [f"{key}={self.text(one)}" for key, one in defaults if not is_constant(one)]
        return f"{name}({[*cells, *changing]})"

    def _of_cell(self, cell: types.CellType) -> str:
        try:
            return self.text(cell.cell_contents)
        except ValueError:
            return "empty"


def is_left_out(value: Any) -> bool:
    """Return True for a value, of no text, that code may read and that is neither a class, a module nor functions alone."""
    kind = type(value)
    if issubclass(kind, type | types.ModuleType | enum.Enum) or kind in _PLAIN_MEMBERS:
        return False
    if kind.__module__ in ("typing", "_abc", "__future__", "dataclasses"):
        return False  # They are about types, or made by each import.
    functions = list(reached_functions(value))
    if kind in _OF_FUNCTIONS:
        return any(map(_keeps_values, functions))
    if issubclass(kind, functools.partial):
        return not all(map(callable, (*value.args, *value.keywords.values())))
    if hasattr(kind, "__get__") and not functions:
        return False  # Such as a field of a named tuple.
    # Of a cache, and of what a library has compiled, the function behind it is compared.
    is_wrapper = kind.__module__ == "functools" or (
        "__wrapped__" in (content_of(value) or {}) and not is_users(kind.__module__)
    )
    return any(map(_keeps_values, functions)) if is_wrapper and functions else True


def names_in_code(functions: Iterable[types.FunctionType]) -> set[str]:
    """All names that the code of functions reads, of those in it as well."""
    return {name for one in functions for code in _codes(own_code(one)) for name in (*code.co_names, *code.co_freevars)}


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for one in code.co_consts:
        if isinstance(one, types.CodeType):
            yield from _codes(one)


def _keeps_values(function: types.FunctionType) -> bool:
    """Return True if a free variable of a function is neither a function nor a class."""
    for cell in function.__closure__ or ():
        try:
            value = cell.cell_contents
        except ValueError:
            continue  # It is empty.
        if not (callable(value) or (content_of(value) is not None and list(reached_functions(value)))):
            return True
    return False
