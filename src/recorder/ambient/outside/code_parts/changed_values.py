"""The values of modules and classes that their functions change: another run leaves others there, and no edit is needed for it."""

from __future__ import annotations

import ast
import random
import sys
import types
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from recorder.ambient.outside.code_parts.defining_lines import place_text
from recorder.ambient.outside.code_parts.places import Place
from recorder.ambient.roots import content_of

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_GENERATORS = (random.Random, np.random.Generator, np.random.RandomState)
_CHANGING = {
    *("append", "extend", "insert", "remove", "pop", "clear", "sort", "reverse", "add", "discard", "update"),
    *("setdefault", "popitem", "appendleft", "popleft", "intersection_update", "difference_update"),
}


def shown_changes(places: Iterable[Place], texts: set[str]) -> list[str]:
    """Those of some values, as a comparison shows them with their lines, that functions change."""
    changed = changed_by_functions(places) if texts else ()
    shown = (f"{one.name} ({place_text(one.path, one.name)})" for one in changed)
    return list(dict.fromkeys(text for text in shown if text in texts))


def changed_by_functions(places: Iterable[Place]) -> Iterator[Place]:
    """The places whose value a statement in a function of these modules sets, or changes in place."""
    all_places = list(places)
    set_names, changed_ids = set[tuple[int, str]](), set[int]()
    for module, path in dict.fromkeys((place.module, place.path) for place in all_places):
        for holder, key, is_set in _changes_in(module, path):
            if is_set:
                set_names.add((id(holder), key))
            elif (value := (content_of(holder) or {}).get(key)) is not None:
                changed_ids.add(id(value))
    for place in all_places:
        if (id(place.holder), place.key) in set_names or id(place.value()) in changed_ids:
            yield place


def _changes_in(module: str, path: str) -> Iterator[tuple[Any, str, bool]]:
    """The holder and the name of each value that a function of a module changes; True if it is set, False if changed in place."""
    loaded = sys.modules.get(module)
    for function, kind in _functions_in(path):
        names = _Names(loaded, kind, function)
        for node in ast.walk(function):
            if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load) and node.id in names.declared:
                yield loaded, node.id, True
            elif isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
                holder = names.holder(node.value)
                if holder is not None:
                    yield holder, node.attr, True
                elif (found := names.place(node.value)) is not None:
                    yield *found, False
            elif (changed := _changed_in_place(node)) is not None and (found := names.place(changed)) is not None:
                value = (content_of(found[0]) or {}).get(found[1])
                # Any method of a generator draws from it.
                if not isinstance(node, ast.Call) or _is_changing(node, value):
                    yield *found, False


def _changed_in_place(node: ast.AST) -> ast.expr | None:
    """The value of which a statement sets an element, or whose method an expression calls; of an item in a table, the table."""
    if isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
        return table_of(node.value)
    return table_of(node.func.value) if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else None


def table_of(expression: ast.expr) -> ast.expr:
    """The table of which an expression is an item, such as handlers for handlers[name] and handlers.setdefault(name, [])."""
    while True:
        match expression:
            case ast.Subscript(inner) | ast.Call(ast.Attribute(inner, "setdefault" | "get")):
                expression = inner
            case _:
                return expression


def _is_changing(call: ast.Call, value: Any) -> bool:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    return issubclass(type(value), _GENERATORS) or name in _CHANGING


class _Names:
    """What the names in a function stand for."""

    def __init__(self, module: types.ModuleType | None, kind: str, function: ast.AST) -> None:
        """kind: the qualified name of the class around it, empty without one."""
        self._content = content_of(module) or {}
        self._module, self._kind = module, kind
        nodes = list(ast.walk(function))
        self.declared = {name for node in nodes if isinstance(node, ast.Global) for name in node.names}
        stored = {node.id for node in nodes if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)}
        self._arguments = {node.arg for node in nodes if isinstance(node, ast.arg)}
        self._local = (stored | self._arguments) - self.declared

    def holder(self, expression: ast.expr) -> Any:
        """The module or class that an expression stands for; None for anything else."""
        match expression:
            case ast.Name("cls") if "cls" in self._arguments:
                return self._class()
            case ast.Name("__class__") | ast.Attribute(ast.Name("self"), "__class__"):
                return self._class()
            case ast.Call(ast.Name("type"), [ast.Name("self")]):
                return self._class()
        found = self.place(expression)
        value = (content_of(found[0]) or {}).get(found[1]) if found is not None else None
        return value if issubclass(type(value), type | types.ModuleType) else None

    def place(self, expression: ast.expr) -> tuple[Any, str] | None:
        """The module or class, and the name in it, that an expression reads; None for anything else."""
        match expression:
            case ast.Name(name) if name not in self._local and name in self._content:
                return self._module, name
            case ast.Attribute(inner, name):
                holder = self.holder(inner)
                return (holder, name) if holder is not None else None
        return None

    def _class(self) -> Any:
        value: Any = self._module
        for part in self._kind.split("."):
            value = (content_of(value) or {}).get(part)
        return value if issubclass(type(value), type) else None


def _functions_in(path: str) -> Iterator[tuple[ast.AST, str]]:
    """The outermost functions of a file, each with the qualified name of the class around it."""
    waiting: list[tuple[ast.AST, str]] = [(_tree_of(path), "")]
    for node, kind in waiting:
        for inner in ast.iter_child_nodes(node):
            if isinstance(inner, _FUNCTIONS):
                yield inner, kind
            elif isinstance(inner, ast.ClassDef):
                waiting.append((inner, f"{kind}.{inner.name}".lstrip(".")))
            else:
                waiting.append((inner, kind))


def _tree_of(path: str) -> ast.AST:
    try:
        return ast.parse(Path(path).read_bytes())
    except (OSError, ValueError, SyntaxError, RecursionError):
        return ast.Module([], [])
