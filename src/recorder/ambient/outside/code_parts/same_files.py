"""The files of modules: values that differ though these are the same come from somewhere else."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

import xxhash

from recorder.ambient.outside.code_parts.digest_lists import DIGEST_BYTES

_SOURCE_BYTES_MAX = 1 << 20
_READS = ("open", "read", "load", "fromfile", "from_file", "genfromtxt", "connect", "urlopen")  # Beginnings of names.
_LOOKS = {
    "parse",
    "files",
    "glob",
    "rglob",
    "iglob",
    "iterdir",
    "listdir",
    "scandir",
    "walk",
    "exists",
    "import_module",
}
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def file_digests(paths: Iterable[str]) -> dict[str, bytes | None]:
    """By the files of modules, as they are now, a digest of the content of each; None of what is no source that can be read.

    A parsed text would leave comments out, and take some milliseconds when a recording begins.
    """
    return {path: _digest(path) for path in paths}


def may_read_files(paths: Iterable[str]) -> bool:
    """Return True if statements of these files, or functions that they name, name one that may read a file.

    A folder with earlier code may have another file, too.
    """
    waiting: list[ast.AST] = []
    defined: dict[str, list[ast.AST]] = {}
    for path in paths:
        tree = _tree(path)
        if tree is None:
            return True  # It is not known.
        for node in ast.walk(tree):
            if isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
                defined.setdefault(node.name, []).append(node)
        waiting += _outside_of_functions(tree.body)
    for node in waiting:  # It grows by what these name.
        for name in _names(node):
            if name.startswith(_READS) or name in _LOOKS:
                return True
            waiting += defined.pop(name, [])
    return False


def _names(node: ast.AST) -> Iterator[str]:
    for one in ast.walk(node):
        if isinstance(one, ast.Name | ast.Attribute):
            yield one.id if isinstance(one, ast.Name) else one.attr


def _digest(path: str) -> bytes | None:
    content = _content(path)
    return None if content is None else xxhash.xxh3_64_digest(content)[:DIGEST_BYTES]


def _outside_of_functions(body: list[ast.stmt]) -> Iterator[ast.AST]:
    """The parts of statements that run when a module is imported."""
    for node in body:
        if isinstance(node, _FUNCTIONS):
            yield from (*node.decorator_list, *node.args.defaults, *filter(None, node.args.kw_defaults))
        elif isinstance(node, ast.ClassDef):
            yield from (*node.decorator_list, *node.bases, *node.keywords)
            yield from _outside_of_functions(node.body)
        elif inner := list(_bodies(node)):
            yield from (one for one in ast.iter_child_nodes(node) if not isinstance(one, ast.stmt))
            for one in () if _is_of_a_program(node) else inner:
                yield from _outside_of_functions(one)
        else:
            yield node


def _bodies(node: ast.AST) -> Iterator[list[ast.stmt]]:
    """The statements inside of a statement."""
    for name in ("body", "orelse", "finalbody"):
        if inner := getattr(node, name, None):
            yield inner
    for one in (*getattr(node, "handlers", ()), *getattr(node, "cases", ())):
        yield one.body


def _is_of_a_program(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and any(
        isinstance(one, ast.Name) and one.id == "__name__" for one in ast.walk(node.test)
    )


def _tree(path: str) -> ast.Module | None:
    """The statements of a file of Python; None if it cannot be read or compiled."""
    content = _content(path)
    try:
        return None if content is None else ast.parse(content.decode())
    except (SyntaxError, ValueError, RecursionError):
        return None


def _content(path: str) -> bytes | None:
    try:
        file = Path(path)
        is_read = file.suffix == ".py" and file.stat().st_size <= _SOURCE_BYTES_MAX
        return file.read_bytes() if is_read else None
    except (OSError, ValueError):
        return None
