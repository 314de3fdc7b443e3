"""Whether an edited statement that a module runs as it is loaded makes the difference: B loads the module with that of A."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path

import attrs

from replayer.diagnose.explain.answer.explanation import Explanation
from replayer.diagnose.explain.cause import Cause, SourceLocation
from replayer.diagnose.explain.outside.deciding_variables import RUNS
from replayer.diagnose.explain.source_lines import SourceFile
from replayer.diagnose.explain.trace_step import NOT_REPEATABLE, STACK_DEPTH
from replayer.diagnose.explain.values.given_values import GivenFunctions
from replayer.diagnose.explain.variants import Variant, VariantOutcome
from replayer.diagnose.explain.versions.changed_part import VERSIONS
from replayer.diagnose.explain.versions.mixed_source import (
    EditedStatement,
    edited_statements,
    mixed_sources,
    statement_at,
    used_with,
)
from replayer.diagnose.explain.versions.tested_functions import TESTED_KINDS, Run

_USED_MAX = 6  # Statements and functions that differ, too, and go with the edited one.
_ALONE_MAX = 12  # Statements that are tried of which no line leads to them.
_AT_A_TIME = 2  # Each has a process of its own.


def with_tested_statement(explained: Explanation, run: Run) -> Explanation:
    """The explanation with what that test showed, if no other one showed what makes the difference.

    First the statement of the line that was found: alone, or with what differs and goes with it, none of which does it alone.
    Then any other statement alone, such as that of a class whose bases were edited: no line of a step reads these.
    """
    pair = explained.pair
    if pair is None or not is_open_between_versions(explained):
        return explained
    files = files_of(pair)
    test = _Test(pair, run, files)
    statement = _statement_of(explained.cause, files) if explained.is_unshown else None
    if explained.cause is not None and statement is not None and (needed := test.needed(statement)):
        cause = attrs.evolve(explained.cause, is_shown=True)
        return attrs.evolve(explained, cause=cause, functions=_tested(needed))
    others = edited_statements(test.changed)
    found = test.first_alone([one for one in others if one != statement][:_ALONE_MAX])
    if found is None:
        return explained
    return attrs.evolve(explained, cause=_cause_at(found, files, explained.cause), functions=_tested([found]))


def with_edit_behind(explained: Explanation, run: Run) -> Explanation:
    """The explanation of two instances of the present code, with the edit that makes the difference between them.

    Such as a decorator that keeps results: from the state before the step, both versions give one state, and an instance of the
    present code that ran up to there gives another one. With the edited statement as the other version has it, it must not.
    """
    pair = explained.pair
    asked = [one for one in explained.ran if one.variant.code is not None and explained.is_recorded(one)]
    is_known = explained.differs_by or explained.variables or explained.depends_on
    if pair is None or not asked or is_known or {one.variant.code for one in pair} != {None}:
        return explained
    if pair[1].variant.start is None:
        return explained
    step, is_recorded = pair[1].step, explained.is_recorded(pair[0])
    if step is None or not is_recorded or not gives_first(pair, [asked[0].variant], run)[0]:
        return explained
    files = _in_folder(asked[0].variant.code or "", step.trace.modules)
    test = _Test(pair, run, files)
    found = test.first_alone(edited_statements(test.changed)[:_ALONE_MAX])
    if found is None or test.is_right([]):
        return explained
    # A is the other version from here on: what was put into B of an instance of the present one is not of that.
    cause, compared = _cause_at(found, files, None), (asked[0], pair[1])
    return attrs.evolve(explained, pair=compared, cause=cause, given=None, set_by_load=[], functions=_tested([found]))


def _in_folder(folder: str, modules: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """The files of modules in the folder of the other version, with those of this one."""
    found = {}
    for name, path in modules.items():
        inner = Path(folder, *name.split("."))
        other = inner / "__init__.py" if Path(path).name == "__init__.py" else inner.with_name(f"{inner.name}.py")
        if other.is_file():
            found[name] = (str(other), path)
    return found


def is_open_between_versions(explained: Explanation) -> bool:
    """Return True for two versions of the code of whose differences no test showed yet that one makes the difference."""
    pair, cause = explained.pair, explained.cause
    if pair is None or pair[0].variant.code == pair[1].variant.code:
        return False
    if cause is not None and (cause.kind not in TESTED_KINDS or cause.is_shown):
        return False
    if {NOT_REPEATABLE, STACK_DEPTH} & set(explained.notes) or any(one.proved for one in explained.settings):
        return False
    is_shown = explained.functions is not None and explained.functions.names
    return not is_shown and all(one.step is not None and one.step.is_traced for one in pair)


def gives_first(pair: tuple[VariantOutcome, VariantOutcome], variants: Iterable[Variant], run: Run) -> list[bool]:
    """Of changes of B: whether each gives the state of A."""
    chosen, result = list(variants), list[bool]()
    for number in range(0, len(chosen), _AT_A_TIME):
        outcomes = run(chosen[number : number + _AT_A_TIME], [pair[1].variant.start])
        result += [one.result is not None and one.result == pair[0].result for one in outcomes]
    return result if len(result) == len(chosen) else [False for _ in chosen]


def _tested(needed: Sequence[EditedStatement]) -> GivenFunctions:
    return GivenFunctions(tuple(one.shown for one in needed), tuple(one.shown for one in needed if one.first is None))


def files_of(pair: tuple[VariantOutcome, VariantOutcome]) -> Mapping[str, tuple[str, str]]:
    """The files of the modules that both versions have."""
    first, second = (one.step.trace.modules if one.step is not None else {} for one in pair)
    return {name: (path, second[name]) for name, path in first.items() if name in second and second[name] != path}


def _statement_of(cause: Cause | None, files: Mapping[str, tuple[str, str]]) -> EditedStatement | None:
    found = [
        (name, both.index(cause.place.path))
        for name, both in files.items()
        if cause is not None and cause.place.path in both
    ]
    if cause is None or len(found) != 1:
        return None
    [(module, side)] = found
    first, second = map(SourceFile, files[module])
    return statement_at(module, first, second, cause.place.line, is_first=side == 0)


def _cause_at(statement: EditedStatement, files: Mapping[str, tuple[str, str]], found: Cause | None) -> Cause:
    """The cause at a statement. found: the line that was found before: whether it reads what the statement changes is not known."""
    places, only_in = [], ""
    for side, path in enumerate(files[statement.module]):
        line = statement.line(side)
        if line is not None:
            text = SourceFile(path).text(line) if statement.is_head else SourceFile(path).statement_text(line)
            places.append(SourceLocation(path, line, "", text))
            only_in = VERSIONS[side]
    place, other = places if len(places) > 1 else (places[0], None)
    way = found.way if found is not None else []
    only_in = "" if other is not None else only_in
    return Cause("edited", place, other, None, (), None, [], way, is_shown=True, only_in=only_in)


@attrs.frozen(eq=False, slots=False)
class _Test:
    pair: tuple[VariantOutcome, VariantOutcome]
    run: Run
    files: Mapping[str, tuple[str, str]]

    @cached_property
    def changed(self) -> dict[str, tuple[SourceFile, SourceFile]]:
        """The sources of the modules that differ."""
        both = {name: (SourceFile(first), SourceFile(second)) for name, (first, second) in self.files.items()}
        return {name: (first, second) for name, (first, second) in both.items() if first.lines != second.lines}

    def is_right(self, statements: Sequence[EditedStatement]) -> bool:
        """Return True if B gives the state of A with statements of A, in each of several processes."""
        variant = self._variant(statements)
        return variant is not None and all(gives_first(self.pair, [variant], self.run)[0] for _ in range(RUNS))

    def needed(self, statement: EditedStatement) -> list[EditedStatement]:
        """The statement, if it does it alone, or else with those that go with it, as few as do; none of these does it alone."""
        if self.is_right([statement]):
            return [statement]
        others = used_with(self.changed, statement)
        if not others or len(others) > _USED_MAX or not self.is_right([statement, *others]):
            return []
        for one in list(others):
            rest = [other for other in others if other is not one]
            if rest and self.is_right([statement, *rest]):
                others = rest
        return [] if any(self.is_right([one]) for one in others) else [*others, statement]

    def first_alone(self, statements: Sequence[EditedStatement]) -> EditedStatement | None:
        """The first statement with which alone B gives the state of A."""
        able = [(one, variant) for one in statements if (variant := self._variant([one])) is not None]
        right = gives_first(self.pair, [variant for _, variant in able], self.run)
        found = [one for (one, _), is_right in zip(able, right, strict=True) if is_right]
        return next((one for one in found if self.is_right([one])), None)

    def _variant(self, statements: Sequence[EditedStatement]) -> Variant | None:
        sources = mixed_sources(self.changed, statements)
        label = "now, with a statement of A"
        second = self.pair[1].variant
        return (
            None if sources is None else attrs.evolve(second, label=label, sources=tuple(sources.items()), start=None)
        )
