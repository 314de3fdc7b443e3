"""Where the user's modules have a name of another module: by which names they import it, and what reads it as they are loaded."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from importlib.util import resolve_name
from types import ModuleType
from typing import Any

from recorder.ambient.outside.own_code import is_users_file
from recorder.ambient.roots import content_of
from replayer.diagnose.explain.source_lines import SourceFile

Source = tuple[ModuleType, dict[str, Any], ast.Module]


def put_in_modules(module: ModuleType, key: str, old: Any, made: Any) -> None:
    """Give a name of a module, and each name by which modules import it, another value where they have the old one."""
    waiting, seen = [(module, key)], set[tuple[str, str]]()
    while waiting:
        home, name = waiting.pop()
        if (home.__name__, name) in seen:
            continue
        seen.add((home.__name__, name))
        content = content_of(home) or {}
        if content.get(name) is old:
            content[name] = made
        waiting += _imported_by(home, name)


def _imported_by(home: ModuleType, name: str) -> Iterator[tuple[ModuleType, str]]:
    for module, content, tree in _sources(home):
        for node in ast.walk(tree):
            if not isinstance(node, ast.ImportFrom) or not _is_from(home, node, content):
                continue
            for one in node.names:
                if one.name in (name, "*"):
                    yield module, one.asname or name


def _is_from(home: ModuleType, node: ast.ImportFrom, content: dict[str, Any]) -> bool:
    """Return True if an import takes names from a module; content: of the one that imports."""
    package = content.get("__package__") or ""
    try:
        source = resolve_name("." * node.level + (node.module or ""), package) if node.level else node.module
    except ImportError:
        return False
    return source is not None and sys.modules.get(source) is home


def is_read_when_loaded(home: ModuleType, name: str) -> bool:
    """Return True if a value may have been read as the user's modules were loaded: another one comes too late for that.

    name: the last one. What mentions it in a function or a class counts as a reader, too; other things may have such a name.
    """
    trees = [tree for _, _, tree in _sources(home)]
    parts = [part for tree in trees for part in ast.walk(tree)]
    definitions = [part for part in parts if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)]
    mentioned = {id(one): _mentioned(part for inner in one.body for part in ast.walk(inner)) for one in definitions}
    names, more = set[str](), {name}
    while more:
        names |= more
        more = {one.name for one in definitions if mentioned[id(one)] & names}
        more |= {one.asname for one in parts if isinstance(one, ast.alias) and one.asname and one.name in names}
        more -= names
    return any(_mentioned(_run_when_loaded(tree.body), with_texts=False) & names for tree in trees)


def _mentioned(parts: Iterable[ast.AST], *, with_texts: bool = True) -> set[str]:
    """The names that are read. with_texts: also those of texts, which getattr may get."""
    found = set()
    for part in parts:
        match part:
            case ast.Name(id=name, ctx=ast.Load()) | ast.Attribute(attr=name, ctx=ast.Load()):
                found.add(name)
            case ast.Constant(value=str(name)) if with_texts:
                found.add(name)
    return found


def _run_when_loaded(body: Sequence[ast.stmt]) -> Iterator[ast.AST]:
    """The parts of a module's statements that run as it is loaded, without bases, annotations, and what runs in a script alone."""
    for node in body:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                defaults = [*node.args.defaults, *(one for one in node.args.kw_defaults if one is not None)]
                yield from (part for one in (*node.decorator_list, *defaults) for part in ast.walk(one))
            case ast.ClassDef():
                yield from (part for one in node.decorator_list for part in ast.walk(one))
                yield from _run_when_loaded(node.body)
            case ast.If(test=ast.Compare(left=ast.Name(id="__name__"))):
                yield from _run_when_loaded(node.orelse)
            case ast.AnnAssign():
                yield from ast.walk(node.value) if node.value is not None else ()
            case _:
                yield from ast.walk(node)


def _sources(home: ModuleType) -> Iterator[Source]:
    """The modules that may import from another one: the user's, and those of its package."""
    package = home.__name__.partition(".")[0]
    for name, module in list(sys.modules.items()):
        content = content_of(module) or {}
        file = content.get("__file__")
        if not isinstance(file, str) or not file.endswith(".py"):
            continue
        if name.partition(".")[0] == package or _is_users(file):
            yield module, content, _tree(file)


_is_users = cache(is_users_file)


@cache
def _tree(file: str) -> ast.Module:
    """Kept: the copies of this process then need not parse it again."""
    return SourceFile(file).tree
