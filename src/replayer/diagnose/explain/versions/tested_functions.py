"""Which functions of two versions of the code make the difference: each is taken from A into B alone, and the step runs."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator, Sequence

import attrs

from replayer.diagnose.explain.answer.explanation import Explanation
from replayer.diagnose.explain.cause import Cause, SourceLocation
from replayer.diagnose.explain.line_pairs.line_map import LineMap, Renames
from replayer.diagnose.explain.line_pairs.source_functions import FunctionNode, functions_of, outermost
from replayer.diagnose.explain.outside.outside_variants import AT_A_TIME
from replayer.diagnose.explain.source_lines import SourceFile
from replayer.diagnose.explain.step_trace import StepTrace
from replayer.diagnose.explain.trace_step import TracedStep
from replayer.diagnose.explain.values.given_values import GivenFunctions
from replayer.diagnose.explain.variants import Variant, VariantOutcome

TESTED_MAX = 12  # Functions, each of which is tested by a process.
_TESTED = ("edited", "version", "line", "unseen", "branch", "alone", "outside")

Run = Callable[[Sequence[Variant], Sequence[int | None]], list[VariantOutcome]]


@attrs.frozen
class _Changed:
    """A function that differs between two versions.

    Attributes:
        module, name: of the function.
        files: of the module in both versions.
        lines: to name in both; None in a version that does not have it.
    """

    module: str
    name: str
    files: tuple[str, str]
    lines: tuple[int | None, int | None]

    @property
    def taken(self) -> tuple[str, str, str]:
        """What B takes from A; see taken_functions.py."""
        return self.module, self.name, self.files[0] if self.lines[0] is not None else ""

    def place(self, side: int) -> SourceLocation | None:
        """The line to name in one of the two."""
        line = self.lines[side]
        if line is None:
            return None
        source = SourceFile(self.files[side])
        text = source.text(line) if source.text(line).startswith("@") else source.statement_text(line)
        return SourceLocation(self.files[side], line, self.name, text)


def with_tested_functions(explained: Explanation, run: Run) -> Explanation:
    """The explanation of two versions of the code with the functions that make the difference, as far as tests show them.

    A line in another function is not the cause then. run: runs variants.
    """
    pair, cause = explained.pair, explained.cause
    if pair is None or (cause is not None and (cause.kind not in _TESTED or cause.read_at is not None)):
        return explained
    steps = [outcome.step for outcome in pair if outcome.step is not None and outcome.step.is_traced]
    if len(steps) != len(pair) or pair[0].variant.code == pair[1].variant.code:
        return explained
    changed = _changed_functions(steps, cause)[:TESTED_MAX]
    found = _Test(pair, run).find(changed)
    if found is None:
        return explained
    names = tuple(one.name for one in found.needed)
    removed = tuple(one.name for one in found.needed if one.lines[0] is None)
    functions = GivenFunctions(names, removed, found.has_effect)
    if cause is not None and cause.defined_at is not None and not found.needed and not found.has_effect:
        defined = cause.defined_at
        read = attrs.evolve(cause, place=defined[0], other_place=defined[1], read_at=cause.place, defined_at=None)
        return attrs.evolve(explained, cause=read, functions=attrs.evolve(functions, has_effect=True))
    if not found.needed or (cause is not None and _is_in(cause, found.needed) and cause.kind == "edited"):
        return attrs.evolve(explained, functions=functions)
    told = found.needed[0]
    second, first = told.place(1), told.place(0)
    place, other = (first, second) if first is not None else (second, None)
    assert place is not None
    named = Cause("function", place, other, None, (), None, [], [])
    return attrs.evolve(explained, cause=named, functions=functions)


def _is_in(cause: Cause, functions: Sequence[_Changed]) -> bool:
    own = outermost(cause.place.function), outermost(cause.other_place.function if cause.other_place else "")
    return any(one.name in own for one in functions)


@attrs.frozen
class _Found:
    """What the tests showed.

    Attributes:
        needed: the functions that give B the state of A: one alone, or some together; empty if none do.
        has_effect: False if the first of those that were tested, alone, leaves B as it was.
    """

    needed: list[_Changed]
    has_effect: bool = True


@attrs.frozen(eq=False)
class _Test:
    pair: tuple[VariantOutcome, VariantOutcome]
    run: Run

    def find(self, changed: Sequence[_Changed]) -> _Found | None:
        """None if nothing was tested. changed: the one to test first comes first."""
        if not changed:
            return None
        results: list[VariantOutcome | None] = []
        for start, end in ((0, 1), *((at, at + AT_A_TIME) for at in range(1, len(changed), AT_A_TIME))):
            tested = changed[start:end]
            results += self._results([[one] for one in tested])
            right = [one for one, result in zip(tested, results[start:], strict=True) if self._is_right(result)]
            if right:
                return _Found(right[:1])
        if all(result is None for result in results):
            return None
        own = results[0]
        has_effect = own is None or own.result != self.pair[1].result
        able = [one for one, result in zip(changed, results, strict=True) if result is not None]
        return _Found(self._together(able), has_effect)

    def _together(self, changed: list[_Changed]) -> list[_Changed]:
        """The functions that do it together, without those that can be left out; empty if all together do not."""
        if len(changed) < 2 or not self._is_right(self._results([changed])[0]):
            return []
        for one in list(changed):
            rest = [other for other in changed if other is not one]
            if len(rest) > 1 and self._is_right(self._results([rest])[0]):
                changed = rest
        return changed

    def _results(self, groups: Sequence[Sequence[_Changed]]) -> list[VariantOutcome | None]:
        """What B gives with the functions of each group as A has them; None if it could not be run."""
        second = self.pair[1].variant
        variants = [
            attrs.evolve(
                second,
                label=f"now, with {', '.join(one.name for one in group)} of A",
                taken=tuple(one.taken for one in group),
            )
            for group in groups
        ]
        outcomes = self.run(variants, [second.start]) if variants else []
        return [one if one.step is not None else None for one in outcomes]

    def _is_right(self, outcome: VariantOutcome | None) -> bool:
        return outcome is not None and outcome.result == self.pair[0].result


def _changed_functions(steps: Sequence[TracedStep], cause: Cause | None) -> list[_Changed]:
    """The functions that ran in one of the two and differ: that of the cause first, then as they ran."""
    traces = [step.trace for step in steps]
    ran = list(dict.fromkeys((module, name) for trace in traces for module, name in _ran(trace)))
    found: list[_Changed] = []
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


def _changed_in(module: str, files: tuple[str, str]) -> Iterator[_Changed]:
    sources = SourceFile(files[0]), SourceFile(files[1])
    lines = LineMap(*sources)
    if lines.same:
        return
    first, second = (functions_of(source.tree) for source in sources)
    for name in dict.fromkeys([*first, *second]):
        one, other = first.get(name), second.get(name)
        if one is None or other is None:
            yield _Changed(module, name, files, (one.lineno if one else None, other.lineno if other else None))
        elif _content(one, {}) != _content(other, lines.renames(name)):
            yield _Changed(module, name, files, _lines_that_differ(one, other, lines))


def _lines_that_differ(one: FunctionNode, other: FunctionNode, lines: LineMap) -> tuple[int, int]:
    """The first lines to name: of an edited line, or of the decorators if those differ, or the heads of the functions."""
    if list(map(ast.dump, one.decorator_list)) != list(map(ast.dump, other.decorator_list)):
        heads = [node.decorator_list[0].lineno if node.decorator_list else node.lineno for node in (one, other)]
        return heads[0], heads[1]
    edited = (line for line in range(other.lineno, (other.end_lineno or 0) + 1) if line in lines.edited)
    line = next(edited, None)
    return (one.lineno, other.lineno) if line is None else (lines.to_first(line), line)


def _content(node: FunctionNode, renames: Renames) -> str:
    """A function without its docstring and with other names of variables."""
    plain = copy.deepcopy(node)
    if ast.get_docstring(plain, clean=False) is not None:
        plain.body = plain.body[1:]
    for part in ast.walk(plain):
        if isinstance(part, ast.Name):
            part.id = renames.get(part.id, part.id)
    return ast.dump(plain)
