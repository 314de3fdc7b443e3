"""Whether an edited statement that a module runs as it is loaded makes the difference: B loads the module with that of A."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from replayer.diagnose.explain.answer.explanation import Explanation
from replayer.diagnose.explain.outside.deciding_variables import RUNS
from replayer.diagnose.explain.source_lines import SourceFile
from replayer.diagnose.explain.values.given_values import GivenFunctions
from replayer.diagnose.explain.variants import VariantOutcome
from replayer.diagnose.explain.versions.mixed_source import EditedStatement, made_of, mixed_source, statement_at
from replayer.diagnose.explain.versions.tested_functions import Run

_MADE_MAX = 3  # Statements that differ, too, and are made of the edited one.


def with_tested_statement(explained: Explanation, run: Run) -> Explanation:
    """The explanation with what that test showed, if no other one showed that the edited line makes the difference.

    Alone, or with the statements that are made of it, none of which does it alone.
    """
    pair, cause = explained.pair, explained.cause
    if pair is None or cause is None or not explained.is_unshown or pair[0].variant.code == pair[1].variant.code:
        return explained
    test = _test_of(explained, pair, run)
    if test is None:
        return explained
    statement = test.statement
    needed = [statement] if test.is_right([statement]) else test.together()
    if not needed:
        return explained
    names = tuple(one.name for one in needed)
    removed = tuple(one.name for one in needed if one.first is None)
    cause = attrs.evolve(cause, is_shown=True)
    return attrs.evolve(explained, cause=cause, functions=GivenFunctions(names, removed))


def _test_of(explained: Explanation, pair: tuple[VariantOutcome, VariantOutcome], run: Run) -> _Test | None:
    cause, steps = explained.cause, [one.step for one in pair]
    if cause is None or steps[0] is None or steps[1] is None:
        return None
    files = steps[0].trace.modules, steps[1].trace.modules
    found = [
        (name, is_first)
        for is_first, own in ((True, files[0]), (False, files[1]))
        for name, path in own.items()
        if path == cause.place.path and name in files[0] and name in files[1]
    ]
    if len(found) != 1:
        return None
    [(module, is_first)] = found
    sources = SourceFile(files[0][module]), SourceFile(files[1][module])
    statement = statement_at(*sources, cause.place.line, is_first=is_first)
    return None if statement is None else _Test(pair, run, module, sources, statement)


@attrs.frozen(eq=False)
class _Test:
    pair: tuple[VariantOutcome, VariantOutcome]
    run: Run
    module: str
    sources: tuple[SourceFile, SourceFile]
    statement: EditedStatement

    def is_right(self, statements: Sequence[EditedStatement]) -> bool:
        """Return True if B gives the state of A with statements of A, in each of several processes."""
        text = mixed_source(*self.sources, statements)
        if text is None:
            return False
        second = self.pair[1].variant
        label = "now, with a statement of A"
        variant = attrs.evolve(second, label=label, sources=((self.module, text),), start=None)
        return all(self._gives_first(self.run([variant], [second.start])) for _ in range(RUNS))

    def together(self) -> list[EditedStatement]:
        """The statement and those that are made of it, if B gives the state of A with all of them, and with none alone."""
        made = made_of(*self.sources, self.statement)
        if not made or len(made) > _MADE_MAX or not self.is_right([self.statement, *made]):
            return []
        return [] if any(self.is_right([one]) for one in made) else [self.statement, *made]

    def _gives_first(self, outcomes: Sequence[VariantOutcome]) -> bool:
        return len(outcomes) == 1 and outcomes[0].result is not None and outcomes[0].result == self.pair[0].result
