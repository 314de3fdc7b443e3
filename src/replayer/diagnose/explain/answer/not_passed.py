"""Variables that a function has when it begins and that its caller did not pass: closures and default arguments."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from replayer.diagnose.explain.line_pairs.source_functions import local_names
from replayer.diagnose.explain.line_pairs.taken_defaults import called_name
from replayer.diagnose.explain.source_lines import SourceFile
from replayer.diagnose.explain.step_trace import Record, is_inner


def is_not_passed(source: SourceFile, records: Sequence[Record], record: Record, value: str, call: str) -> bool:
    """Return True if a variable, which a function has from its beginning, cannot come from the call.

    source: of the record, which is a line of the function, or of an expression in it with a frame of its own. records: of
    the trace. value: the variable as traces name it. call: the statement
    that called the function. False where the source does not tell.
    """
    frame, _, name = value.partition(":")
    while is_inner(record.function) and record.parent >= 0 and frame != f"f{record.frame}":
        record = records[record.parent]
    line = record.line
    if is_inner(record.function):
        return False
    try:
        functions = [
            node
            for node in ast.walk(ast.parse("\n".join(source.lines)))
            if isinstance(node, ast.FunctionDef) and node.lineno <= line <= (node.end_lineno or line)
        ]
        calls = [node for node in ast.walk(ast.parse(call)) if isinstance(node, ast.Call)]
    except SyntaxError:
        return False
    if not functions:
        return False
    function = max(functions, key=lambda node: node.lineno)  # The innermost one.
    arguments = function.args
    positional = [one.arg for one in (*arguments.posonlyargs, *arguments.args)]
    keywords = [one.arg for one in arguments.kwonlyargs]
    gathered = [one.arg for one in (arguments.vararg, arguments.kwarg) if one is not None]
    if name not in (*positional, *keywords, *gathered):
        return True
    defaults = positional[len(positional) - len(arguments.defaults) :] if arguments.defaults else []
    defaults += [key for key, value in zip(keywords, arguments.kw_defaults, strict=True) if value is not None]
    is_made = function.name == "__init__" and "." in record.function  # It is called by the name of its class.
    called = record.function.split(".")[-2] if is_made else function.name
    own = [one for one in calls if called_name(one) in (called, function.name)]
    return name in defaults and bool(own) and not any(_may_pass(one, name, positional, is_made=is_made) for one in own)


def variable_text(source: SourceFile, records: Sequence[Record], record: Record, name: str) -> str:
    """How a function has a variable that no line of it gave it; empty if that is not known.

    records: of the trace. record: a line of the function, or of an expression in it with a frame of its own.
    """
    while is_inner(record.function) and record.parent >= 0:
        record = records[record.parent]
    functions = [
        node
        for node in ast.walk(source.tree)
        if isinstance(node, ast.FunctionDef) and node.lineno <= record.line <= (node.end_lineno or record.line)
    ]
    if not functions or is_inner(record.function):
        return ""
    function = max(functions, key=lambda node: node.lineno)  # The innermost one.
    arguments = function.args
    positional = [*arguments.posonlyargs, *arguments.args]
    with_default = [one.arg for one in positional[len(positional) - len(arguments.defaults) :]]
    with_default += [
        one.arg for one, value in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if value is not None
    ]
    if name in [one.arg for one in (*positional, *arguments.kwonlyargs)]:
        if name in with_default:
            return "which the caller did not pass" if record.parent >= 0 else ""
        return "an argument of the step" if record.parent < 0 else ""
    is_free = name not in local_names(function) and len(functions) > 1
    return "a variable of the function around it" if is_free else ""


def _may_pass(call: ast.Call, name: str, positional: list[str], *, is_made: bool) -> bool:
    """Return True if a call may give a parameter its value."""
    if any(isinstance(one, ast.Starred) for one in call.args) or any(one.arg in (None, name) for one in call.keywords):
        return True
    bound = int(is_made or isinstance(call.func, ast.Attribute))  # At most: the object whose method it is.
    return name in positional and positional.index(name) < len(call.args) + bound
