"""A line that asks whether two equal values are one object: a restore makes two of them, or one."""

from __future__ import annotations

import attrs

from replayer.diagnose.explain.align import Alignment
from replayer.diagnose.explain.answer.explanation import Explanation

_OPEN = ("unseen", "line")  # Kinds of which nothing was seen to differ that the line reads.


def with_asked_identity(explained: Explanation) -> Explanation:
    """The explanation with that as the cause, if the line asks it, and the answer differs of values that are equal in both."""
    cause, pair = explained.cause, explained.pair
    steps = [one.step for one in pair or () if one.step is not None]
    is_proved = explained.given is not None and bool(explained.given.proved)
    if cause is None or is_proved or cause.kind not in _OPEN or len(steps) != 2:
        return explained
    if not any(record.asked for record in steps[0].trace.records):
        return explained
    alignment = Alignment(steps[0].trace, steps[1].trace)
    for item in alignment.items:
        if item.first is None or item.second is None:
            continue
        first, second = alignment.first.records[item.first], alignment.second.records[item.second]
        statement = alignment.source(first.path).statement(first.line)
        if statement is None or (first.path, statement.first_line) != (cause.place.path, cause.place.line):
            continue
        for words in sorted(first.asked.keys() & second.asked.keys()):
            (is_one, are_equal), (is_other, are_others_equal) = first.asked[words], second.asked[words]
            if is_one != is_other and are_equal and are_others_equal:
                sides = ("one object in A", "two equal ones in B") if is_one else ("two equal ones in A", "one in B")
                asked = f"{words.replace(' is ', ' and ')} are {sides[0]} and {sides[1]}"
                return attrs.evolve(explained, cause=attrs.evolve(cause, kind="is", asked=asked))
    return explained
