"""The lines of both versions that wrote an attribute last which differs after the step."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence

from replayer.diagnose.explain.cause import SourceLocation
from replayer.diagnose.explain.source_lines import SourceFile
from replayer.diagnose.explain.step_trace import Record, StepTrace
from replayer.diagnose.explain.versions.changed_part import VERSIONS

_CLASS = re.compile(r"^[^.\[]*\.?")  # At the beginning of the name of an object.
_OWN = re.compile(r"o(\d+):(.*)")

Written = dict[str, tuple[int, int, Record]]  # By path: the digest, the number of the record, and the record.


def last_writers(cause: SourceLocation, traces: Sequence[StepTrace]) -> list[tuple[SourceLocation, str]]:
    """The path from a line to the first attribute that both versions write, and that differs after the step; empty without one."""
    first, second = map(_written, traces)
    differing = [path for path in first if path in second and 0 != first[path][0] != second[path][0] != 0]
    if not differing:
        return []
    path = min(differing, key=lambda one: (first[one][1], -len(one)))  # Rather what is written than what holds it.
    places = [
        (_place(written[path][2]), f"{path} in {letter}")
        for letter, written in zip(VERSIONS, (first, second), strict=True)
    ]
    return [(cause, ""), *places]


def _written(trace: StepTrace) -> Written:
    found: Written = {}
    for number, record in enumerate(trace.records):
        for name, digest in record.after.items():
            match = _OWN.fullmatch(name)
            owner = trace.owners.get(int(match[1])) if match is not None else None
            if match is None or owner is None or digest is None:
                continue
            # What a line does not name may have been read after a later one.
            if _assigns(_place(record).text, match[2]):
                found[f"{_CLASS.sub('', owner)}.{match[2]}".lstrip(".")] = digest, number, record
    return found


def _assigns(text: str, attribute: str) -> bool:
    """Return True for a statement that assigns to an attribute or to elements of it, and for a call alone that has it."""
    try:
        tree = ast.parse(text)
    except SyntaxError:  # The head of a block.
        return False
    parts = list[ast.AST]()
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=targets) | ast.Delete(targets=targets):
                parts += targets
            case ast.AugAssign(target=target) | ast.AnnAssign(target=target):
                parts.append(target)
            case ast.Expr(value=ast.Call() as call):
                parts.append(call)
    named = (node for part in parts for node in ast.walk(part))
    return any(isinstance(node, ast.Attribute) and node.attr == attribute for node in named)


def _place(record: Record) -> SourceLocation:
    source = SourceFile(record.path)
    statement = source.statement(record.line)
    line = statement.first_line if statement is not None else record.line
    return SourceLocation(record.path, line, record.function, source.statement_text(record.line))
