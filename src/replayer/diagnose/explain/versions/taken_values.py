"""Values that a module or a class is given by one statement, taken from another version of the code like its functions."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from types import ModuleType
from typing import Any


def value_statements(tree: ast.Module) -> dict[str, ast.stmt]:
    """The statements that give values to names of the module and its classes, by qualified name; of each name, the only one."""
    found = list(_value_statements(tree.body, ""))
    counts = Counter(name for name, _ in found)
    return {name: statement for name, statement in found if counts[name] == 1}


def made_value(module: ModuleType, holder: Any, name: str, tree: ast.Module, path: str) -> Any:
    """The value that a statement of a file gives with the globals of a module. Raises KeyError, and whatever the statement raises."""
    program = ast.Module([value_statements(tree)[name]], [])
    names = dict(vars(holder)) if isinstance(holder, type) else {}
    exec(compile(program, path, "exec", dont_inherit=True), vars(module), names)  # noqa: S102 - the user's own code
    return names[name.rpartition(".")[2]]


def _value_statements(body: list[ast.stmt], prefix: str) -> Iterator[tuple[str, ast.stmt]]:
    for node in body:
        match node:
            case ast.ClassDef():
                yield from _value_statements(node.body, f"{prefix}{node.name}.")
            case ast.Assign(targets=targets):
                yield from ((f"{prefix}{one.id}", node) for one in targets if isinstance(one, ast.Name))
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr()):
                yield f"{prefix}{name}", node
