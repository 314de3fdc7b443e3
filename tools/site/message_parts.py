"""The messages that the code can raise, found in its source, as Markdown.

A message is the text of an exception or a warning. What the code puts into it is shown as ``…``.
"""

from __future__ import annotations

import ast
import contextlib
import gc
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from types import MappingProxyType

SOURCE = Path(__file__).parents[2] / "src"
WRAPPERS = {"str", "plain_text", "page_text", "visible"}  # They return their argument, as it can be shown.
PASSED_ON = ("error)", "error.", "strerror", "super().__init__", "['error']")  # In the source of a call.
BLOCKS = frozenset({"body", "orelse", "handlers", "finalbody", "cases"})  # Fields of statements that hold statements.
DEPTH_MAX = 3  # Of names and functions between an exception and its text.
FILE = "(file)"  # A name of each scope that no code can have: the file that it is of.
WORDS_MIN = 3  # Shorter ones say nothing without their place.
AREAS = {  # By the beginning of the path; the first that fits.
    "Scenarios and worlds": ("sim/scenario", "sim/worlds", "recorder/scenarios", "sim/kernel/registry"),
    "Your simulation: its state, its step, its adapter": ("sim",),
    "Recording": (
        "recorder/session",
        "recorder/trial",
        "recorder/adapted",
        "recorder/reopen",
        "recorder/writer",
        "recorder/recording",
    ),
    "Tapes and their files": (
        "recorder/format",
        "recorder/storage",
        "recorder/location",
        "recorder/upload",
        "recorder/errors",
    ),
    "The commands record": ("recorder/commands", "recorder/console", "recorder/runs"),
    "Other parts of recorder": ("recorder", "simulation"),
    "Data sets": ("replayer/datasets",),
    "Questions, branches, smaller runs": (
        "replayer/search",
        "replayer/branches",
        "replayer/reduction",
        "replayer/reshape",
    ),
    "Desyncs": (
        "replayer/diagnose",
        "replayer/desync",
        "replayer/timeline",
        "replayer/playback",
        "replayer/regression",
    ),
    "The page, pictures and exports": ("replayer/view", "replayer/export", "replayer/report"),
    "The commands replay": ("replayer/commands",),
    "Other parts of replayer": ("replayer",),
}


def area_of(path: str) -> str:
    """Return the area of a file of src."""
    return next(area for area, begins in AREAS.items() if path.startswith(begins))


@contextlib.contextmanager
def _no_garbage() -> Iterator[None]:
    """Switch off the search for garbage among a million new objects that stay: it takes as long as the rest."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@cache
@_no_garbage()
def messages() -> tuple[tuple[str, str, str], ...]:
    """Return all messages of the source: the file, the class of the exception, and the text with … for what varies."""
    found = []
    for name, tree in _trees().items():
        for call, kind, scope in _calls_of(name):
            found += [(name, _shown_kind(kind, call), text) for text in _texts(call, scope) if _is_sentence(text)]
        found += [(name, kind, text) for kind, text in _own_texts(tree, _scope_of(name)) if _is_sentence(text)]
    return tuple(found)


@_no_garbage()
def unresolved() -> list[str]:
    """Return the exceptions whose text is nowhere in the list: the file and the source of the call.

    An exception that passes on the text of another one is none of them, nor is one whose class makes the text itself.
    """
    known = {kind for _, kind, _ in messages()}
    found = []
    for name in _trees():
        for call, kind, scope in _calls_of(name):
            source = ast.unparse(call)
            is_known = kind in known and "str(" not in source and kind not in {"UsageError", "ValueError", "TypeError"}
            is_passed_on = any(word in source for word in PASSED_ON) or kind.startswith("_")
            if not (is_known or is_passed_on or not call.args or any(text.strip("…") for text in _texts(call, scope))):
                found.append(f"{name}: {source}")
    return found


@cache
def _trees() -> dict[str, ast.Module]:
    paths = sorted(SOURCE.rglob("*.py"))
    return {str(path.relative_to(SOURCE)): ast.parse(path.read_text(encoding="utf-8")) for path in paths}


def forget_trees() -> None:
    """Free what was parsed: 300 MB, of which each fork would copy the tables. The texts stay."""
    for kept in (_trees, _calls_of, _scope_of, _returned):
        kept.cache_clear()


Scope = Mapping[str, Sequence[ast.expr]]  # The values that are assigned to each name.


@cache
def _calls_of(name: str) -> tuple[tuple[ast.Call, str, Scope], ...]:
    return tuple(_raising_calls(_trees()[name], _scope_of(name)))


@cache
def _scope_of(name: str) -> Scope:
    """The names of a module, and its file: a function whose name begins with _ is looked up in its own file alone."""
    return {**_assigned(_trees()[name]), FILE: [ast.Constant(name)]}


def _raising_calls(tree: ast.Module, module: Scope) -> Iterator[tuple[ast.Call, str, Scope]]:
    """The calls that make an exception or a warning, with its class, and the names around each."""
    stack: list[tuple[ast.AST, str, Scope]] = [(tree, "", module)]
    while stack:
        node, kind_around, scope = stack.pop()
        if isinstance(node, ast.ClassDef):
            kind_around = node.name
        elif isinstance(node, ast.FunctionDef):
            scope = {**scope, **_assigned(node)}
        elif isinstance(node, ast.Call):
            kind = _last_name(node.func)
            kind = kind_around if kind == "__init__" else kind  # super().__init__(text)
            if kind.endswith(("Error", "Warning")) or kind in {"warn_user", "warn"}:
                yield node, kind, scope
        stack += [(child, kind_around, scope) for child in ast.iter_child_nodes(node) if child._fields]


def _assigned(owner: ast.Module | ast.FunctionDef) -> dict[str, list[ast.expr]]:
    """The values that are assigned to each name in a module or a function, outside of what is defined in it."""
    found: dict[str, list[ast.expr]] = defaultdict(list)
    stack: list[ast.AST] = list(owner.body)
    while stack:
        node = stack.pop()
        if isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Name):
                    found[target.id].append(node.value)
        elif not isinstance(node, ast.ClassDef | ast.FunctionDef):
            stack += _blocks(node)
    return dict(found)


def _blocks(node: ast.AST) -> Iterator[ast.AST]:
    """The statements right below a statement."""
    for field in node._fields:
        if field in BLOCKS:
            yield from getattr(node, field)


def _statements(node: ast.AST) -> Iterator[ast.AST]:
    """A module, a class or a function and the statements in it, in the order of ast.walk, without the expressions."""
    level = deque([node])
    while level:
        one = level.popleft()
        level += _blocks(one)
        yield one


def _own_texts(tree: ast.Module, module: Scope) -> Iterator[tuple[str, str]]:
    """The class and the texts of exceptions that make their text from their attributes."""
    for node in _statements(tree):
        if isinstance(node, ast.ClassDef) and node.name.endswith(("Error", "Warning")):
            for method in node.body:
                if isinstance(method, ast.FunctionDef) and method.name == "__str__":
                    scope = {FILE: module[FILE], **_assigned(method)}
                    for one in _statements(method):
                        if isinstance(one, ast.Return) and one.value is not None:
                            yield from ((node.name, text) for text in _variants(one.value, scope))


@cache
def _returned() -> dict[str, list[tuple[ast.expr, Scope]]]:
    """What each function of the source returns, by its name, and what each constant of a module is."""
    found: dict[str, list[tuple[ast.expr, Scope]]] = defaultdict(list)
    for path, tree in _trees().items():
        module = _scope_of(path)
        for name, values in module.items():
            if name.isupper():
                found[name] += [(value, module) for value in values]
        for node in _statements(tree):
            if isinstance(node, ast.FunctionDef):
                scope = {**module, **_assigned(node)}
                returns = [
                    one.value for one in _statements(node) if isinstance(one, ast.Return) and one.value is not None
                ]
                found[_key(node.name, scope)] += [(value, scope) for value in returns]
    return dict(found)


def _shown_kind(kind: str, call: ast.Call) -> str:
    if kind not in {"warn_user", "warn"}:
        return kind
    named = [_last_name(argument) for argument in call.args if _last_name(argument).endswith("Warning")]
    return named[0] if named else "warning"


def _last_name(node: ast.AST) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _texts(call: ast.Call, scope: Scope) -> Iterator[str]:
    for argument in [*call.args, *(keyword.value for keyword in call.keywords)]:
        yield from _variants(argument, scope)


def _variants(  # noqa: PLR0912 - a case for each kind of expression
    node: ast.expr, scope: Scope = MappingProxyType({}), depth: int = DEPTH_MAX
) -> Iterator[str]:
    """The texts that an expression can be: written there, assigned to its name, or returned by the function it calls."""
    match node:
        case ast.IfExp():
            yield from _variants(node.body, scope, depth)
            yield from _variants(node.orelse, scope, depth)
        case ast.BoolOp():
            for value in node.values:
                yield from _variants(value, scope, depth)
        case ast.Constant(value=str(text)):
            yield text
        case ast.JoinedStr():
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values)
        case ast.BinOp(op=ast.Add()):
            yield "".join(next(_variants(side, scope, depth), "…") for side in (node.left, node.right))
        case ast.Name() if depth and node.id in scope:
            for value in scope[node.id]:
                yield from _variants(value, scope, depth - 1)
        case ast.Name() | ast.Attribute() if depth and _last_name(node).isupper():
            for value, around in _returned().get(_last_name(node), ()):
                yield from _variants(value, around, depth - 1)
        case ast.Call() if depth and _last_name(node.func) in WRAPPERS:
            for argument in node.args:
                yield from _variants(argument, scope, depth)
        case ast.Call() if depth:
            for value, around in _returned().get(_key(_last_name(node.func), scope), ()):
                yield from _variants(value, around, depth - 1)


def _key(function: str, scope: Scope) -> str:
    """The key of a function's texts: with its file, if its name is private."""
    return f"{ast.dump(scope[FILE][0])} {function}" if function.startswith("_") and FILE in scope else function


def _is_sentence(text: str) -> bool:
    return len([word for word in text.replace("…", " ").split() if word.strip(".,:;'\"()").isalpha()]) >= WORDS_MIN


def _as_code(text: str) -> str:
    return " ".join(text.replace("`", "'").split())


@cache
@_no_garbage()
def templates() -> frozenset[str]:
    """Return every text of the source, with … for what is put into it, in single spaces."""
    found = set()
    for tree in _trees().values():
        for node in ast.walk(tree):
            if isinstance(node, ast.JoinedStr | ast.Constant):
                found |= {_as_code(text) for text in _variants(node)}
    return frozenset(found)
