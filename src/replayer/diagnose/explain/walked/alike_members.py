"""A line that goes through a set whose members look alike: whether its order decides is tested with orders that are fixed."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import attrs

from replayer.desync.finding import TestedCause
from replayer.diagnose.explain.align import Alignment
from replayer.diagnose.explain.answer.explanation import Explanation
from replayer.diagnose.explain.answer.walked_sets import is_around
from replayer.diagnose.explain.cause import Cause, DifferingValue, SourceLocation
from replayer.diagnose.explain.source_lines import SourceFile
from replayer.diagnose.explain.step_trace import Record
from replayer.diagnose.explain.variants import Variant, VariantFailedError
from replayer.diagnose.explain.walked import walk_order
from replayer.diagnose.explain.walked.walk_order import COPIED, FIXED, ITSELF, REVERSED

SETS_MAX = 2  # Each test runs the step a dozen times.
_OPEN = ("unseen", "line", "branch", "alone")  # Kinds whose line shows no cause.
_WRAPPED = f"__import__({walk_order.__name__!r}, fromlist=['']).in_order(%s)"

Test = Callable[
    [Variant, Sequence[int | None]], dict[str, Any]
]  # Runs a variant in fixed orders; see VariantRunner.order.


@attrs.frozen
class _Walk:
    """A line that goes through a set.

    Attributes:
        module: of the line.
        place: the line.
        word: the set, as written.
        text: its first members.
    """

    module: str
    place: SourceLocation
    word: str
    text: str


def with_alike_members(explained: Explanation, test: Test) -> Explanation:
    """The explanation with that line as the cause, if the test shows it; else with what is not known of it.

    Shown is it if the step gives one state in each run in the one order, from both starts, and another one in each run in the other,
    and if a list of the members in the set's own order gives what the set gives.
    """
    cause, pair = explained.cause, explained.pair
    steps = [one.step for one in pair or () if one.step is not None]
    is_proved = explained.given is not None and bool(explained.given.proved)
    is_proved = is_proved or explained.replaced is not None or explained.differs_by is not None
    if cause is None or pair is None or cause.kind not in _OPEN or len(steps) != 2 or is_proved:
        return explained
    first, second = (one.variant for one in pair)
    if attrs.evolve(first, label="", start=None) != attrs.evolve(second, label="", start=None):
        return explained
    alignment = Alignment(steps[0].trace, steps[1].trace)
    for walk in list(_walks(alignment, cause))[:SETS_MAX]:
        result = _tested(walk, second, (first.start, second.start), test)
        explained = attrs.evolve(explained, walked=[*explained.walked, result])
        if result.suspicious:
            return attrs.evolve(explained, cause=_cause_at(walk, cause))
    return explained


def _walks(alignment: Alignment, cause: Cause) -> Iterator[_Walk]:
    """The lines around that of the cause which go through such a set, the last one first."""
    records, found = alignment.first.records, set[tuple[str, int]]()
    item = _item_of(alignment, cause)
    for place in range(-1 if item is None else item, -1, -1):
        pair = alignment.items[place]
        if pair.first is None or pair.second is None or item is None:
            continue
        record, source = records[pair.first], alignment.source(records[pair.first].path)
        statement = source.statement(record.line)
        if statement is None or (record.path, statement.first_line) in found:
            continue
        words = list(_alike(record, alignment.second.records[pair.second]))
        if not words or not is_around(alignment, place, item):
            continue
        at = SourceLocation(record.path, statement.first_line, record.function, source.statement_text(record.line))
        found.add((at.path, at.line))
        for word, text in words:
            if wrapped_source(source, at.line, statement.last_line, word) is not None:
                yield _Walk(record.module, at, word, text)


def _alike(first: Record, second: Record) -> Iterator[tuple[str, str]]:
    """The sets that both go through, with members of which some look alike: their orders cannot be compared."""
    for word, (members, order, text) in first.orders.items():
        shown = [re.sub(r"\d+", "", one) for one in text.split(", ")]
        other_members, other_order, _ = second.orders.get(word, (None, None, ""))
        if (members, order) == (other_members, other_order) and len(set(shown)) < len(shown):
            yield word, text


def _item_of(alignment: Alignment, cause: Cause) -> int | None:
    """The first item of the line of a cause that both ran."""
    for number, item in enumerate(alignment.items):
        if item.first is None or item.second is None:
            continue
        record = alignment.first.records[item.first]
        statement = alignment.source(record.path).statement(record.line)
        if statement is not None and (record.path, statement.first_line) == (cause.place.path, cause.place.line):
            return number
    return None


def wrapped_source(source: SourceFile, first: int, last: int, word: str) -> str | None:
    """The source in which a statement at these lines asks in_order() for what it goes through; None if it goes through no such name."""
    loops = [node for node in ast.walk(source.tree) if isinstance(node, ast.For | ast.comprehension)]
    over = [one.iter for one in loops if first <= one.iter.lineno <= last and ast.unparse(one.iter) == word]
    if not over or any(one.lineno != one.end_lineno for one in over):
        return None
    lines = list(source.lines)
    for one in sorted(over, key=lambda one: (one.lineno, one.col_offset), reverse=True):
        line = lines[one.lineno - 1].encode()
        parts = line[: one.col_offset], line[one.col_offset : one.end_col_offset], line[one.end_col_offset :]
        before, name, after = (part.decode() for part in parts)
        lines[one.lineno - 1] = f"{before}{_WRAPPED % name}{after}"
    return "\n".join([*lines, ""])


def _tested(walk: _Walk, variant: Variant, starts: Sequence[int | None], test: Test) -> TestedCause:
    source = SourceFile(walk.place.path)
    statement = source.statement(walk.place.line)
    text = wrapped_source(source, walk.place.line, statement.last_line if statement else walk.place.line, walk.word)
    what = f"the order of {walk.word}, a set whose members look alike, at {walk.place.name}: {walk.place.text}"
    wrapped = attrs.evolve(variant, start=None, sources=((walk.module, text or ""),))
    try:
        runs = test(wrapped, list(dict.fromkeys(starts)))["runs"]
    except VariantFailedError as error:
        return TestedCause(what, f"{str(error).removeprefix(f'{variant.label}: ')}", None)
    found, is_shown = _found(runs)
    return TestedCause(what, found, suspicious=is_shown or None)


def _found(runs: Sequence[dict[str, Any]]) -> tuple[str, bool]:
    """What the runs show, and whether it is that the order decides."""
    problems = [problem for run in runs for problem in run["problems"]]
    fixed, back, copied, itself = (
        [run for run in runs if run["order"] == order] for order in (FIXED, REVERSED, COPIED, ITSELF)
    )
    if problems or any(not run["walked"] for run in (*fixed, *back)):
        return (problems or ["the step did not go through it again"])[0], False
    if any(run["raised"] is not None for run in (*fixed, *back)):
        return "gone through in a fixed order, the step raised an error", False
    if any(run["walked"] != these[0]["walked"] for these in (fixed, back) for run in these):
        return "its members were not the same in each run", False
    hashes, back_hashes = ({run["hash"] for run in these} for these in (fixed, back))
    if len(hashes) > 1 or len(back_hashes) > 1:
        return (
            "gone through in one fixed order, runs of the step still gave different states: something else differs, too",
            False,
        )
    results = [[(run["hash"], run["raised"]) for run in these] for these in (itself, copied)]
    if results[0] != results[1]:
        return (
            "gone through as a list, in the order that the set had, the step gave another result than with the set",
            False,
        )
    count = len(fixed)
    if hashes == back_hashes:
        return (
            f"gone through in two fixed orders, {2 * count} runs of the step gave one state: that this order decides is not shown",
            False,
        )
    are_made = all(is_made for run in (*fixed, *back) for _, _, is_made, _ in run["walked"])
    order = "the order in which they were made" if are_made else "one fixed order"
    found = (
        f"gone through in {order}, {count} of {count} runs of the step gave one state, and in the reverse order "
        f"{count} of {count} another one{_hashed([*fixed, *back])}"
    )
    return found, True


def _hashed(runs: Sequence[dict[str, Any]]) -> str:
    walked = [one for run in runs for one in run["walked"]]
    if not all(is_addressed for _, is_addressed, *_ in walked):
        return ""
    kinds = dict.fromkeys(kind for kinds, *_ in walked for kind in kinds)
    return f"; they are hashed by their memory addresses ({', '.join(kinds)})"


def _cause_at(walk: _Walk, cause: Cause) -> Cause:
    orders = [DifferingValue(walk.word, walk.text, walk.text, None)]
    way = [(walk.place, "its turns"), *cause.way]
    told = attrs.evolve(cause, kind="order", place=walk.place, other_place=None, value=None, outside=[], orders=orders)
    return attrs.evolve(told, way=way, operation=None, calls=(), may_call=frozenset())
