"""How a node of a graph is reached from the roots: for messages."""

from __future__ import annotations

import sys
import types
from typing import Any

import numpy as np

from sim.adapters.capture.graph.nodes import Nodes
from sim.adapters.capture.graph.tags import NODE_TAG, ROOT, VALUE_TAG
from sim.adapters.capture.graph.values.trees import DEPTH_MAX
from sim.adapters.capture.graph.values.value_pool import ValuePool


def path_of_owner(nodes: Nodes, values: ValuePool) -> str:
    """How the cell or the special node that is being encoded is reached: ``[2].units[14].hp``."""
    owner = nodes.owner
    if isinstance(owner, int):
        return path_of(nodes, values, owner)
    cells, place = owner
    return path_of(nodes, values, cells.node_of(place)) + cells.path_in(place)


def attribute_of_owner(nodes: Nodes, values: ValuePool) -> str:
    """The innermost attribute of a user's object on that path, as ``Class.attribute``; empty if there is none."""
    owner = nodes.owner
    if isinstance(owner, tuple):
        cells, place = owner
        if cells.key[0] == "object" and not is_of_python(str(cells.key[1])):
            return _class_name(cells.key) + cells.path_in(place)
    number = owner if isinstance(owner, int) else owner[0].node_of(owner[1])
    seen: set[int] = set()
    while number != ROOT and number not in seen and 0 <= number < len(nodes.parents) and nodes.parents[number] >= 0:
        seen.add(number)
        parent = nodes.parents[number]
        group = nodes.group_of.get(parent)
        step = _step_to(nodes, values, parent, number)
        if group is not None and group.key[0] == "object" and step.startswith(".") and not is_of_python(group.key[1]):
            return _class_name(group.key) + step
        number = parent
    return ""


def is_of_python(name: str) -> bool:
    """Return True for a name of a module, or in a module, of the standard library: its objects are whole or useless."""
    package = name.partition(":")[0].partition(".")[0]
    return package in sys.stdlib_module_names and package != "__main__"


def _class_name(key: list[Any]) -> str:
    return str(key[1]).rpartition(":")[2].rpartition(".")[2]


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


def chain_to(nodes: Nodes, value: Any) -> list[Any] | None:
    """The objects from a root's value to a node, without it, by those that it was met from; None for what is no node."""
    found = nodes.node_at(id(value))
    if found is None:
        return None
    chain, number = list[Any](), nodes.parents[found[0]]
    seen = {ROOT}
    while number not in seen and 0 <= number < len(nodes.parents):
        seen.add(number)
        chain.append(nodes.objects[number])
        number = nodes.parents[number]
    return chain[::-1]


def _step_to(nodes: Nodes, values: ValuePool, owner: int, number: int) -> str:
    group = nodes.group_of.get(owner)
    if group is None:
        return f" (in a {type(nodes.objects[owner]).__name__})"
    if nodes.contents.get(owner) == number:
        return ""
    row = int(np.searchsorted(group.columns.nodes, owner))
    if row >= len(group.lengths):
        return ""
    start, end = group.ends[row] - group.lengths[row], group.ends[row]
    tags, payloads = group.columns.tags[start:end], group.columns.values[start:end]
    found = np.flatnonzero((tags == NODE_TAG) & (payloads == number))
    if len(found):
        return group.path_in(start + int(found[0]))
    of_values = np.flatnonzero(tags == VALUE_TAG) if values.edges else ()
    for index in of_values:
        if number in values.edges.get(int(payloads[index]), ()):
            return group.path_in(start + int(index))
    for place in range(start, end):
        if _leads_to(group.flat[place], nodes.objects[number]):  # The cell is being written.
            return group.path_in(place)
    return ""


def _leads_to(value: Any, wanted: Any, depth: int = 0) -> bool:
    """Return True if an immutable value is an object, or holds it."""
    if value is wanted:
        return True
    if isinstance(value, tuple | frozenset):
        return depth < DEPTH_MAX and any(_leads_to(one, wanted, depth + 1) for one in value)
    return isinstance(value, types.MethodType | types.BuiltinFunctionType) and value.__self__ is wanted
