"""In a party's process: the plain values that the user's modules and their classes hold, and others put in their place."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from recorder.ambient.outside.own_code import is_users_file
from replayer.diagnose.explain.source_lines import SourceFile
from replayer.diagnose.parties.constructor import literal_of

VALUES_MAX = 2_000
_CONTAINERS = (list, dict, set)


def module_values(modules: Mapping[str, str]) -> dict[str, str]:
    """The plain values in the user's modules, as literals, by names such as rules:SPEED and rules:Car.SPEED.

    modules: the files by the names of the modules. An object that a module imports from another one is not named twice.
    """
    found: dict[str, str] = {}
    for name, file in modules.items():
        module = sys.modules.get(name)
        if module is None or not is_users_file(file):
            continue
        for path, value in _values(name, module, file):
            literal = literal_of(value) if len(found) < VALUES_MAX else None
            if literal is not None:
                found[f"{name}:{path}"] = literal
    return found


def _values(name: str, module: Any, file: str) -> Iterator[tuple[str, Any]]:
    imported = _imported(file)
    for attribute, value in list(vars(module).items()):
        if attribute.startswith("__"):
            continue
        if isinstance(value, type):
            of_class = vars(value) if value.__module__ == name and value.__qualname__ == attribute else {}
            yield from ((f"{attribute}.{one}", held) for one, held in of_class.items() if not one.startswith("__"))
        elif attribute not in imported or not isinstance(value, _CONTAINERS):
            yield attribute, value


def _imported(file: str) -> set[str]:
    """The names that a module has from others."""
    nodes = ast.walk(SourceFile(file).tree)
    return {one.asname or one.name for node in nodes if isinstance(node, ast.ImportFrom) for one in node.names}


def value_of(name: str) -> str | None:
    """The literal of one of the values; None if it is not there, or no plain value."""
    holder, attribute = _holder(name)
    return literal_of(vars(holder)[attribute]) if holder is not None and attribute in vars(holder) else None


def put_values(literals: Mapping[str, str]) -> None:
    """Put values in place, into the same list, dict or set. Raises ValueError for one whose place is not here."""
    for name, literal in literals.items():
        holder, attribute = _holder(name)
        if holder is None or attribute not in vars(holder):
            raise ValueError(f"{name.replace(':', '.')} is not there in this process")
        present, given = vars(holder)[attribute], ast.literal_eval(literal)
        if type(present) is type(given) and isinstance(present, list):
            present[:] = given
        elif type(present) is type(given) and isinstance(present, dict | set):
            present.clear()
            present.update(given)
        else:
            setattr(holder, attribute, given)


def _holder(name: str) -> tuple[Any, str]:
    module_name, _, path = name.partition(":")
    of_class, _, attribute = path.rpartition(".")
    module = sys.modules.get(module_name)
    return vars(module).get(of_class) if of_class and module is not None else module, attribute
