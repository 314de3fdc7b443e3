"""The global variables of a script that the code of its functions and classes can reach.

A script is run by its own name: its module holds what the game is defined with, and the variables of the person who runs
it, such as the game itself, a list of results, or what a loop left behind. No function reaches the latter, and they are
other objects, or missing, where the same file is imported.
"""

from __future__ import annotations

import dis
import functools
import types
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

import attrs

from sim.kernel.class_names import module_of

SCRIPTS = ("__main__", "__mp_main__")
_TABLE_MAX = 1024  # Items of a container in which functions, and objects that they find, are looked for.
_DEPTH = 2  # Containers in containers.
_BY_NAME = ("LOAD_GLOBAL", "STORE_GLOBAL", "DELETE_GLOBAL", "LOAD_NAME")
_WRAPPING = (
    staticmethod, classmethod, property, functools.partial, functools.cached_property, types.MethodType,
    type(functools.cache(len)),
)  # fmt: skip
_WRAPPERS = ("func", "fget", "fset", "fdel", "__func__", "__wrapped__")


@attrs.frozen
class UsedGlobals:
    """What functions reach.

    Attributes:
        names: the global variables that their code names.
        addresses: the identities of objects that they reach otherwise: by the values of their parameters, by variables
            of a function around them, or in a container that they reach.
    """

    names: frozenset[str]
    addresses: frozenset[int]


def used_globals(module: types.ModuleType, variables: Mapping[str, Any]) -> UsedGlobals:
    """Find which of these global variables the functions and classes that are defined in a module reach."""
    codes: list[types.CodeType] = []
    held: list[Any] = []
    for function in _functions(module):
        if function.__globals__ is module.__dict__:
            codes += _nested(function.__code__)
        held += _held_by(function)
    names = _names_in(codes, frozenset(variables))
    held += [variables[name] for name in names]
    return UsedGlobals(names, frozenset(map(id, _with_items(held, _DEPTH))))


def _functions(module: types.ModuleType) -> Iterator[types.FunctionType]:
    """The functions of a module and of its classes, also wrapped ones, and those in tables of functions."""
    todo = list(vars(module).values())
    seen: set[int] = set()
    while todo:
        one = todo.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        kind = type(one)
        if kind is types.FunctionType:
            yield one
            todo += [held for held in _held_by(one) if callable(held) or type(held) is dict]
        elif issubclass(kind, type):
            if module_of(one) == module.__name__:
                todo += list(type.__getattribute__(one, "__dict__").values())
        elif kind in (list, tuple, set, frozenset, dict):
            todo += [item for item in _items_of(one) if callable(item) or _is_wrapper(item)]
        elif _is_wrapper(one):
            todo += [getattr(one, name) for name in _WRAPPERS if hasattr(one, name)]


def _is_wrapper(value: Any) -> bool:
    return isinstance(value, _WRAPPING)


def _held_by(function: types.FunctionType) -> list[Any]:
    """The values of a function's parameters, of variables around it, and of its attributes."""
    cells = []
    for cell in function.__closure__ or ():
        try:
            cells.append(cell.cell_contents)
        except ValueError:
            continue  # It has no value yet.
    return [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values(), *cells, *vars(function).values()]


def _nested(code: types.CodeType) -> Iterator[types.CodeType]:
    """A code, and those of the functions in it."""
    yield code
    for one in code.co_consts:
        if isinstance(one, types.CodeType):
            yield from _nested(one)


def _names_in(codes: Iterable[types.CodeType], wanted: frozenset[str]) -> frozenset[str]:
    """Those of these names that a code uses as global variables: an attribute of the same name does not count."""
    found: set[str] = set()
    for code in codes:
        if (wanted - found).isdisjoint(code.co_names):
            continue
        found.update(one.argval for one in dis.get_instructions(code) if one.opname in _BY_NAME)
    return wanted & found


def _with_items(held: list[Any], depth: int) -> list[Any]:
    """Objects, and what is in containers among them."""
    if not depth:
        return held
    return held + _with_items(list(chain.from_iterable(map(_items_of, held))), depth - 1)


def _items_of(value: Any) -> list[Any]:
    """The first items of a container of Python's; the values of a dict."""
    if type(value) not in (list, tuple, set, frozenset, dict) or len(value) > _TABLE_MAX:
        return []
    return list(value.values()) if type(value) is dict else list(value)
