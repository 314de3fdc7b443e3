"""Where a file, as it is now, defines a name: the class statement, and the module that a name is imported from."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

from recorder.ambient.outside.code_text import assignment_line, body_of, function_line
from recorder.ambient.roots import content_of

_IMPORTS_MAX = 10  # From one module to the next.


def class_line(path: str, name: str) -> int | None:
    """The line of the statement of a class of a qualified name; None if none is found."""
    body, key = body_of(path, name)
    return next((node.lineno for node in body if isinstance(node, ast.ClassDef) and node.name == key), None)


def import_line(path: str, name: str) -> int | None:
    """The line that imports a name into a module; None if none is found."""
    body, key = body_of(path, name)
    for node in body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            for alias in node.names:
                if key == (alias.asname or alias.name.partition(".")[0]):
                    return node.lineno
    return None


def place_text(path: str, name: str) -> str:
    """The file and the line that define a qualified name; of an imported one, those of its own module."""
    for _ in range(_IMPORTS_MAX):
        line = assignment_line(path, name) or function_line(path, name) or class_line(path, name)
        if line is not None:
            return f"{Path(path).name}:{line}"
        imported = next(_imported_from(path, name), None)
        if imported is None:
            break
        path, name = imported
    return Path(path).name


def _imported_from(path: str, name: str) -> Iterator[tuple[str, str]]:
    """The files of the modules that a name may be imported from, each with the name there."""
    body, key = body_of(path, name)
    if "." in name:
        return
    for node in body:
        if not isinstance(node, ast.ImportFrom):
            continue
        content = content_of(sys.modules.get(_full_name(node, path))) or {}
        file = content.get("__file__")
        for alias in node.names:
            there = key if alias.name == "*" else alias.name
            is_it = key in content if alias.name == "*" else key == (alias.asname or alias.name)
            if is_it and isinstance(file, str) and file.endswith(".py"):
                yield file, there


def _full_name(node: ast.ImportFrom, path: str) -> str:
    """The name of the module that a statement imports from."""
    if not node.level:
        return node.module or ""
    contents = (content_of(module) or {} for module in list(sys.modules.values()))
    package = next((str(one.get("__package__")) for one in contents if one.get("__file__") == path), "")
    outer = package.split(".")
    return ".".join([*outer[: len(outer) - node.level + 1], *filter(None, [node.module])])
