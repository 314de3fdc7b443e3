"""The functions and the values of a source file by their names, with the local variables of each function."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Sequence

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
LOCALS = ".<locals>"


def functions_of(tree: ast.AST) -> dict[str, FunctionNode]:
    """The functions outside of others, by qualified name; without those that have a name in common."""
    found = list(_functions(getattr(tree, "body", []), ""))
    counts = Counter(name for name, _ in found)
    return {name: node for name, node in found if counts[name] == 1}


def outermost(function: str) -> str:
    """The qualified name of a function, or of the one around it that is in no other."""
    return function.partition(LOCALS)[0]


def names_in(function: FunctionNode) -> frozenset[str]:
    """All names that a function, and those in it, mention."""
    return frozenset(_named(function, (ast.Name,))) | local_names(function)


def local_names(function: FunctionNode) -> frozenset[str]:
    """The parameters and variables of a function, and of those in it."""
    declared = {
        name for part in ast.walk(function) if isinstance(part, ast.Global | ast.Nonlocal) for name in part.names
    }
    stored = {part.id for part in ast.walk(function) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)}
    return frozenset({*stored, *_named(function, (ast.arg,))} - declared)


def _named(function: FunctionNode, kinds: tuple[type[ast.AST], ...]) -> Iterator[str]:
    for part in ast.walk(function):
        if isinstance(part, kinds):
            yield part.id if isinstance(part, ast.Name) else part.arg if isinstance(part, ast.arg) else ""


def _functions(body: Sequence[ast.stmt], prefix: str) -> Iterator[tuple[str, FunctionNode]]:
    for node in body:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                yield f"{prefix}{node.name}", node
            case ast.ClassDef():
                yield from _functions(node.body, f"{prefix}{node.name}.")
            case ast.If() | ast.Try() | ast.With():
                yield from _functions([*node.body, *getattr(node, "orelse", [])], prefix)


def value_statements(tree: ast.Module) -> dict[str, ast.stmt]:
    """The statements that give values to names of the module and its classes, by qualified name; of each name, the only one."""
    found = list(_value_statements(tree.body, ""))
    counts = Counter(name for name, _ in found)
    return {name: statement for name, statement in found if counts[name] == 1}


def _value_statements(body: list[ast.stmt], prefix: str) -> Iterator[tuple[str, ast.stmt]]:
    for node in body:
        match node:
            case ast.ClassDef():
                yield from _value_statements(node.body, f"{prefix}{node.name}.")
            case ast.Assign(targets=targets):
                yield from ((f"{prefix}{one.id}", node) for one in targets if isinstance(one, ast.Name))
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr()):
                yield f"{prefix}{name}", node
