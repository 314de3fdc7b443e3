"""The lines that write the fields of the state in a trace."""

from __future__ import annotations

import attrs

from replayer.diagnose.explain.cause import SourceLocation
from replayer.diagnose.explain.source_lines import SourceFile
from replayer.diagnose.explain.step_trace import StepTrace


def lines_that_write(trace: StepTrace, names: set[str]) -> list[tuple[SourceLocation, list[str]]]:
    """The lines that write the fields of the state with these names in a trace, all fields if there are none."""
    writers: dict[SourceLocation, list[str]] = {}
    for record in trace.records:
        written = [name for name in record.after if name.startswith("s:") and (name in names or not names)]
        if written:
            line = SourceLocation(record.path, record.line, record.function, "")
            fields_of_line = writers.setdefault(line, [])
            fields_of_line += [name[2:] for name in written if name[2:] not in fields_of_line]
    sources = {line.path: SourceFile(line.path) for line in writers}
    return [
        (attrs.evolve(line, text=sources[line.path].statement_text(line.line)), fields_of_line)
        for line, fields_of_line in writers.items()
    ]
