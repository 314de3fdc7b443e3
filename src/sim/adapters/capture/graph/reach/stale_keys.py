"""Keys and elements whose hash has changed since they came into a dict or set: live, they are no longer found there.

A restore puts them in under their present hash, where they are found. So they are refused. Asked are only those that are
new, are saved elsewhere, or have got another value in an attribute: that calls the method ``__hash__`` of their classes, and perhaps ``__eq__``.
"""

from __future__ import annotations

import types
from collections.abc import Collection
from itertools import accumulate
from typing import Any

import numpy as np

from sim.adapters.capture.graph.groups import Group
from sim.adapters.capture.graph.nodes import Nodes
from sim.adapters.capture.graph.row_cells import RowCells
from sim.adapters.capture.graph.tags import NODE_TAG, VALUE_TAG
from sim.adapters.capture.graph.unsavable import UnsavableError
from sim.adapters.capture.graph.values.value_pool import ValuePool

_MISSING = object()
_ADVICE = "take it out before its hash changes, and put it in again after that"


def hashes_by_content(kind: Any) -> bool:
    """Return True for a class with a method ``__hash__`` of its own, and for containers, which ask their items."""
    return kind in (tuple, frozenset) or type(kind.__hash__) is types.FunctionType


def ensure_new_are_found(rows: RowCells, objects: list[Any], nodes: Nodes) -> None:
    """Raise UnsavableError for a key of new dicts that these do not find. objects: of the rows."""
    lead = int(rows.key[0] == "content")
    ends = list(accumulate(rows.lengths))
    for held, end, length in zip(objects, ends, rows.lengths, strict=True):
        first, half = end - length + lead, (length - lead) // 2
        if any(map(hashes_by_content, set(map(type, rows.flat[first : first + half])))):
            for place in range(first, first + half):
                _ensure_key(rows, held, place, half, nodes)


def ensure_changed_are_found(changed: Collection[int], nodes: Nodes, values: ValuePool) -> None:
    """Raise UnsavableError for a key or an element that its dict or set does not find.

    changed: the numbers of nodes with other attributes. Objects that are saved elsewhere are asked at each look.
    """
    changed = {number for number in changed if number in nodes.objects}
    in_values = [number for number, held in values.edges.items() if not changed.isdisjoint(held)] if changed else []
    in_values += values.known
    if not changed and not in_values and not nodes.special.known_sets:
        return
    for group in nodes.groups.ordered:
        if group.holds_items:
            _ensure_keys(group, np.array(sorted(changed), np.int64), np.array(in_values, np.int64), nodes)
    for number, held in nodes.special.objects.items():
        is_met = number in nodes.special.known_sets or not changed.isdisjoint(nodes.special.edges.get(number, ()))
        if type(held) is set and is_met:
            for one in held:
                if hashes_by_content(type(one)) and not _finds(held, one):
                    nodes.owner = number
                    raise UnsavableError("the hash of an element has changed since it came into the set", _ADVICE, one)


def _ensure_keys(group: Group, changed: Any, in_values: Any, nodes: Nodes) -> None:
    tags, payloads = group.columns.tags, group.columns.values
    met = np.zeros(len(tags), bool)
    for tag, wanted in ((NODE_TAG, changed), (VALUE_TAG, in_values)):
        if len(wanted):
            met |= (tags == tag) & np.isin(payloads, wanted)
    lead = int(group.key[0] == "content")
    for place in np.flatnonzero(met).tolist():
        if group.is_key(place) and hashes_by_content(type(group.flat[place])):
            row = group.row_of(place)
            _ensure_key(group, group.rows.objects[row], place, (group.lengths[row] - lead) // 2, nodes)


def _ensure_key(rows: Any, held: Any, place: int, half: int, nodes: Nodes) -> None:
    key, value = rows.flat[place], rows.flat[place + half]
    try:
        is_found = dict.get(held, key, _MISSING) is value
    except Exception:  # noqa: BLE001 - a method of the user's may raise anything
        is_found = False
    if not is_found:
        nodes.owner = (rows, place)
        raise UnsavableError("the hash of a key has changed since it came into the dict", _ADVICE, key)


def _finds(held: set[Any], one: Any) -> bool:
    try:
        return set.__contains__(held, one)
    except Exception:  # noqa: BLE001 - as above
        return False
