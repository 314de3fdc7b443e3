"""How the step reads a table: by keys alone, so that a key that one of two versions lacks would have raised there."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from replayer.diagnose.explain.source_lines import SourceFile
from replayer.diagnose.explain.step_trace import RETURN, StepTrace


def read_by_key(traces: Iterable[StepTrace], word: str) -> int:
    """In how many levels each line that both ran reads a table of this name by keys; 0 if one may read it in another way.

    Also if one of the two did not run to its end: it may have raised at a key that it lacks.
    """
    both = list(traces)
    if not all(map(_is_ended, both)):
        return 0
    lines: dict[str, set[int]] = {}
    for record in (one for trace in both for one in trace.records):
        lines.setdefault(record.path, set()).add(record.line)
    sources = {path: SourceFile(path) for path in lines}
    return min((one for path in lines for line in lines[path] for one in _levels(sources[path], line, word)), default=0)


def _is_ended(trace: StepTrace) -> bool:
    return trace.limited is None and any(one.kind == RETURN and one.parent < 0 for one in trace.records[-1:])


def _levels(source: SourceFile, line: int, word: str) -> Iterator[int]:
    """Of each time that the statement of a line names the table: how many keys follow."""
    if word not in source.statement_text(line):
        return
    nodes = [one for one in ast.walk(source.tree) if isinstance(one, ast.stmt) and one.lineno <= line]
    around = [one for one in nodes if (one.end_lineno or one.lineno) >= line]
    if not around or any(isinstance(one, ast.Try) for one in around):
        yield 0  # A key that is not there may be caught.
        return
    inside: dict[int, ast.AST] = {}
    for node in ast.walk(around[-1]):
        inside |= {id(child): node for child in ast.iter_child_nodes(node)}
    for node in ast.walk(around[-1]):
        if not (isinstance(node, ast.Name) and node.id == word) and not (
            isinstance(node, ast.Attribute) and node.attr == word
        ):
            continue
        count, outer = 0, inside.get(id(node))
        inner: ast.AST = node
        while isinstance(outer, ast.Subscript) and outer.value is inner and isinstance(outer.ctx, ast.Load):
            count, inner, outer = count + 1, outer, inside.get(id(outer))
        yield count
