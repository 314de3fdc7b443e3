"""The statements of modules outside of their functions: values that differ though these are the same come from somewhere else."""

from __future__ import annotations

import ast
import functools
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


def module_digests(paths: Iterable[str]) -> dict[str, bytes | None]:
    """By the files of modules, as they are now, a digest of the statements of each; None of what is no source."""
    return {path: _digest(path) for path in paths}


def may_read_files(paths: Iterable[str]) -> bool:
    """Return True if statements of these files, or functions that they name, name one that may read a file.

    A folder with earlier code may have another file, too.
    """
    waiting: list[ast.AST] = []
    defined: dict[str, list[ast.AST]] = {}
    for path in paths:
        source = _source(path)
        for node in ast.walk(_tree(source)) if source is not None else ():
            if isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
                defined.setdefault(node.name, []).append(node)
        waiting += _outside_of_functions(_tree(source).body) if source is not None else ()
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
    source = _source(path)
    return None if source is None else _digest_of(source)


@functools.lru_cache(maxsize=256)  # A process may begin many recordings.
def _digest_of(source: str) -> bytes:
    lines: list[str | None] = list(source.split("\n"))
    for first, last in _left_out(_tree(source).body, source.split("\n")):
        lines[first - 1 : last] = [None] * (last - first + 1)
    kept = [line.rstrip() for line in lines if line is not None and line.strip() and not line.lstrip().startswith("#")]
    return xxhash.xxh3_64_digest("\n".join(kept).encode("utf-8", "surrogatepass"))[:DIGEST_BYTES]


def _left_out(body: list[ast.stmt], lines: list[str]) -> Iterator[tuple[int, int]]:
    """The lines of functions' bodies, of docstrings, and of what runs in a program alone, each as the first and the last one."""
    if body and _is_text(body[0]):
        yield from _own_lines(body[:1], lines)
    for node in body:
        if isinstance(node, _FUNCTIONS):
            yield from _own_lines(node.body, lines)
        elif _is_of_a_program(node):
            yield node.lineno, node.end_lineno or node.lineno
        else:
            for inner in _bodies(node):
                yield from _left_out(inner, lines)


def _own_lines(body: list[ast.stmt], lines: list[str]) -> Iterator[tuple[int, int]]:
    first, last = body[0], body[-1]
    start = min([first.lineno, *(one.lineno for one in getattr(first, "decorator_list", []))])
    # In the line of its def it stays.
    if start != first.lineno or not lines[start - 1].encode()[: first.col_offset].strip():
        yield start, last.end_lineno or last.lineno


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


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _source(path: str) -> str | None:
    """The text of a file of Python; None if it cannot be read or compiled."""
    try:
        file = Path(path)
        if file.suffix != ".py" or file.stat().st_size > _SOURCE_BYTES_MAX:
            return None
        source = file.read_text(encoding="utf-8")
        _tree(source)
    except (OSError, SyntaxError, ValueError, RecursionError):
        return None
    return source


@functools.lru_cache(maxsize=16)
def _tree(source: str) -> ast.Module:
    return ast.parse(source)
