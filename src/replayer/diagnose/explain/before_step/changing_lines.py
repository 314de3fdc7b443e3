"""Lines of the user's code that change an attribute, or what it holds, from reading the code: nothing is run."""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

import attrs

from recorder.ambient.outside.code_parts.changed_values import table_of
from replayer.diagnose.explain.before_step.answer import ChangingLines
from replayer.diagnose.explain.before_step.program_code import Function, ProgramCode, called_name
from replayer.diagnose.explain.cause import SourceLocation

_CHANGE_LISTS = """
append appendleft extend extendleft insert remove pop popleft popitem clear sort reverse rotate update setdefault add discard
difference_update intersection_update symmetric_difference_update move_to_end fill put resize
"""
_DRAW = """
random randint randrange uniform gauss normalvariate choice choices sample shuffle getrandbits randbytes seed setstate
betavariate expovariate triangular integers normal standard_normal permutation permuted exponential poisson binomial
"""
_CHANGE_ARGUMENTS = """
shuffle heapify heappush heappop heapreplace heappushpop insort insort_left insort_right permuted copyto put
"""
CHANGE, CHANGE_ARGUMENT = frozenset(f"{_CHANGE_LISTS} {_DRAW}".split()), frozenset(_CHANGE_ARGUMENTS.split())
_SETTERS = frozenset(("setattr", "delattr"))
_SIGNS = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}


@attrs.frozen
class Written:
    """What code of the program that the step is not seen to run gives to attributes, by their names.

    Attributes:
        names: of all attributes that it changes.
        constants: for each, "=", "+", "-", "*" or "/" with a constant.
        attributes: for each, the names of other attributes that it is computed from.
    """

    names: frozenset[str]
    constants: dict[str, list[tuple[str, Any]]] = attrs.field(hash=False)
    attributes: dict[str, list[str]] = attrs.field(hash=False)


def changing_lines(code: ProgramCode, names: Iterable[str]) -> ChangingLines:
    """The lines that change attributes with these names, or what they or variables of these names hold."""
    wanted = set(names)
    others, given, own = (list(_places(part, wanted)) for part in (code.of_others, code.given, code.of_step))
    return ChangingLines([*others, *given, *_leading_calls(code, wanted)], own)


def _leading_calls(code: ProgramCode, wanted: set[str]) -> list[SourceLocation]:
    """The lines that call a function which the step may run as well, and which leads to a change of an attribute with such a name.

    Not the step itself, which the program runs, nor a name that several functions have: which one is called is not seen.
    """
    names = Counter(one.last_name for one in (*code.of_step, *code.given, *code.of_others))
    able = [one for one in code.of_step if one.last_name != code.step and names[one.last_name] == 1]
    # By the name of each function the one that makes the change, in the end.
    leading = {one.last_name: one.name for one in able if any(name in wanted for name, _ in _changes(one))}
    waiting = [one for one in able if one.last_name not in leading]
    while further := {one.last_name: leading[name] for one in waiting for name, _ in _calls(one) if name in leading}:
        leading |= further
        waiting = [one for one in waiting if one.last_name not in leading]
    found: dict[SourceLocation, None] = {}
    for function in (*code.of_others, *code.given):
        for name, node in _calls(function):
            if name in leading:
                text = f"{' '.join(ast.unparse(node).split())}, by way of {leading[name]}()"
                found[SourceLocation(function.path, int(getattr(node, "lineno", 0)), function.name, text)] = None
    return list(found)


def _calls(function: Function) -> Iterator[tuple[str, ast.Call]]:
    """The last names of what a function calls."""
    for node in function.own:
        if isinstance(node, ast.Call):
            yield called_name(node.func), node


def written_by_others(code: ProgramCode) -> Written:
    """What the functions that the step is not seen to run write."""
    names: set[str] = set()
    constants: defaultdict[str, list[tuple[str, Any]]] = defaultdict(list)
    attributes: defaultdict[str, list[str]] = defaultdict(list)
    for function in (*code.of_others, *code.given):
        for name, node in _changes(function):
            names.add(name)
            constants[name] += constants_of(node)
            attributes[name] += _attributes(node, name)
    return Written(frozenset(names), dict(constants), dict(attributes))


def changes_of(function: Function) -> Iterator[tuple[str, ast.AST]]:
    """The attributes and variables that a function changes, or whose values it does, and where; also names that are global."""
    yield from _changes(function)
    yield from _changes_of_variables(function)
    names = {name for node in function.own if isinstance(node, ast.Global) for name in node.names}
    for node in function.own:
        if isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from ((one.id, node) for one in _flat(targets) if isinstance(one, ast.Name) and one.id in names)


def _places(functions: Iterable[Function], wanted: set[str]) -> dict[SourceLocation, None]:
    return {
        SourceLocation(
            function.path, int(getattr(node, "lineno", 0)), function.name, " ".join(ast.unparse(node).split())
        ): None
        for function in functions
        for name, node in changes_of(function)
        if name in wanted
    }


def constants_of(node: ast.AST) -> Iterator[tuple[str, Any]]:
    """The constant that a statement gives, and how."""
    if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign) and node.value is not None:
        try:
            value = ast.literal_eval(node.value)
        except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
            return
        sign = _SIGNS.get(type(node.op), "") if isinstance(node, ast.AugAssign) else "="
        if sign:
            yield sign, value


def _attributes(node: ast.AST, name: str) -> list[str]:
    value = getattr(node, "value", None) if isinstance(node, ast.Assign | ast.AnnAssign) else None
    named = [one.attr for one in ast.walk(value) if isinstance(one, ast.Attribute)] if value is not None else []
    return [one for one in named if one != name]


def _changes(function: Function) -> Iterator[tuple[str, ast.AST]]:
    """The attributes that a function changes, and the statements and calls that do it."""
    aliases: dict[str, str] = {}
    for node in function.own:
        if isinstance(node, ast.Assign) and (name := _attribute(node.value, {})):
            aliases |= {target.id: name for target in node.targets if isinstance(target, ast.Name)}
    for node in function.own:
        if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign | ast.Delete):
            targets = node.targets if isinstance(node, ast.Assign | ast.Delete) else [node.target]
            yield from ((name, node) for one in _flat(targets) if (name := _changed(one, aliases)))
        elif isinstance(node, ast.For):
            yield from ((name, node.target) for one in _flat([node.target]) if (name := _changed(one, aliases)))
        elif isinstance(node, ast.Call):
            yield from ((name, node) for name in _changed_by_call(node, aliases))


def _changes_of_variables(function: Function) -> Iterator[tuple[str, ast.AST]]:
    """The variables whose values a function changes in place, such as a list that it is given, and where."""
    for node in function.own:
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            yield node.target.id, node
        elif isinstance(node, ast.Assign | ast.AugAssign | ast.Delete):
            targets = [node.target] if isinstance(node, ast.AugAssign) else node.targets
            held = [table_of(one) for one in _flat(targets) if isinstance(one, ast.Subscript)]
            yield from ((one.id, node) for one in held if isinstance(one, ast.Name))
        elif isinstance(node, ast.Call):
            is_change = isinstance(node.func, ast.Attribute) and node.func.attr in CHANGE
            held = [table_of(node.func.value)] if is_change and isinstance(node.func, ast.Attribute) else []
            called = called_name(node.func)
            held += node.args if called in CHANGE_ARGUMENT else []
            yield from ((one.id, node) for one in held if isinstance(one, ast.Name))


def _flat(targets: Iterable[ast.expr]) -> Iterator[ast.expr]:
    for target in targets:
        if isinstance(target, ast.Tuple | ast.List):
            yield from _flat(target.elts)
        else:
            yield target.value if isinstance(target, ast.Starred) else target


def _changed(target: ast.expr, aliases: dict[str, str]) -> str:
    """The attribute that an assignment to this target changes; the empty text for none."""
    if isinstance(target, ast.Attribute):
        return target.attr
    return _attribute(target.value, aliases) if isinstance(target, ast.Subscript) else ""


def _attribute(node: ast.expr, aliases: dict[str, str]) -> str:
    """The attribute that an expression is, or is an item of; the empty text for none."""
    node = table_of(node)
    if isinstance(node, ast.Attribute):
        return node.attr
    return aliases.get(node.id, "") if isinstance(node, ast.Name) else ""


def _changed_by_call(node: ast.Call, aliases: dict[str, str]) -> list[str]:
    called = called_name(node.func)
    found = []
    if isinstance(node.func, ast.Attribute) and called in CHANGE:
        found.append(_attribute(node.func.value, aliases))
    if called in _SETTERS and len(node.args) > 1 and isinstance(node.args[1], ast.Constant):
        found.append(str(node.args[1].value))
    if called in CHANGE_ARGUMENT:
        found += [_attribute(one, aliases) for one in node.args]
    return [name for name in found if name]
