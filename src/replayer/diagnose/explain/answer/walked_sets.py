"""The lines that iterate over a set with the same members in another order: what a loop reaches by it is not comparable.

Objects are paired in the order in which two traces reach them. Inside such a loop two different objects are compared.
"""

from __future__ import annotations

import re

from replayer.diagnose.explain.align import Alignment
from replayer.diagnose.explain.answer.set_orders import orders_of_names


def walked_before(alignment: Alignment, item: int) -> int | None:
    """The item of the loop over a set in another order in which an item runs, in its function or one around it.

    If that loop took the same turns, and another one that runs later did not, that of the other. None if it is in none.
    """
    places = [place for place in range(len(alignment.items)) if _differs(alignment, place)]
    around = [place for place in places if place <= item and is_around(alignment, place, item)]
    if not around:
        return None
    telling = (place for place in places if place >= around[0] and _diverges(alignment, place))
    return next(telling, around[0])


def _differs(alignment: Alignment, place: int) -> bool:
    pair = alignment.items[place]
    if pair.first is None or pair.second is None:
        return False
    record = alignment.first.records[pair.first]
    if not re.search(r"\bfor\b", alignment.source(record.path).statement_text(record.line)):
        return False  # It passes the set on, and a line that it calls is the one that walks it.
    return bool(orders_of_names([(record, alignment.second.records[pair.second])]))


def is_around(alignment: Alignment, place: int, item: int) -> bool:
    """Return True if the function of a place, or one that it called, runs the item."""
    records = alignment.first.records
    outer, inner = alignment.items[place].first, alignment.items[item].first
    while inner is not None and inner >= 0:
        if outer is not None and records[inner].frame == records[outer].frame:
            return True
        inner = records[inner].parent
    return False


def _diverges(alignment: Alignment, place: int) -> bool:
    """Return True if the two traces took different branches in the loop whose head is at a place."""
    records = alignment.first.records
    head = records[alignment.items[place].first or 0]
    last = place
    for number in range(place, len(alignment.items)):
        at = alignment.items[number].first
        if at is not None and (records[at].frame, records[at].line) == (head.frame, head.line):
            last = number
    return any(one.first is None or one.second is None for one in alignment.items[place:last])
