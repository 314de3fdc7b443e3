"""Statements of the program that change values with certain names, themselves or by what they call, function by function."""

from __future__ import annotations

import ast
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path

import attrs

from replayer.diagnose.explain.before_step.changing_lines import changes_of
from replayer.diagnose.explain.before_step.program_code import MAKING, Function, called_name
from replayer.diagnose.explain.cause import SourceLocation
from replayer.diagnose.explain.statements.program_names import loaded_from

Simple = ast.Expr | ast.Assign | ast.AugAssign | ast.AnnAssign | ast.Delete
_CALLS_MAX = 4  # From a statement to the one that changes the value.
GROUPS_MAX = 40


@attrs.frozen(eq=False)
class StatementGroup:
    """Statements of one function, in their order."""

    function: Function
    statements: tuple[ast.stmt, ...]

    def place(self, number: int) -> SourceLocation:
        """Where one of them stands."""
        return located(self.function, self.statements[number])


def located(function: Function, statement: ast.stmt) -> SourceLocation:
    """The source of a statement of a function."""
    text = " ".join(ast.unparse(statement).split())
    return SourceLocation(function.path, statement.lineno, function.name, text)


def groups_of(
    functions: Sequence[Function], wanted: Iterable[str], step: str, noted: Collection[str]
) -> list[StatementGroup]:
    """The groups to run. wanted: the names of the values. step: the name of the method that makes the steps, which is no such call.

    noted: the modules that the recorded process had loaded.
    """
    names = set(wanted)
    direct = {id(one): [node for name, node in changes_of(one) if name in names] for one in functions}
    # What makes steps is the main part of a program: it ran while the recording was made, not before.
    stepping = _stepping(functions, step)
    preparing = [one for one in functions if one.name and _called_as(one) not in stepping]
    callers = {_called_as(one) for one in preparing if direct[id(one)]}
    groups: list[StatementGroup] = []
    for _ in range(_CALLS_MAX):
        found = ((one, _group(one, direct[id(one)], callers, stepping)) for one in functions)
        groups = [group for _, group in found if group is not None]
        more = {_called_as(one.function) for one in groups if one.function in preparing}
        if more <= callers:
            break
        callers |= more
    groups += _imports(functions, noted)
    # Of the modules that this process has first, then of those beside them, then of programs that are run.
    return sorted(groups, key=lambda one: _nearness(one, noted))[:GROUPS_MAX]


def _nearness(group: StatementGroup, noted: Collection[str]) -> int:
    if isinstance(group.statements[0], ast.Import):
        return 0
    if loaded_from(group.function.path) is not None:
        return 0
    return 1 if Path(group.function.path).stem in noted else 2


def _stepping(functions: Sequence[Function], step: str) -> set[str]:
    """The names of functions that make steps, themselves or by what they call."""
    called = {_called_as(one): _called_in(one.own) for one in functions if one.name}
    found = {step}
    while more := {name for name, names in called.items() if names & found} - found:
        found |= more
    return found


def _called_as(function: Function) -> str:
    """The name with which code calls a function; of one that makes objects, that of the class."""
    *outer, last = function.name.split(".")
    return outer[-1] if last in MAKING and outer else last


def _group(
    function: Function, direct: Iterable[ast.AST], callers: set[str], stepping: set[str]
) -> StatementGroup | None:
    """The statements of a function that change a value themselves, or call one of the callers; None without any."""
    changing = set(map(id, direct))
    statements = []
    for node in _run_elsewhere(function):
        inside = list(ast.walk(node))
        if (called := _called_in(inside)) & stepping:
            continue
        if called & callers or changing.intersection(map(id, inside)):
            statements.append(node)
    return StatementGroup(function, tuple(statements)) if statements else None


def _run_elsewhere(function: Function) -> Iterator[ast.stmt]:
    """The simple statements of a function; of a module that is loaded here, those that run where it is the program alone."""
    simple = (one for one in function.own if isinstance(one, Simple))
    if function.name or loaded_from(function.path) is None:
        yield from () if function.is_class else simple
        return
    for block in function.own:
        if isinstance(block, ast.If) and any(
            isinstance(one, ast.Name) and one.id == "__name__" for one in ast.walk(block.test)
        ):
            own = set(map(id, ast.walk(block)))
            yield from (one for one in simple if id(one) in own)
            return


def _called_in(nodes: Iterable[ast.AST]) -> set[str]:
    return {called_name(one.func) for one in nodes if isinstance(one, ast.Call)}


def _imports(functions: Sequence[Function], noted: Collection[str]) -> Iterator[StatementGroup]:
    """The imports of modules that the recorded process had, and that this one has not: they may enter something in a table."""
    missing = {name for name in noted if name not in sys.modules}
    own = {Path(one.path).stem for one in functions}
    for function in functions:
        for node in () if function.name else function.own:
            if isinstance(node, ast.Import | ast.ImportFrom):
                full = [node.module or ""] if isinstance(node, ast.ImportFrom) else [one.name for one in node.names]
                name = next((one for one in full if one in missing & own), None)
                if name is not None:
                    missing.discard(name)
                    alone = ast.fix_missing_locations(ast.copy_location(ast.Import([ast.alias(name)]), node))
                    yield StatementGroup(function, (alone,))
