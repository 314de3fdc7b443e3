"""How a node of a graph is reached from the roots: for messages."""

from __future__ import annotations

import types
from typing import Any

import numpy as np

from sim.adapters.capture.graph.groups import Group
from sim.adapters.capture.graph.nodes import Nodes
from sim.adapters.capture.graph.tags import NODE_TAG, ROOT, VALUE_TAG
from sim.adapters.capture.graph.values.value_pool import ValuePool


def path_of_cell(nodes: Nodes, values: ValuePool, group: Group, place: int) -> str:
    """How a cell is reached: ``[2].units[14].hp``."""
    return path_of(nodes, values, group.node_of(place)) + group.path_in(place)


def path_of(nodes: Nodes, values: ValuePool, number: int) -> str:
    """How a node is reached: ``[2].units[14]``."""
    steps: list[str] = []
    seen: set[int] = set()
    while number != ROOT and number not in seen and 0 <= number < len(nodes.parents) and nodes.parents[number] >= 0:
        seen.add(number)
        owner = nodes.parents[number]
        steps.append(_step_to(nodes, values, owner, number))
        number = owner
    return "".join(reversed(steps))


def _step_to(nodes: Nodes, values: ValuePool, owner: int, number: int) -> str:
    group = nodes.group_of.get(owner)
    if group is None:
        return f" (in a {type(nodes.objects[owner]).__name__})"
    if nodes.contents.get(owner) == number:
        return ""
    row = int(np.searchsorted(group.columns.nodes, owner))
    start = sum(group.lengths[:row])
    for place in range(start, start + (group.lengths[row] if row < len(group.lengths) else 0)):
        tag, payload = int(group.columns.tags[place]), int(group.columns.values[place])
        is_node = tag == NODE_TAG and payload == number
        if is_node or (tag == VALUE_TAG and number in values.edges.get(payload, ())):
            return group.path_in(place)
        if _leads_to(group.flat[place], nodes.objects[number]):  # The cell is being written.
            return group.path_in(place)
    return ""


def _leads_to(value: Any, wanted: Any) -> bool:
    """Return True if an immutable value is an object, or holds it."""
    if value is wanted:
        return True
    if isinstance(value, tuple | frozenset):
        return any(_leads_to(one, wanted) for one in value)
    return isinstance(value, types.MethodType | types.BuiltinFunctionType) and value.__self__ is wanted
