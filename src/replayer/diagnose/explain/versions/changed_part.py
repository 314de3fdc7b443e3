"""A function, or a value of a module, that differs between two versions of the code."""

from __future__ import annotations

import attrs

from replayer.diagnose.explain.cause import DifferingValue, SourceLocation
from replayer.diagnose.explain.source_lines import SourceFile
from replayer.diagnose.explain.step_trace import StepTrace

VERSIONS = "AB"


@attrs.frozen
class ReadValue:
    """A value that the step reads and that differed before it, with the first line of A that names it; None if none does."""

    line: SourceLocation | None
    value: DifferingValue


@attrs.frozen
class ChangedPart:
    """A function or a value that differs between two versions.

    Attributes:
        module, name: of the function or the value, as B has it.
        files: of the module in both versions.
        lines: to name in both; None in a version that does not have it.
        then: values that are made of it, as B takes them: they are made again.
        read: of a value: where the step reads it, or what is made of it; None for a function that the step runs.
    """

    module: str
    name: str
    files: tuple[str, str]
    lines: tuple[int | None, int | None]
    then: tuple[tuple[str, str, str], ...] = ()
    read: ReadValue | None = None
    is_value: bool = False

    @property
    def taken(self) -> tuple[tuple[str, str, str], ...]:
        """What B takes from A; see taken_functions.py."""
        return (self.module, self.name, self.files[0] if self.lines[0] is not None else ""), *self.then

    def place(self, side: int) -> SourceLocation | None:
        """The line to name in one of the two."""
        line = self.lines[side]
        if line is None:
            return None
        source = SourceFile(self.files[side])
        statement = source.statement(line)
        is_entry = statement is not None and line > statement.first_line
        is_long = statement is not None and self.is_value and statement.last_line > line
        is_alone = source.text(line).startswith("@") or is_entry or is_long
        text = source.text(line) if is_alone else source.statement_text(line)
        return SourceLocation(self.files[side], line, "" if self.is_value else self.name, text)


def only_version_with(path: str, first: StepTrace, second: StepTrace) -> str:
    """The version that has a file, A or B; empty if both have it, or neither."""
    having = [
        letter
        for letter, trace in zip(VERSIONS, (first, second), strict=True)
        if path in trace.modules.values() or any(record.path == path for record in trace.records)
    ]
    return having[0] if len(having) == 1 else ""
