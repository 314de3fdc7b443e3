"""The names that a statement of the program reads, given their values here, so that the statement can run alone."""

from __future__ import annotations

import ast
import builtins
import contextlib
import importlib
import sys
from collections.abc import Collection, Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

from recorder.ambient.outside.loaded_modules import file_of
from replayer.diagnose.explain.before_step.changing_lines import CHANGE
from replayer.diagnose.explain.before_step.program_code import Function

_LIBRARIES = frozenset(("np", "numpy", "math", "random", "copy", "functools", "collections", "itertools"))
_DEPTH_MAX = 8


class NotRunnableError(Exception):
    """A statement reads what cannot be made here, or calls what is not the program's."""


class ProgramNames:
    """The modules and functions of the program, as far as the recorded process had them."""

    def __init__(self, functions: Iterable[Function], noted: Collection[str]) -> None:
        """noted: the names of the top-level modules that the recorded process had loaded."""
        own = list(functions)
        self._noted = frozenset(noted)
        self._defined = {one.last_name for one in own if one.name}
        self._trees: dict[str, list[ast.stmt]] = {}
        self._tops = {one.path: one for one in own if not one.name}

    def run(self, statement: ast.stmt, function: Function, given: dict[str, Any] | None = None) -> None:
        """Run a statement of a function. given: the values of some names. Raises NotRunnableError, or what it raises."""
        scope = _Scope(self, function, given or {})
        names = scope.names_for(statement)
        code = compile(ast.Module([statement], []), function.path, "exec", dont_inherit=True)
        exec(code, names)  # noqa: S102 - a statement of the user's program, in a copy of this process

    def module(self, path: str) -> ModuleType | None:
        """The module of a file: a loaded one, or one that the recorded process had loaded; None for any other."""
        return loaded_from(path) or self._imported(path)

    def _imported(self, path: str) -> ModuleType | None:
        for folder in dict.fromkeys(map(_whole, sys.path)):
            place = Path(path)
            if folder not in place.parents:
                continue
            parts = list(place.relative_to(folder).with_suffix("").parts)
            parts = parts[:-1] if parts[-1] == "__init__" else parts
            if parts and parts[0] in self._noted and all(map(str.isidentifier, parts)):
                module = importlib.import_module(".".join(parts))
                return module if file_of(module) == path else None
        return None

    def top(self, path: str) -> Function | None:
        """The statements of a file outside of functions and classes."""
        return self._tops.get(path)

    def definition(self, path: str, name: str) -> ast.FunctionDef | ast.ClassDef | None:
        """The function or class of a name that a file defines outside of all others."""
        if path not in self._trees:
            try:
                self._trees[path] = ast.parse(Path(path).read_bytes()).body
            except (OSError, SyntaxError, ValueError, RecursionError):
                self._trees[path] = []
        found = (one for one in self._trees[path] if isinstance(one, ast.FunctionDef | ast.ClassDef))
        return next((one for one in found if one.name == name), None)

    def may_import(self, name: str) -> bool:
        """Return True for a module that can be imported without doing what the recorded process did not do."""
        first = name.partition(".")[0]
        return name in sys.modules or first in sys.stdlib_module_names or first in self._noted

    def may_call(self, call: ast.Call, made: Collection[str]) -> bool:
        """Return True for a function of the program, of Python, or of a library that only computes.

        made: variables that were given or made, whose methods count as well.
        """
        match call.func:
            case ast.Name(name):
                return name in self._defined or hasattr(builtins, name)
            case ast.Attribute(inner, name):
                return name in self._defined or name in CHANGE or _root_name(inner) in {*_LIBRARIES, *made}
        return False


class _Scope:
    """The names in one function, made when they are asked for.

    Attributes:
        globals: of the module, or what was made of a file that cannot be imported.
    """

    def __init__(self, program: ProgramNames, function: Function, given: dict[str, Any]) -> None:
        self._program, self._function = program, function
        module = program.module(function.path)
        self._is_loaded = module is not None
        self.globals: dict[str, Any] = vars(module) if module is not None else {"__name__": Path(function.path).stem}
        self._locals = dict(given)
        nodes = function.own if function.name else ()
        self._arguments = {one.arg for one in nodes if isinstance(one, ast.arg)}
        self._declared = {name for one in nodes if isinstance(one, ast.Global) for name in one.names}
        self._stored = {one.id for one in nodes if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)}

    def names_for(self, statement: ast.AST) -> dict[str, Any]:
        """The names with which the statement can run. Raises NotRunnableError."""
        self._provide_all(statement, 0)
        if self._is_global(statement):
            return self.globals
        return {**self.globals, **self._locals}

    def _is_global(self, statement: ast.AST) -> bool:
        targets = [
            one.id for one in ast.walk(statement) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)
        ]
        return bool(targets) and not self._locals and all(name in self._declared for name in targets)

    def _provide_all(self, node: ast.AST, depth: int) -> None:
        if depth > _DEPTH_MAX:
            raise NotRunnableError
        for one in ast.walk(node):
            if isinstance(one, ast.Await | ast.Yield | ast.YieldFrom):
                raise NotRunnableError
            if isinstance(one, ast.Call) and not self._program.may_call(one, self._locals):
                raise NotRunnableError
        inner = {one.id for one in ast.walk(node) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)}
        inner |= {one.arg for one in ast.walk(node) if isinstance(one, ast.arg)}
        reads = {one.id for one in ast.walk(node) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Load)}
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            reads.add(node.target.id)
            inner.discard(node.target.id)
        for name in sorted(reads - inner):
            self._provide(name, depth)

    def _provide(self, name: str, depth: int) -> None:
        if name in self._locals:
            return
        if name in self._arguments or name in self._stored - self._declared:
            self._make_local(name, depth)
        elif not self._is_loaded and name not in self.globals and not hasattr(builtins, name):
            self._make_global(name, depth)
        elif name not in self.globals and not hasattr(builtins, name):
            raise NotRunnableError(name)

    def _make_local(self, name: str, depth: int) -> None:
        """The value of a variable that one statement of the function gives it."""
        values = _assigned(self._function.own, name)
        count = sum(
            isinstance(one, ast.Name) and one.id == name and isinstance(one.ctx, ast.Store)
            for one in self._function.own
        )
        if name in self._arguments or len(values) != 1 or count != 1:
            raise NotRunnableError(name)
        self._locals[name] = self._value(values[0], depth)

    def _value(self, node: ast.expr, depth: int) -> Any:
        self._provide_all(node, depth + 1)
        code = compile(ast.Expression(node), self._function.path, "eval", dont_inherit=True)
        return eval(code, {**self.globals, **self._locals})  # noqa: S307 - see ProgramNames.run

    def _make_global(self, name: str, depth: int) -> None:
        """What a file that cannot be imported, such as a program that is run, gives a name: by its one statement alone."""
        top = self._program.top(self._function.path)
        for node in top.own if top is not None else ():
            if isinstance(node, ast.Import | ast.ImportFrom) and (one := _alias(node, name)) is not None:
                self._import(node, one)
                return
        if (defined := self._program.definition(self._function.path, name)) is not None:
            self._define(defined, depth)
            return
        values = _assigned(top.own if top is not None else (), name)
        if len(values) != 1:
            raise NotRunnableError(name)
        self.globals[name] = self._value(values[0], depth)

    def _import(self, node: ast.Import | ast.ImportFrom, alias: ast.alias) -> None:
        full = node.module if isinstance(node, ast.ImportFrom) and not node.level else alias.name
        is_relative = isinstance(node, ast.ImportFrom) and bool(node.level)
        if is_relative or not self._program.may_import(full or ""):
            raise NotRunnableError(alias.name)
        alone = ast.ImportFrom(node.module, [alias], 0) if isinstance(node, ast.ImportFrom) else ast.Import([alias])
        self._exec(ast.copy_location(alone, node))

    def _define(self, node: ast.FunctionDef | ast.ClassDef, depth: int) -> None:
        """Make a function or a class, with what it names in its file: a name that cannot be made is missing when it runs."""
        if node.decorator_list or depth > _DEPTH_MAX:
            raise NotRunnableError(node.name)
        for base in node.bases if isinstance(node, ast.ClassDef) else ():
            self._provide_all(base, depth + 1)
        self._exec(node)
        for name in {one.id for one in ast.walk(node) if isinstance(one, ast.Name)} - self.globals.keys():
            with contextlib.suppress(NotRunnableError):
                self._provide(name, depth + 1)

    def _exec(self, node: ast.stmt) -> None:
        code = compile(ast.Module([node], []), self._function.path, "exec", dont_inherit=True)
        exec(code, self.globals)  # noqa: S102 - an import of the user's program


def loaded_from(path: str) -> ModuleType | None:
    """The loaded module of a file; None without one."""
    modules = list(sys.modules.values())
    # Without asking them: a module may run code when it is asked for an attribute.
    return next((one for one in modules if file_of(one) == path), None)


def _root_name(node: ast.expr) -> str:
    """The variable with which an expression begins, such as np for np.abs(x).mean; the empty text for another one."""
    while not isinstance(node, ast.Name):
        match node:
            case ast.Attribute(inner) | ast.Subscript(inner) | ast.Call(inner):
                node = inner
            case _:
                return ""
    return node.id


def _whole(folder: str) -> Path:
    return Path(folder or ".").absolute()


def _assigned(nodes: Iterable[ast.AST], name: str) -> list[ast.expr]:
    """The values that assignments of one name give it."""
    return [
        one.value
        for one in nodes
        if isinstance(one, ast.Assign) and any(isinstance(to, ast.Name) and to.id == name for to in one.targets)
    ]


def _alias(node: ast.Import | ast.ImportFrom, name: str) -> ast.alias | None:
    return next((one for one in node.names if (one.asname or one.name.partition(".")[0]) == name), None)
