"""The first call of a function that two versions of the code have, with the same arguments and another result."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import attrs

from replayer.diagnose.explain.answer.differing_value import differing_value
from replayer.diagnose.explain.cause import Cause, DifferingValue, SourceLocation
from replayer.diagnose.explain.source_lines import SourceFile
from replayer.diagnose.explain.step_trace import RETURN, Record, StepTrace, Values
from replayer.diagnose.explain.versions.changed_part import ChangedPart
from replayer.diagnose.explain.versions.edits.needed_edits import NeededEdits

_ARGUMENTS_SHOWN, _TEXT_MAX = 3, 24


@attrs.define
class _Call:
    """One call. arguments, attributes: digests, those of the object by their names; results: of each return, with its record."""

    arguments: Values
    attributes: Values
    results: list[tuple[Record, int | None]] = attrs.field(factory=list)

    @property
    def result(self) -> tuple[Record, int] | None:
        """The only return; None of a generator, of a call that raised, and of an object whose attributes were read one by one."""
        record, digest = self.results[0] if len(self.results) == 1 else (None, None)
        return (record, digest) if record is not None and digest else None

    def has_same_arguments(self, other: _Call, *, is_method: bool) -> bool:
        """Return True if all arguments are known and alike, and what was seen of the object whose method it is."""
        own, theirs = list(self.arguments.values()), list(other.arguments.values())
        if is_method and own and theirs and own[0] == theirs[0] == 0:
            own, theirs = own[1:], theirs[1:]
        both = self.attributes.keys() & other.attributes.keys()
        are_alike = all(self.attributes[name] == other.attributes[name] for name in both)
        return own == theirs and all(own) and are_alike


def with_first_result(cause: Cause, part: ChangedPart, traces: Sequence[StepTrace], edits: NeededEdits | None) -> Cause:
    """The cause in a function that makes the difference, with the first result that differs, and the lines that return it.

    part: the function. As it is if the lines of the cause have a value already, or no such call was seen.
    """
    if cause.reordered is not None or (cause.value is not None and cause.other_place is not None):
        return cause
    found = _first_pair(part, traces)
    if found is None:
        return cause
    first, second = found
    assert first.result is not None
    assert second.result is not None
    value = _value(part, traces, first, second)
    places = [_place(record, part) for record, _ in (first.result, second.result)]
    is_edited = edits is not None and any(
        edit.is_at(side, one.line) for edit in edits.edits for side, one in enumerate(places)
    )
    if not is_edited or places[0].text == places[1].text:  # What both return there in one way was made before.
        return attrs.evolve(cause, value=value) if cause.value is None else cause
    way = [one for one in cause.way if one[0] != cause.place]
    place, other = places
    return Cause("function", place, other, None, (), value, cause.outside, way, is_shown=True)


def _first_pair(part: ChangedPart, traces: Sequence[StepTrace]) -> tuple[_Call, _Call] | None:
    is_method = "." in part.name
    for first, second in zip(*(_calls(trace, part) for trace in traces), strict=False):
        if not first.has_same_arguments(second, is_method=is_method):
            return None  # From here on, the calls of the two need not correspond.
        if first.result is None or second.result is None:
            return None
        if first.result[1] != second.result[1]:
            return first, second
    return None


def _calls(trace: StepTrace, part: ChangedPart) -> Iterator[_Call]:
    """The calls of a function, as they began, with what was returned."""
    now: Values = {}
    calls: dict[int, _Call] = {}
    for record in trace.records:
        now |= record.before
        if record.module == part.module and record.function == part.name:
            if record.frame not in calls:
                own = f"f{record.frame}:"
                arguments = {name: digest for name, digest in record.before.items() if name.startswith(own)}
                object_names = f"o{record.owner}:"
                attributes = {
                    name.removeprefix(object_names): digest
                    for name, digest in now.items()
                    if name.startswith(object_names)
                }
                calls[record.frame] = _Call(arguments, attributes)
            if record.kind == RETURN:
                calls[record.frame].results.append((record, record.after.get(f"f{record.frame}:return")))
        now |= record.after
    yield from calls.values()


def _value(part: ChangedPart, traces: Sequence[StepTrace], first: _Call, second: _Call) -> DifferingValue:
    assert first.result is not None
    assert second.result is not None
    shown = [
        f"{name.partition(':')[2]}={text}"
        for name, digest in first.arguments.items()
        if digest and len(text := traces[0].texts.get(digest, "?" * _TEXT_MAX)) < _TEXT_MAX
    ]
    given = f"({', '.join(shown)})" if 0 < len(shown) <= _ARGUMENTS_SHOWN else ""
    name = f"the result of {part.name}{given}, the first call that gives another result for the same arguments"
    return differing_value((traces[0], traces[1]), name, (first.result[1], second.result[1]))


def _place(record: Record, part: ChangedPart) -> SourceLocation:
    source = SourceFile(record.path)
    statement = source.statement(record.line)
    line = statement.first_line if statement is not None else record.line
    return SourceLocation(record.path, line, part.name, source.statement_text(record.line))
