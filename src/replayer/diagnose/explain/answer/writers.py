"""The lines that write the fields of the state in a trace."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import attrs

from replayer.diagnose.explain.cause import SourceLocation, is_save
from replayer.diagnose.explain.source_lines import SourceFile
from replayer.diagnose.explain.step_trace import Record, StepTrace


def lines_that_write(trace: StepTrace, names: set[str]) -> list[tuple[SourceLocation, list[str]]]:
    """The lines that write the fields of the state with these names in a trace, all fields if there are none.

    For a field that save() makes of an attribute: the lines of the step that changed the attribute, if any were seen.
    """
    writers: dict[SourceLocation, list[str]] = {}
    sources = {record.path: SourceFile(record.path) for record in trace.records}
    for record in trace.records:
        for name in record.after:
            if not name.startswith("s:") or (names and name not in names):
                continue
            for writer in list(_before_save(trace, record, name[2:], sources)) or [record]:
                line = SourceLocation(writer.path, writer.line, writer.function, "")
                fields_of_line = writers.setdefault(line, [])
                fields_of_line += [name[2:]] if name[2:] not in fields_of_line else []
    return [
        (attrs.evolve(line, text=sources[line.path].statement_text(line.line)), fields_of_line)
        for line, fields_of_line in writers.items()
    ]


def _before_save(trace: StepTrace, saving: Record, field: str, sources: dict[str, SourceFile]) -> Iterator[Record]:
    """The records, outside of save(), that changed what a line of save() made a field of."""
    if not is_save(saving.function):
        return
    read = _saved_attributes(sources[saving.path].statement_text(saving.line), field)
    values = {f"o{saving.owner}:{attribute}" for attribute in read}
    for record in trace.records:
        if values & record.after.keys() and not is_save(record.function):
            yield record


def _saved_attributes(statement: str, field: str) -> set[str]:
    """The attributes of self that a statement reads for one key of the dict that it makes."""
    try:
        tree = ast.parse(statement)
    except SyntaxError:
        return set()  # A comment within the statement; the line itself is named then.
    return {
        node.attr
        for made in ast.walk(tree)
        if isinstance(made, ast.Dict)
        for key, value in zip(made.keys, made.values, strict=True)
        if isinstance(key, ast.Constant) and key.value == field
        for node in ast.walk(value)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self"
    }
