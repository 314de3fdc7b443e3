"""Which functions of two versions of the code make the difference: each is taken from A into B alone, and the step runs.

A step that chance decides gives the state of A now and then: what is told was found in several processes, each of which gave
the state of B with the version as it is.
"""

from __future__ import annotations

import ast
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import attrs

from replayer.diagnose.explain.answer.explanation import Explanation
from replayer.diagnose.explain.cause import Cause, DifferingValue, SourceLocation
from replayer.diagnose.explain.line_pairs.edited_parts import lines_that_differ
from replayer.diagnose.explain.line_pairs.line_map import LineMap
from replayer.diagnose.explain.line_pairs.source_functions import (
    LOCALS,
    functions_of,
    outermost,
    value_statements,
)
from replayer.diagnose.explain.outside.deciding_variables import RUNS
from replayer.diagnose.explain.source_lines import SourceFile
from replayer.diagnose.explain.step_trace import StepTrace
from replayer.diagnose.explain.trace_step import NOT_REPEATABLE, STACK_DEPTH, TracedStep
from replayer.diagnose.explain.values.given_values import GivenFunctions
from replayer.diagnose.explain.variants import Variant, VariantOutcome
from replayer.diagnose.explain.versions.changed_part import VERSIONS, ChangedPart
from replayer.diagnose.explain.versions.edited_values import edited_values
from replayer.diagnose.explain.versions.edits.fewest import fewest
from replayer.diagnose.explain.versions.edits.first_result import with_first_result
from replayer.diagnose.explain.versions.edits.last_writers import last_writers
from replayer.diagnose.explain.versions.edits.needed_edits import NeededEdits, needed_edits
from replayer.diagnose.explain.versions.in_its_place import in_its_place
from replayer.diagnose.explain.versions.lost_first import with_lost_first
from replayer.diagnose.explain.versions.step_with_functions import NOT_ENDED, NOT_TAKEN, OUT_OF_TIME, TIME_S

TESTED_MAX = 50  # Functions, with each of which the step runs.
TESTED_KINDS = ("edited", "version", "line", "unseen", "branch", "alone", "outside")
_NO_RESULT = (OUT_OF_TIME, NOT_ENDED)  # Whether B gives the state of A with it is not known then.
_ALIGNED = ("line", "unseen", "branch", "alone")  # Kinds that rest on which lines of two versions correspond.

Run = Callable[[Sequence[Variant], Sequence[int | None]], list[VariantOutcome]]


def with_tested_functions(explained: Explanation, run: Run) -> Explanation:
    """The explanation of two versions of the code with the functions that make the difference, as far as tests show them.

    A line in another function is not the cause then. What load() loses comes before a line of which nothing is shown. run: runs
    variants.
    """
    return with_lost_first(_with_functions(explained, run))


def _with_functions(explained: Explanation, run: Run) -> Explanation:
    pair, cause = explained.pair, explained.cause
    if pair is None or (cause is not None and cause.kind not in TESTED_KINDS):
        return explained
    steps = [outcome.step for outcome in pair if outcome.step is not None and outcome.step.is_traced]
    if len(steps) != len(pair) or pair[0].variant.code == pair[1].variant.code:
        return explained
    if {NOT_REPEATABLE, STACK_DEPTH} & set(explained.notes):
        return explained
    test = _Test(pair, run)
    found = test.find(_changed_functions(steps, cause), edited_values(steps), cause)
    explained = attrs.evolve(explained, notes=[*explained.notes, *test.notes])
    if found is None:
        return explained
    names = tuple(one.name for one in found.needed)
    removed = tuple(one.name for one in found.needed if one.lines[0] is None)
    edits = test.edits_of(found.needed)
    tested = edits.tested if edits is not None else None
    functions = GivenFunctions(names, removed, found.has_effect, found.brought, tested, found.is_none_alone)
    defined = cause.defined_at if cause is not None else None
    if cause is not None and defined is not None and not found.needed and not found.has_effect:
        if (value := _value_at(steps, defined)) is None or not test.decides(value):
            return attrs.evolve(explained, functions=functions)
        read = attrs.evolve(cause, place=defined[0], other_place=defined[1], read_at=cause.place, defined_at=None)
        read = attrs.evolve(read, is_shown=True)
        return attrs.evolve(explained, cause=read, functions=attrs.evolve(functions, has_effect=True))
    if not found.needed:
        return attrs.evolve(explained, functions=functions, cause=_without_effect(found, cause))
    named = _named(found.needed, cause, steps, edits)
    traces = [step.trace for step in steps]
    if edits is not None and not named.outside and named.read_at is None:
        named = with_first_result(named, found.needed[0], traces, edits)
    if named.reordered is not None and len(named.way) < 2:
        named = attrs.evolve(named, way=last_writers(named.place, traces))
    return attrs.evolve(explained, functions=functions, cause=named)


def _without_effect(found: _Found, cause: Cause | None) -> Cause | None:
    """The cause, or the function of its line: a value that only lines of two versions gave is no difference of the runs then."""
    if cause is None or found.own is None or found.has_effect or cause.kind not in _ALIGNED:
        return cause
    return _at(found.own, "function", [])


def _named(
    needed: Sequence[ChangedPart], cause: Cause | None, steps: Sequence[TracedStep], edits: NeededEdits | None
) -> Cause:
    """The cause that tests showed: the line that was found before, if it is of what B needs of A."""
    told = edits.part if edits is not None else needed[0]
    if told.read is not None:
        named = _at(told, "edited" if told.is_value else "function", [told.read.value])
        is_found = cause is not None and cause.read_at is not None and cause.place == named.place
        return cause if cause is not None and is_found else attrs.evolve(named, read_at=told.read.line)
    inherited = in_its_place(told, steps)
    if inherited is not None and (cause is None or not inherited.are_heads or inherited.have_both(cause.place.text)):
        # A line that was found by itself has its counterpart elsewhere: the values are of two moments.
        return Cause("function", *inherited.places, None, (), None, [], [])
    is_in_one = cause is not None and _is_in(cause, needed)
    outside = cause.outside if cause is not None and is_in_one else []
    # Of an edited line that reads what differed before, such as a default, which of the two does it was not tested.
    placed = edits.cause_of_place(cause.way if cause is not None else []) if edits is not None else None
    if placed is not None and (placed.reordered is not None or cause is None or not is_in_one):
        return placed
    if (
        cause is not None
        and is_in_one
        and cause.kind == "edited"
        and not outside
        and (edits is None or edits.has(cause))
    ):
        return cause
    return placed or _at(told, "function", outside)


def _at(part: ChangedPart, kind: str, outside: list[DifferingValue]) -> Cause:
    second, first = part.place(1), part.place(0)
    place, other = (first, second) if first is not None else (second, None)
    assert place is not None
    only_in = "" if other is not None else VERSIONS[first is None]
    return Cause(kind, place, other, None, (), None, outside, [], only_in=only_in)


def _value_at(steps: Sequence[TracedStep], places: tuple[SourceLocation, SourceLocation | None]) -> ChangedPart | None:
    """The name of a module or a class that a statement gives a value; None without, or in one version alone."""
    place, other = places
    if other is None:
        return None
    files = place.path, other.path
    modules = [name for name, file in steps[1].trace.modules.items() if file == files[1]]
    lines = [
        {name for name, node in value_statements(SourceFile(one.path).tree).items() if _spans(node, one.line)}
        for one in (place, other)
    ]
    names = lines[0] & lines[1]
    if len(names) != 1 or len(modules) != 1:
        return None
    return ChangedPart(modules[0], names.pop(), files, (place.line, other.line))


def _spans(node: ast.stmt, line: int) -> bool:
    return node.lineno <= line <= (node.end_lineno or node.lineno)


def _is_in(cause: Cause, functions: Sequence[ChangedPart]) -> bool:
    places = [cause.place, *([cause.other_place] if cause.other_place is not None else [])]
    own = {(Path(one.path).name, outermost(one.function)) for one in places}  # Modules may have functions of one name.
    return any((Path(file).name, one.name) in own for one in functions for file in one.files)


def _is_of(cause: Cause | None, part: ChangedPart) -> bool:
    """Return True for the function of the line of a cause, and for the value that it gives."""
    if cause is None or cause.read_at is not None:
        return cause is not None and part.is_value and cause.place == part.place(0)
    return part.read is None and LOCALS not in cause.place.function and _is_in(cause, [part])


@attrs.frozen
class _Found:
    """What the tests showed.

    Attributes:
        needed: the functions and values that give B the state of A: one alone, or some together; empty if none do.
        has_effect: False if that of the line ran, and alone leaves B as it was; of a value, if B does not give the state of A
            with it.
        own: the function of the line, if it was tested.
        brought: what the needed ones use and B lacks, which B got, too.
        is_none_alone: False if the step did not end with one function alone.
    """

    needed: list[ChangedPart]
    has_effect: bool = True
    own: ChangedPart | None = None
    brought: tuple[str, ...] = ()
    is_none_alone: bool = True


class _VariesError(Exception):
    """The version as it is, or with a function, gave another state than before."""


@attrs.frozen(eq=False)
class _Test:
    """Attributes: notes: what kept it from an end."""

    pair: tuple[VariantOutcome, VariantOutcome]
    run: Run
    notes: list[str] = attrs.field(factory=list)
    _end_s: float = attrs.field(factory=lambda: time.monotonic() + 2 * TIME_S)

    def find(self, changed: Sequence[ChangedPart], values: Sequence[ChangedPart], cause: Cause | None) -> _Found | None:
        """None if nothing was tested, or the results are not repeated.

        changed: functions, the one to test first comes first. values: tested before them where the line reads such a value.
        """
        if not changed and not values:
            return None
        try:
            return self._find(changed, values, cause)
        except _VariesError:
            label = self.pair[1].variant.label
            self.notes.append(f"{label}: the same step, run again in another process, gives another state")
            return None

    def decides(self, value: ChangedPart) -> bool:
        """Return True if B gives the state of A with the value of a name as A has it, each time."""
        try:
            return all(self._is_right(self._results([[value]])[0]) for _ in range(RUNS))
        except _VariesError:
            return False

    def _find(
        self, changed: Sequence[ChangedPart], values: Sequence[ChangedPart], cause: Cause | None
    ) -> _Found | None:
        tested = changed[:TESTED_MAX]
        results: list[tuple[ChangedPart, VariantOutcome | None]] = []
        reads_value = cause is not None and (cause.kind == "version" or cause.read_at is not None)
        for parts in (values, tested) if reads_value else (tested, values):
            ran = list(zip(parts, self._results([[one] for one in parts]) if parts else [], strict=True))
            right = next((one for one, result in ran if self._is_right(result)), None)
            if right is not None:
                return _Found([right], brought=self._repeat([right], self.pair[0]))
            results += ran
        able = [one for one, result in results if result is not None]
        unknown = [one for one, result in results if result is not None and result.why_not in _NO_RESULT]
        is_late = any(result is not None and result.why_not == OUT_OF_TIME for _, result in results)
        if len(tested) == len(changed) and not is_late and (together := self._together(able)):
            return _Found(together, brought=self._repeat(together, self.pair[0]), is_none_alone=not unknown)
        if unknown or len(tested) < len(changed):
            number = sum(one not in unknown for one in tested)
            self.notes.append(
                f"of {len(changed)} functions that differ, {number} of A were tried in B, each alone: none gives the state of A"
            )
        if not able:
            return None
        own, result = next(((one, result) for one, result in results if _is_of(cause, one)), (None, None))
        has_no_effect = own is not None and result is not None and result.result == self.pair[1].result
        has_no_effect &= result is not None and result.why_not is None
        if has_no_effect and own is not None:
            self._repeat([own], self.pair[1])
        return _Found([], not has_no_effect, own)

    def _together(self, changed: list[ChangedPart]) -> list[ChangedPart]:
        """The functions that do it together, without those that can be left out; empty if all together do not."""
        if len(changed) < 2 or not self._is_right(self._results([changed])[0]):
            return []
        kept, _ = fewest(changed, self._are_right, self._end_s)
        return kept

    def edits_of(self, needed: Sequence[ChangedPart]) -> NeededEdits | None:
        """Which edits of the only function that is needed make the difference; None of any other."""
        if len(needed) != 1:
            return None

        def are_right(parts: Sequence[ChangedPart]) -> list[bool | None]:
            results = self._results([[one] for one in parts])
            return [None if one is None or one.why_not in _NO_RESULT else self._is_right(one) for one in results]

        try:
            return needed_edits(needed[0], are_right, RUNS, time.monotonic() + TIME_S)
        except _VariesError:
            return None

    def _are_right(self, groups: Sequence[Sequence[ChangedPart]]) -> list[bool]:
        return list(map(self._is_right, self._results(groups)))

    def _repeat(self, group: Sequence[ChangedPart], outcome: VariantOutcome) -> tuple[str, ...]:
        """Find the result of a group again, in further processes, and return what the group brought with it.

        Raises _VariesError if one gives another result.
        """
        brought: tuple[str, ...] = ()
        for _ in range(RUNS - 1):
            again = self._results([group])[0]
            if again is None or again.result != outcome.result:
                raise _VariesError
            brought = again.brought
        return brought

    def _results(self, groups: Sequence[Sequence[ChangedPart]]) -> list[VariantOutcome | None]:
        """What B gives with the functions of each group as A has them; None if they could not be taken.

        Raises _VariesError if B as it is gives another state in that process.
        """
        second = self.pair[1].variant
        taken = tuple(tuple(name for one in group for name in one.taken) for group in groups)
        variant = attrs.evolve(second, label="now, with functions of A", taken=taken)
        own, *outcomes = self.run([variant], [second.start])
        if own.result is None or len(outcomes) != len(groups):
            return [None for _ in groups]
        if own.result != self.pair[1].result:
            raise _VariesError
        return [None if one.why_not == NOT_TAKEN else one for one in outcomes]

    def _is_right(self, outcome: VariantOutcome | None) -> bool:
        return outcome is not None and outcome.result == self.pair[0].result


def _changed_functions(steps: Sequence[TracedStep], cause: Cause | None) -> list[ChangedPart]:
    """The functions that ran in one of the two and differ: that of the cause first, then as they ran."""
    traces = [step.trace for step in steps]
    ran = list(dict.fromkeys((module, name) for trace in traces for module, name in _ran(trace)))
    found: list[ChangedPart] = []
    for module in dict.fromkeys(module for module, _ in ran):
        files = [trace.modules.get(module) for trace in traces]
        if files[0] is not None and files[1] is not None:
            found += _changed_in(module, (files[0], files[1]))
    order = {key: number for number, key in enumerate(ran)}
    found = [one for one in found if (one.module, one.name) in order]
    found.sort(key=lambda one: (cause is None or not _is_in(cause, [one]), order[one.module, one.name]))
    return found


def _ran(trace: StepTrace) -> Iterator[tuple[str, str]]:
    for record in trace.records:
        yield record.module, outermost(record.function)


def _changed_in(module: str, files: tuple[str, str]) -> Iterator[ChangedPart]:
    sources = SourceFile(files[0]), SourceFile(files[1])
    lines = LineMap(*sources)
    if lines.same:
        return
    first, second = (functions_of(source.tree) for source in sources)
    for name in dict.fromkeys([*first, *second]):
        one, other = first.get(name), second.get(name)
        if one is None or other is None:
            yield ChangedPart(module, name, files, (one.lineno if one else None, other.lineno if other else None))
        elif not lines.is_alike(one, other, name):
            yield ChangedPart(module, name, files, lines_that_differ(one, other, lines))
