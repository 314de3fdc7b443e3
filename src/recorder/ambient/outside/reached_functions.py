"""The functions that a name in a module or a class leads to, through decorators, closures, partial calls and tables."""

from __future__ import annotations

import functools
import types
from collections.abc import Iterable, Iterator
from typing import Any

from recorder.ambient.roots import content_of, kept_by_decorator
from sim.replaced_code import own_code

VISITED_MAX = 2000  # Values behind one name: what a decorator keeps is few, but may lead to a cache of results.
PARTIAL = (functools.partial, functools.partialmethod)
_KEPT_BY_CALLABLES = (types.FunctionType, types.MethodType, functools.partial)


def reached_functions(value: Any) -> Iterator[types.FunctionType]:
    """Each function once: itself, what a decorator wrapped, and those in free variables, defaults and attributes of functions.

    No value is asked, and no class is entered.
    """
    waiting, seen, held = [value], set[int](), list[Any]()
    while waiting and len(seen) < VISITED_MAX:
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
    if kind in PARTIAL:
        return [value.func, *value.args, *value.keywords.values()]
    if kind is functools.singledispatchmethod:
        return [value.func, value.dispatcher]
    if kind in (dict, types.MappingProxyType):
        return list(value.values())[:VISITED_MAX]
    if kind in (list, tuple, set, frozenset):
        return list(value)[:VISITED_MAX]
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


def names_in_code(functions: Iterable[types.FunctionType]) -> set[str]:
    """All names that the code of functions reads, of those in it as well."""
    return {name for one in functions for code in _codes(own_code(one)) for name in (*code.co_names, *code.co_freevars)}


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for one in code.co_consts:
        if isinstance(one, types.CodeType):
            yield from _codes(one)
