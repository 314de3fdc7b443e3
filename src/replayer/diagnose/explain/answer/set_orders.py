"""Sets that a line iterates over and that have the same members in another order in two traces."""

from __future__ import annotations

from collections.abc import Iterable

from replayer.diagnose.explain.cause import DifferingValue
from replayer.diagnose.explain.step_trace import Record, StepTrace

MADE = "the set that it makes"
_SHOWN = 8  # Members.


def orders_of_names(records: Iterable[tuple[Record, Record]]) -> list[DifferingValue]:
    """Of sets that pairs of records name."""
    return [
        DifferingValue(word, text, second.orders[word][2], None)
        for first, second in records
        for word, (members, order, text) in first.orders.items()
        if word in second.orders and second.orders[word][0] == members and second.orders[word][1] != order
    ]


def orders_of_made(
    first: StepTrace, second: StepTrace, records: tuple[Record, Record], name: str
) -> list[DifferingValue]:
    """Of the set that a loop makes for itself: by all the values that its variable, the named one, took."""
    one, other = _taken(first, records[0], name), _taken(second, records[1], name)
    if one == other or sorted(one) != sorted(other):
        return []
    return [DifferingValue(MADE, ", ".join(one[:_SHOWN]), ", ".join(other[:_SHOWN]), None)]


def _taken(trace: StepTrace, this: Record, name: str) -> list[str]:
    """The values that a line gave a variable, in their order, whenever it ran in this call of its function."""
    variable = f"f{this.frame}:{name.partition(':')[2]}"
    digests = [
        one.after.get(variable)
        for one in trace.records
        if (one.kind, one.frame, one.path, one.line) == (this.kind, this.frame, this.path, this.line)
    ]
    return [trace.texts.get(digest, "?") for digest in digests if digest is not None]
