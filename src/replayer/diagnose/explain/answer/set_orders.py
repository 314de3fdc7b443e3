"""Sets that a line iterates over and that have the same members in another order in two traces."""

from __future__ import annotations

import builtins
import collections
import itertools
from collections import Counter, deque
from collections.abc import Iterable

from replayer.diagnose.explain.align import Alignment
from replayer.diagnose.explain.cause import DifferingValue
from replayer.diagnose.explain.source_lines import Statement
from replayer.diagnose.explain.step_trace import RETURN, Record, StepTrace, is_inner

MADE = "the set that it makes"
_SHOWN = 8  # Members.
# What they give follows from the members and their order, and from nothing else.
_FOLLOWS = {name for one in (collections, itertools, str, list, dict, set, deque, Counter) for name in dir(one)} | (
    set(dir(builtins)) - {"hash", "id", "input", "open", "eval", "exec", "object", "repr", "vars", "globals", "locals"}
)


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


def orders_of_returned(alignment: Alignment, item: int, statement: Statement) -> list[DifferingValue]:
    """Of the set that a function returned over whose result the statement of an item iterates, the last one before it.

    Nothing is said where the statement calls something else whose results need not follow from the members in their order.
    """
    first, second, items = alignment.first.records, alignment.second.records, alignment.items
    place = item if items[item].first is not None else None
    if not statement.asks or place is None:
        return []
    frames, own = set[int](), items[place].first
    while own is not None and own >= 0:  # A comprehension iterates over what the function around it has asked for.
        frames.add(first[own].frame)
        own = first[own].parent if is_inner(first[own].function.rpartition(".")[2]) else None
    for number in range(item, -1, -1):
        one, two = items[number].first, items[number].second
        if one is None or two is None or first[one].kind != RETURN or first[one].parent < 0:
            continue
        record, caller = first[one], first[first[one].parent]
        name = record.function.rpartition(".")[2]
        is_here = caller.frame in frames and name in statement.asks
        if not is_here or alignment.source(caller.path).statement(caller.line) != statement:
            continue
        others = {call.rpartition(".")[2] for call in statement.calls} - {name}
        found = orders_of_names([(record, second[two])]) if others <= _FOLLOWS else []
        return [DifferingValue(f"the result of {record.function}", each.first, each.second, None) for each in found]
    return []


def _taken(trace: StepTrace, this: Record, name: str) -> list[str]:
    """The values that a line gave a variable, in their order, whenever it ran in this call of its function."""
    variable = f"f{this.frame}:{name.partition(':')[2]}"
    digests = [
        one.after.get(variable)
        for one in trace.records
        if (one.kind, one.frame, one.path, one.line) == (this.kind, this.frame, this.path, this.line)
    ]
    return [trace.texts.get(digest, "?") for digest in digests if digest is not None]
