"""The lines of the user's code that may make a set whose order counts, and imports of code that is not looked through."""

from __future__ import annotations

import ast
import importlib.util
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import attrs

from recorder.ambient.outside.loaded_modules import file_of
from recorder.ambient.outside.own_code import is_librarys
from recorder.ambient.roots import is_users

# Modules that make no set of texts for their caller. Of any other one that is not the user's, nothing is known.
_WITHOUT_SETS = frozenset(
    [
        "__future__",
        "abc",
        "argparse",
        "array",
        "bisect",
        "cmath",
        "collections",
        "contextlib",
        "copy",
        "csv",
        "dataclasses",
        "datetime",
        "decimal",
        "enum",
        "errno",
        "fractions",
        "functools",
        "hashlib",
        "heapq",
        "io",
        "itertools",
        "json",
        "logging",
        "math",
        "numbers",
        "operator",
        "os",
        "pathlib",
        "queue",
        "random",
        "re",
        "secrets",
        "shutil",
        "statistics",
        "string",
        "struct",
        "sys",
        "tempfile",
        "textwrap",
        "threading",
        "time",
        "types",
        "typing",
        "typing_extensions",
        "uuid",
        "warnings",
        "zlib",
        "numpy",
        "numba",
        "recorder",
        "replayer",
        "sim",
    ]
)
_TYPES = frozenset(("Set", "MutableSet", "KeysView", "ItemsView", "WeakSet"))
_NAMES = _TYPES | {"set", "frozenset", "eval", "exec", "compile", "__import__", "__builtins__"}
_KNOWN_SETS = frozenset((
    "algorithms_available", "algorithms_guaranteed", "__abstractmethods__", "stdlib_module_names",
    "union", "intersection", "difference", "symmetric_difference",
))  # fmt: skip
_VIEWS = frozenset(("keys", "items"))  # Two of these make a set, as in one.keys() & other.keys().
_WALKERS = frozenset(
    [
        "list",
        "tuple",
        "sorted",
        "dict",
        "zip",
        "enumerate",
        "max",
        "min",
        "sum",
        "len",
        "any",
        "all",
        "iter",
        "reversed",
        "map",
        "filter",
    ]
)
_OURS = "simulation_flight_recorder"  # The modules of this library outside of its packages.
_FILE_BYTES_MAX = 1 << 20


@attrs.frozen
class SetLine:
    """A line that may make a set.

    Attributes:
        place: such as game.py:31.
        imported: a module that it imports, whose code is not looked through; empty if the line itself may make one.
    """

    place: str
    imported: str = ""


def set_line() -> SetLine | None:
    """The first line of the user's loaded modules that may make a set, or that imports other code; None if none does.

    A set that is made to be searched alone, as in ``name in {"oak", "elm"}``, has no order that counts.
    """
    found = list[SetLine]()
    for name, module in sorted(sys.modules.items()):
        file = file_of(module)
        if file is None or not is_users(name) or is_librarys(file) or name.startswith(_OURS):
            continue
        lines = _lines_of(file, name, is_package=Path(file).name == "__init__.py")
        one = next(lines, None)
        if one is not None and not one.imported:
            return one
        found += [one] if one is not None else []
    return found[0] if found else None


def _lines_of(file: str, module: str, *, is_package: bool) -> Iterator[SetLine]:
    """Those of a module that may make a set, and then those that import other code."""
    name = Path(file).name
    try:
        source = Path(file).read_bytes()
        tree = ast.parse(source) if len(source) <= _FILE_BYTES_MAX else None
    except (OSError, SyntaxError, ValueError, RecursionError):
        tree = None
    if tree is None:  # Compiled code, or a large file.
        yield SetLine(name, module)
        return
    for line in lines_that_make(tree):
        yield SetLine(f"{name}:{line}")
    for line, imported in _imports(tree, module, is_package=is_package):
        yield SetLine(f"{name}:{line}", imported)


def lines_that_make(tree: ast.Module) -> list[int]:
    """The lines that may make a set whose order counts."""
    spared = _only_searched(tree) | _annotations(tree) | _walked_views(tree) | _own_attributes(tree)
    return sorted({node.lineno for node in ast.walk(tree) if id(node) not in spared and _may_make(node)})  # type: ignore[attr-defined]


def _may_make(node: ast.AST) -> bool:
    match node:
        case ast.Set() | ast.SetComp():
            return True
        case ast.Name(id=name):
            return name in _NAMES
        case ast.Attribute(attr=name):
            return name in _TYPES or name in _KNOWN_SETS or name in _VIEWS or name == "frozenset"
        case ast.alias(name=name):
            return name in _TYPES
    return False


def _only_searched(tree: ast.Module) -> set[int]:
    """Sets that stand on the right of ``in``, and in ``len()``."""
    found, own = list[ast.expr](), _bound_names(tree)
    for node in ast.walk(tree):
        match node:
            case ast.Compare(ops=operators, comparators=others):
                pairs = zip(operators, others, strict=True)
                found += [other for operator, other in pairs if isinstance(operator, ast.In | ast.NotIn)]
            case ast.Call(func=ast.Name(id="len"), args=[one], keywords=[]) if "len" not in own:
                found.append(one)
    heads = [one.func for one in found if isinstance(one, ast.Call)]
    return {id(one) for one in (*found, *heads)}


def _annotations(tree: ast.Module) -> set[int]:
    """The parts of annotations, which make nothing."""
    found = list[ast.expr | None]()
    for node in ast.walk(tree):
        match node:
            case ast.AnnAssign(annotation=one) | ast.arg(annotation=one):
                found.append(one)
            case ast.FunctionDef(returns=one) | ast.AsyncFunctionDef(returns=one):
                found.append(one)
    return {id(part) for one in found if one is not None for part in ast.walk(one)}


def _walked_views(tree: ast.Module) -> set[int]:
    """``.keys()`` and ``.items()`` over which a loop or a function of Python goes: they have the order of the dict."""
    walked = list[ast.expr]()
    walkers = _WALKERS - _bound_names(tree)
    for node in ast.walk(tree):
        match node:
            case ast.For(iter=one) | ast.AsyncFor(iter=one) | ast.comprehension(iter=one):
                walked.append(one)
            case ast.Call(func=ast.Name(id="max" | "min"), args=[_, _, *_]):  # It gives one of them back.
                continue
            case ast.Call(func=ast.Name(id=name), args=given) if name in walkers:
                walked += given
            case ast.Compare(ops=[ast.In() | ast.NotIn()], comparators=[one]):
                walked.append(one)
    heads = [one.func for one in walked if isinstance(one, ast.Call)]
    # Any other method may make a set of its own.
    return {id(one) for one in heads if isinstance(one, ast.Attribute) and one.attr in _VIEWS}


def _own_attributes(tree: ast.Module) -> set[int]:
    """Attributes with the name of a view that an object has itself, as in ``shelf.items.append(one)``: a method has none of that."""
    found = list[ast.expr]()
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Attribute() as one) | ast.Subscript(value=ast.Attribute() as one):
                found.append(one)
            case ast.For(iter=ast.Attribute() as one) | ast.comprehension(iter=ast.Attribute() as one):
                found.append(one)
            case ast.Attribute(ctx=ast.Store() | ast.Del()):
                found.append(node)
    return {id(one) for one in found if isinstance(one, ast.Attribute) and one.attr in _VIEWS}


def _bound_names(tree: ast.Module) -> frozenset[str]:
    """The names that the module gives a meaning of its own, anywhere; all of Python's functions if it may be any name."""
    found = set[str]()
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()) | ast.arg(arg=name):
                found.add(name)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                found.add(name)
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                found.add(name)
            case ast.MatchMapping(rest=str(name)):
                found.add(name)
            case ast.alias(name="*"):
                return _WALKERS
            case ast.alias(name=name, asname=None):
                found.add(name.partition(".")[0])
            case ast.alias(asname=str(name)):
                found.add(name)
    return frozenset(found)


def _imports(tree: ast.Module, module: str, *, is_package: bool) -> Iterator[tuple[int, str]]:
    """The lines that import code that is neither looked through nor known to make no set, with its name."""
    package = module if is_package else module.rpartition(".")[0]
    for node in ast.walk(tree):
        names: Iterable[str] = ()
        match node:
            case ast.Import():
                names = [one.name for one in node.names]
            case ast.ImportFrom(module=inner, level=level):
                names = [_full_name(inner or "", level, package)]
        for name in names:
            top = name.partition(".")[0]
            is_looked_through = name in sys.modules and (is_users(name) or is_users(top))
            if top not in _WITHOUT_SETS and not top.startswith(_OURS) and not is_looked_through:
                yield node.lineno, name or "another module"  # type: ignore[attr-defined]


def _full_name(name: str, level: int, package: str) -> str:
    if not level:
        return name
    try:
        return importlib.util.resolve_name(f"{'.' * level}{name}", package)
    except ImportError:
        return ""
