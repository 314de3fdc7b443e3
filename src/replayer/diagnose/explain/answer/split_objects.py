"""A test of what load() splits: the names that led to one object lead to one again, and the step runs once more."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import attrs

from replayer.diagnose.explain.answer.explanation import Explanation
from replayer.diagnose.explain.cause import SourceLocation
from replayer.diagnose.explain.values.identities import SPLIT
from replayer.diagnose.explain.values.loaded_lines import LoadedValue
from replayer.diagnose.explain.variants import Variant, VariantOutcome

Run = Callable[[Sequence[Variant], Sequence[int | None]], list[VariantOutcome]]
Names = tuple[str, str]


def with_joined(explained: Explanation, run: Run) -> Explanation:
    """The explanation with load() as the cause, if B with joined objects gives the state of A. run: runs variants."""
    cause, pair = explained.cause, explained.pair
    names = tuple(one.names for one in explained.identities if one.how == SPLIT)
    loaded = pair[1].step.loaded if pair is not None and pair[1].step is not None else []
    if cause is None or pair is None or not names or cause.kind not in ("unseen", "outside", "line", "identity"):
        return explained
    for joined in dict.fromkeys((names, _to_the_last(names))):
        variant = attrs.evolve(pair[1].variant, label="now, with joined objects", joined=joined)
        if [one.result for one in run([variant], [variant.start])] == [pair[0].result]:
            break
    else:
        return explained
    place = _line_that_split(names, loaded)
    kind = attrs.evolve(cause, kind="split", place=place or cause.place, value=None, outside=[], loaded_at=None, way=[])
    return attrs.evolve(explained, cause=kind)


def _to_the_last(names: Sequence[Names]) -> tuple[Names, ...]:
    """The pairs with the last name of each object first: load() may have set that one, and not the first."""
    groups: dict[str, list[str]] = {}
    for first, second in names:
        groups.setdefault(first, []).append(second)
    return tuple((group[-1], other) for first, group in groups.items() for other in (first, *group[:-1]))


def _line_that_split(names: Sequence[Names], loaded: Sequence[LoadedValue]) -> SourceLocation | None:
    """The line of load() that made the object of one of the two names; if that is not known, that set the name last."""
    lines = {value.path: value.made_at or value.line for value in loaded if value.text}
    for pair in names:
        found = [lines[path] for name in pair if (path := f".{name.partition('.')[2]}") in lines]
        own = [line for line in found if line.function.endswith("load")]
        if own or found:
            return max(own or found, key=lambda line: line.line)
    return None
