"""Find the lines of the user's code that ran and that name a value."""

from __future__ import annotations

import ast
import functools
import linecache
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

LINES_MAX = 5  # Of one value.
_GENERATORS = {
    "np.random": r"(?<![\w.])(np|numpy)\.random\.(?!default_rng\b)[a-z]",
    "random": r"(?<![\w.])random\.[a-z]",
}

_MODULES = {"np.random": "numpy.random", "random": "random"}
_OF_MODULE = re.compile(r"module ([\w.]+): (\w+)")  # A global of a module, as it is shown.
_KEY = re.compile(r"\[[^\[\]]*\]")
_NOT_DRAWN = ("default_rng", "_")  # The beginnings of names that are no functions of a module's generator.

Line = tuple[str, int]  # File and number.


@contextmanager
def lines_that_run(files: frozenset[str], lines: dict[Line, None]) -> Iterator[None]:
    """Add the lines of these files that this thread runs while the context is open, in the order of their first run."""

    def local(frame: FrameType, event: str, _: Any) -> Any:
        if event == "line":
            lines.setdefault((frame.f_code.co_filename, frame.f_lineno))
        return local

    def called(frame: FrameType, _: str, __: Any) -> Any:
        return local if frame.f_code.co_filename in files else None

    before = sys.gettrace()
    sys.settrace(called)
    try:
        yield
    finally:
        sys.settrace(before)


def lines_naming(name: str, lines: Iterable[Line]) -> tuple[str, ...]:
    """The first of the lines whose text names a value, as file.py:12. name: such as Flock.wind, or two joined by and.

    Of a module's generator, such as np.random, these are the lines that name the module's functions: other generators have
    methods of its name, and classes of generators are not drawn from.
    """
    if name in _GENERATORS:
        pattern = re.compile(_GENERATORS[name])
        return _shown(
            lines, lambda file, number: _has(pattern, file, number) or number in _drawing(file, _MODULES[name])
        )
    if (of_module := _OF_MODULE.fullmatch(name.split("(", maxsplit=1)[0].strip())) is not None:
        return _shown(lines, functools.partial(_names_global, of_module[1], of_module[2]))
    # What a generator expression goes through is called .0 by Python, and by no line: the name of the expression counts.
    words = [re.sub(r": \.\d+$", "", _without_keys(part).split("(")[0]).strip() for part in name.split(" and ")]
    last = [identifiers[-1] for word in words if (identifiers := re.findall(r"\w+", word))]
    named = re.compile(rf"\b({'|'.join(map(re.escape, last))})\b")
    return _shown(lines, functools.partial(_has, named)) if last else ()


def _names_global(module: str, name: str, file: str, number: int) -> bool:
    """Return True for a line that names a global: as such in the module and where it is imported, elsewhere by the module."""
    last = module.rpartition(".")[2]
    is_here = file == getattr(sys.modules.get(module), "__file__", None) or name in _imported(file, module)
    pattern = rf"(?<![\w.]){name}\b" if is_here else rf"(?<!\w){last}\.{name}\b"
    return _has(re.compile(pattern), file, number)


@functools.lru_cache(maxsize=32)
def _imported(file: str, module: str) -> frozenset[str]:
    """The names that a file has for what it imports from a module."""
    nodes = [node for node in ast.walk(_tree(file)) if isinstance(node, ast.ImportFrom)]
    own = [node for node in nodes if (node.module or "").rpartition(".")[2] == module.rpartition(".")[2]]
    return frozenset(one.asname or one.name for node in own for one in node.names)


def _tree(file: str) -> ast.Module:
    """The code of a file; empty if it cannot be parsed."""
    try:
        return ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError, RecursionError):
        return ast.Module([], [])


def _without_keys(name: str) -> str:
    """A name without the steps into containers: what stands behind them, as in plants[…].roots, is what lines name."""
    while (shorter := _KEY.sub("", name)) != name:
        name = shorter
    return name.partition("[")[0]


def _has(pattern: re.Pattern[str], file: str, number: int) -> bool:
    return pattern.search(linecache.getline(file, number)) is not None


def _shown(lines: Iterable[Line], names_it: Callable[[str, int], bool]) -> tuple[str, ...]:
    found = [line for line in lines if names_it(*line)]
    return tuple(f"{Path(file).name}:{number}" for file, number in found[:LINES_MAX])


@functools.lru_cache(maxsize=32)
def _drawing(file: str, module: str) -> frozenset[int]:
    """The lines of a file that name functions of a module by names of its own, as after from random import random."""
    tree = _tree(file)
    package, _, last = module.rpartition(".")
    functions, modules = set[str](), set[str]()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules |= {one.asname for one in node.names if one.name == module and one.asname is not None}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module == module:
            functions |= {one.asname or one.name for one in node.names if _is_drawn(one.name)}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module == package:
            modules |= {one.asname or one.name for one in node.names if one.name == last}
    found = (node for node in ast.walk(tree) if isinstance(node, ast.expr) and _names_one(node, functions, modules))
    return frozenset(node.lineno for node in found)


def _names_one(node: ast.expr, functions: set[str], modules: set[str]) -> bool:
    if isinstance(node, ast.Attribute):
        return isinstance(node.value, ast.Name) and node.value.id in modules and _is_drawn(node.attr)
    return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in functions


def _is_drawn(name: str) -> bool:
    """Return True for the name of a function: those of classes begin with a capital letter."""
    return name[:1].islower() and not name.startswith(_NOT_DRAWN)
