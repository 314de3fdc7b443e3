"""The values of modules that a step reads, and that were edited, or are made of what was edited, between two versions of the code."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import attrs

from replayer.diagnose.explain.answer.differing_value import differing_value
from replayer.diagnose.explain.cause import SourceLocation
from replayer.diagnose.explain.line_pairs.edited_parts import differing_lines, lines_that_differ
from replayer.diagnose.explain.line_pairs.line_map import LineMap
from replayer.diagnose.explain.line_pairs.source_functions import functions_of, value_statements
from replayer.diagnose.explain.source_lines import SourceFile
from replayer.diagnose.explain.step_trace import StepTrace
from replayer.diagnose.explain.trace_step import TracedStep
from replayer.diagnose.explain.versions.changed_part import ChangedPart, ReadValue
from replayer.diagnose.explain.versions.read_by_key import read_by_key

_DEPTH_MAX = 4  # Of values that are made of others, and of modules that import a name from another.
_READ_MAX = 20  # Values that a step reads and that differ.

Home = tuple[str, str]  # A module, and the name there.


def edited_values(steps: Sequence[TracedStep]) -> list[ChangedPart]:
    """In the order in which the step of A reads them."""
    traces = steps[0].trace, steps[1].trace
    own, other = (_first_reads(trace) for trace in traces)
    found: list[ChangedPart] = []
    for name in [name for name in own if name in other and own[name][1] != other[name][1]][:_READ_MAX]:
        _, module, word = name.split(":", 2)
        part = _edited(traces, (module, word), (module, word), 0)
        if part is not None and all(part.taken != one.taken for one in found):
            digests = own[name][1], other[name][1]
            value = differing_value(traces, f"{module}.{word}", digests)
            found.append(attrs.evolve(part, read=ReadValue(_line_reading(traces[0], own[name][0], word), value)))
    return found


def _first_reads(trace: StepTrace) -> dict[str, tuple[int, int]]:
    """By the names of values of modules, the number of the first record that reads each, and the digest that it reads."""
    found: dict[str, tuple[int, int]] = {}
    for number, record in enumerate(trace.records):
        for name, digest in record.before.items():
            if name.startswith("g:") and name.count(":") == 2 and digest is not None:
                found.setdefault(name, (number, digest))
    return found


def _line_reading(trace: StepTrace, first: int, word: str) -> SourceLocation | None:
    """The first line, from a record on, that names a value: all that a function may read is noted when it begins."""
    sources: dict[str, SourceFile] = {}
    for record in trace.records[first:]:
        source = sources.setdefault(record.path, SourceFile(record.path))
        statement = source.statement(record.line)
        if statement is None or word not in {name.rpartition(".")[2] for name in statement.reads | statement.chains}:
            continue
        return SourceLocation(record.path, statement.first_line, record.function, source.statement_text(record.line))
    return None


def _edited(traces: tuple[StepTrace, StepTrace], one: Home, other: Home, depth: int) -> ChangedPart | None:
    """What was edited of a name that both versions have, or of what its value is made of; None if nothing is known to be."""
    homes = _home(traces[0], one), _home(traces[1], other)
    if homes[0] is None or homes[1] is None or homes[0][1] != homes[1][1] or depth > _DEPTH_MAX:
        return None
    module, name = homes[1]
    files = traces[0].modules[homes[0][0]], traces[1].modules[module]
    sources = SourceFile(files[0]), SourceFile(files[1])
    functions = [functions_of(source.tree).get(name) for source in sources]
    if functions[0] is not None and functions[1] is not None:
        lines = LineMap(*sources)
        same = lines.same or lines.is_alike(functions[0], functions[1], name)
        return None if same else ChangedPart(module, name, files, lines_that_differ(functions[0], functions[1], lines))
    values = [value_statements(source.tree).get(name) for source in sources]
    if values[0] is None or values[1] is None:
        return None
    edited = differing_lines(values[0], values[1], read_by_key(traces, other[1]))
    if edited is not None:
        return ChangedPart(module, name, files, edited, is_value=True)
    for word in _read_by(sources[1], values[1].lineno):
        part = _edited(traces, (homes[0][0], word), (module, word), depth + 1)
        if part is not None:
            return attrs.evolve(part, then=(*part.then, (module, name, files[0])))
    return None


def _read_by(source: SourceFile, line: int) -> Iterator[str]:
    statement = source.statement(line)
    names = statement.reads if statement is not None else frozenset()
    yield from sorted(name for name in names if name.isidentifier())


def _home(trace: StepTrace, name: Home) -> Home | None:
    """The module whose file gives a value to a name, and the name there; None if that is not known."""
    module, word = name
    for _ in range(_DEPTH_MAX):
        if module not in trace.modules:
            return None
        from_module, own = SourceFile(trace.modules[module]).imported.get(word, ("", ""))
        if not from_module:
            return module, word
        ends = [one for one in trace.modules if f".{one}".endswith(f".{from_module}")]
        if len(ends) != 1:
            return None
        module, word = ends[0], own
    return None
