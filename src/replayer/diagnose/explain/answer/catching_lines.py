"""Of a step that depends on how deep the stack is: the line that catches what is raised where the stack is full."""

from __future__ import annotations

import ast
from pathlib import Path

from replayer.diagnose.explain.cause import Cause, SourceLocation
from replayer.diagnose.explain.source_lines import SourceFile
from replayer.diagnose.explain.step_trace import StepTrace

_CATCHING = {"RecursionError", "RuntimeError", "Exception", "BaseException"}


def cause_of_depth(trace: StepTrace) -> Cause | None:
    """The innermost line under way at the end of the trace that is in a try with a handler for a RecursionError.

    trace: of a step whose recursion was too deep, which ended the trace. None if there is no such line.
    """
    number = len(trace.records) - 1
    while number >= 0:
        record = trace.records[number]
        if _is_caught(record.path, record.line):
            text = SourceFile(record.path).statement_text(record.line)
            place = SourceLocation(record.path, record.line, record.function, text)
            return Cause("depth", place, None, None, (), None, [], [])
        number = record.parent
    return None


def _is_caught(path: str, line: int) -> bool:
    try:
        tree = ast.parse(Path(path).read_bytes())
    except (OSError, SyntaxError, ValueError):
        return False
    tries = [node for node in ast.walk(tree) if isinstance(node, ast.Try)]
    return any(
        node.body[0].lineno <= line <= (node.body[-1].end_lineno or 0) and any(map(_catches, node.handlers))
        for node in tries
    )


def _catches(handler: ast.ExceptHandler) -> bool:
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(kind is None or (isinstance(kind, ast.Name) and kind.id in _CATCHING) for kind in kinds)
