"""Statements of the program that write into what calls of a method return, from reading the code: followed by names."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import attrs

from recorder.ambient.outside.code_parts.changed_values import table_of
from replayer.diagnose.explain.before_step.changing_lines import CHANGE, CHANGE_ARGUMENT
from replayer.diagnose.explain.before_step.program_code import Function, called_name
from replayer.diagnose.explain.cause import SourceLocation
from replayer.diagnose.explain.statements.statement_groups import Simple, located

_ROUNDS_MAX = 6
_VIEWS = frozenset(
    ("asarray", "asanyarray", "ravel", "reshape", "squeeze", "transpose", "view", "swapaxes", "atleast_1d")
)
_MAKING = "__init__"


@attrs.frozen(eq=False)
class ReturnWriter:
    """A statement that writes into a returned value.

    Attributes:
        root: the variable, or the attribute of an object, that leads to the value.
    """

    function: Function
    statement: ast.stmt
    root: ast.expr

    @property
    def place(self) -> SourceLocation:
        """Where it stands."""
        return located(self.function, self.statement)


def writers_of(functions: Sequence[Function], method: str, item: int | None) -> list[ReturnWriter]:
    """The statements. item: the place of the value in a tuple that the method returns; None for what it returns itself."""
    flow = _Flow(functions, method, item)
    found = [one for function in functions for one in flow.writers(function)]
    return sorted(found, key=lambda one: (one.function.path, one.statement.lineno))


def writers_into_arguments(functions: Sequence[Function]) -> list[ReturnWriter]:
    """The statements that write into an argument of their function: what calls it may stand in no file of the program."""
    found = []
    for function in functions:
        arguments = {node.arg for node in function.own if isinstance(node, ast.arg)} - {"self", "cls"}
        for statement in function.own if function.name else ():
            roots = map(table_of, _written(statement)) if isinstance(statement, Simple) else ()
            root = next((one for one in roots if isinstance(one, ast.Name) and one.id in arguments), None)
            if root is not None and isinstance(statement, Simple):
                found.append(ReturnWriter(function, statement, root))
    return found


class _Flow:
    """The variables and attributes that may lead to what calls of one method return."""

    def __init__(self, functions: Sequence[Function], method: str, item: int | None) -> None:
        self._method, self._item = method, item
        self._variables: defaultdict[int, set[str]] = defaultdict(set)
        self._attributes: set[str] = set()
        self._by_name: defaultdict[str, list[Function]] = defaultdict(list)
        for function in functions:
            *outer, last = function.name.split(".")
            self._by_name[outer[-1] if last == _MAKING and outer else last].append(function)
        for _ in range(_ROUNDS_MAX):
            before = self._size()
            for function in functions:
                self._follow(function)
            if self._size() == before:
                break

    def _size(self) -> int:
        return len(self._attributes) + sum(map(len, self._variables.values()))

    def _follow(self, function: Function) -> None:
        for node in function.own:
            if isinstance(node, ast.Assign):
                for target in node.targets:
                    self._assign(function, target, node.value)
            elif isinstance(node, ast.Call):
                self._pass_on(function, node)

    def _assign(self, function: Function, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Tuple) and self._item is not None and self._is_call(value):
            if self._item < len(target.elts) and not any(isinstance(one, ast.Starred) for one in target.elts):
                self._mark(function, target.elts[self._item])
        elif self.leads_there(function, value):
            self._mark(function, target)

    def _mark(self, function: Function, target: ast.expr) -> None:
        if isinstance(target, ast.Name):
            self._variables[id(function)].add(target.id)
        elif isinstance(target, ast.Attribute):
            self._attributes.add(target.attr)

    def _pass_on(self, function: Function, call: ast.Call) -> None:
        """Mark the parameters of functions of the called name that get the value."""
        given: list[tuple[Any, ast.expr]] = [*enumerate(call.args), *((one.arg, one.value) for one in call.keywords)]
        for key, value in given:
            if not self.leads_there(function, value):
                continue
            for called in self._by_name.get(called_name(call.func), ()):
                names = [node.arg for node in called.own if isinstance(node, ast.arg)]
                names = names[1:] if names[:1] in (["self"], ["cls"]) else names
                if key in names or (isinstance(key, int) and key < len(names)):
                    self._variables[id(called)].add(names[key] if isinstance(key, int) else key)

    def _is_call(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == self._method

    def leads_there(self, function: Function, node: ast.expr) -> bool:
        """Return True for an expression that is the value, an item or a view of it, as far as its text tells."""
        match node:
            case ast.Name(name):
                return name in self._variables[id(function)]
            case ast.Attribute(_, name) if name in self._attributes:
                return True
            case ast.Attribute(inner, "T" | "flat"):
                return self.leads_there(function, inner)
            case ast.Subscript(ast.Call() as call, ast.Constant(place)) if self._is_call(call):
                return bool(place == self._item)
            case ast.Subscript(inner):
                return self.leads_there(function, inner)
            case ast.Call(ast.Attribute(inner, name)) if name in _VIEWS:
                return self.leads_there(function, inner) or any(
                    self.leads_there(function, one) for one in node.args[:1]
                )
        return self._item is None and self._is_call(node)

    def writers(self, function: Function) -> Iterator[ReturnWriter]:
        """The statements of one function that write into the value."""
        for statement in function.own:
            if not isinstance(statement, Simple):
                continue
            written = (one for one in _written(statement) if self.leads_there(function, one))
            root = next((table_of(one) for one in written), None)
            if root is not None:
                yield ReturnWriter(function, statement, root)


def _written(statement: ast.AST) -> Iterator[ast.expr]:
    """What a statement writes into."""
    for node in ast.walk(statement):
        match node:
            case ast.AugAssign(target):
                yield target.value if isinstance(target, ast.Subscript) else target
            case ast.Subscript(inner, _, ast.Store() | ast.Del()):
                yield inner
            case ast.Call(ast.Attribute(inner, name)) if name in CHANGE:
                yield inner
        if isinstance(node, ast.Call):
            yield from (one.value for one in node.keywords if one.arg == "out")
            is_change = called_name(node.func) in CHANGE_ARGUMENT or (
                called_name(node.func) == "at" and len(node.args) > 1
            )
            yield from node.args[:1] if is_change else ()
