"""A test of what load() splits or joins: names lead to one object again, or to two, and the step runs once more."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import attrs

from replayer.diagnose.explain.answer.explanation import Explanation
from replayer.diagnose.explain.cause import Cause, SourceLocation
from replayer.diagnose.explain.values.identities import JOINED, SPLIT
from replayer.diagnose.explain.values.loaded_lines import LoadedValue
from replayer.diagnose.explain.variants import Variant, VariantOutcome

Run = Callable[[Sequence[Variant], Sequence[int | None]], list[VariantOutcome]]
Names = tuple[str, str]


def with_joined(explained: Explanation, run: Run) -> Explanation:
    """The explanation with load() as the cause, if B with joined or separate objects gives the state of A. run: runs variants."""
    cause, pair = explained.cause, explained.pair
    loaded = pair[1].step.loaded if pair is not None and pair[1].step is not None else []
    if cause is None or pair is None or cause.kind not in ("unseen", "outside", "line", "identity"):
        return explained
    second = pair[1].variant
    split, one = (tuple(each.names for each in explained.identities if each.how == how) for how in (SPLIT, JOINED))
    tests = [("split", attrs.evolve(second, joined=names)) for names in dict.fromkeys((split, _to_the_last(split)))]
    tests += [("joined", attrs.evolve(second, separated=names)) for names in dict.fromkeys((one, _turned(one)))]
    for kind, variant in tests:
        if not (variant.joined or variant.separated):
            continue
        labelled = attrs.evolve(variant, label=f"now, with {'joined' if variant.joined else 'separate'} objects")
        if [each.result for each in run([labelled], [variant.start])] == [pair[0].result]:
            place = line_that_split(variant.joined or variant.separated, loaded)
            return attrs.evolve(explained, cause=cause_at(kind, place, cause))
    if cause.kind == "identity" and split and cause.loaded_at is None:
        return attrs.evolve(explained, cause=attrs.evolve(cause, loaded_at=line_that_split(split, loaded)))
    return explained


def _turned(names: Sequence[Names]) -> tuple[Names, ...]:
    return tuple((second, first) for first, second in names)


def _to_the_last(names: Sequence[Names]) -> tuple[Names, ...]:
    """The pairs with the last name of each object first: load() may have set that one, and not the first."""
    groups: dict[str, list[str]] = {}
    for first, second in names:
        groups.setdefault(first, []).append(second)
    return tuple((group[-1], other) for first, group in groups.items() for other in (first, *group[:-1]))


def cause_at(kind: str, place: SourceLocation | None, cause: Cause) -> Cause:
    """A cause by which names share something, at a line of load(); without one, at the line where the two diverge."""
    of_load = place is not None
    place = place or cause.place
    told = attrs.evolve(cause, kind=kind, place=place, is_of_load=of_load, value=None, outside=[], way=[])
    return attrs.evolve(told, loaded_at=None, undone=None, saved_at=None, read_at=None)


def line_that_split(names: Sequence[Names], loaded: Sequence[LoadedValue]) -> SourceLocation | None:
    """The last line of load() that made the object of one of the two names, or, if that is not known, that set the name."""
    lines = {
        value.path: value.line for value in loaded if not value.text and not value.is_left
    }  # Equal values show no change.
    lines |= {value.path: value.made_at or value.held_at or value.line for value in loaded if value.text}
    for pair in names:
        found = [lines[path] for name in pair if (path := f".{name.partition('.')[2]}") in lines]
        own = [line for line in found if line.function.endswith("load")]
        if own or found:
            return max(own or found, key=lambda line: line.line)
    return None
