"""Give a set another order, with the same elements, to see whether anything uses that order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sim.kernel.sets.set_layout import TWINS_MAX, SetTable, layout_is_known, probed_places, rebuild

_MASKS = (127, 2047, 16383)  # Of tables. The largest has room for about thirty elements in any order.


def give_order(value: set[Any], elements: Sequence[Any]) -> bool:
    """Let a set iterate over its elements in this order. Return False, with the set as it was, if it cannot."""
    table = _table_of(elements)
    if table is None:
        return False
    value.clear()
    rebuild(value, table, elements)
    return True


def _table_of(elements: Sequence[Any]) -> SetTable | None:
    """A table in which the elements lie in this order; None without a small one.

    Each element has a share of the places. It lies at the first free one of them on its path, behind removed elements.
    """
    if not elements or not layout_is_known():
        return None
    for mask in _MASKS:
        share = (mask + 1) // len(elements)
        filled: set[int] = set()
        places: list[int] = []
        for number, element in enumerate(elements):
            for place in probed_places(hash(element), mask):
                is_free = place not in filled
                filled.add(place)
                if is_free and share and place // share == number:
                    places.append(place)
                    break
                if 5 * len(filled) >= 3 * mask:
                    break  # The set would grow.
        least = mask // (4 * TWINS_MAX) + 1  # A table of this size with fewer cannot be made.
        filled |= set(range(least)) if len(filled) < least else set()
        if len(places) == len(elements) and 5 * len(filled) < 3 * mask:
            return SetTable(mask, 0, tuple(places), tuple(sorted(filled - set(places))))
    return None
