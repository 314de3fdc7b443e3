"""The first value of a graph that other code has changed since the last capture, found without a new capture.

Nothing is written: the next capture finds the graph as it would have without the look.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

from sim.adapters.capture.graph.cells.changed_cells import changed_places
from sim.adapters.capture.graph.groups import Group
from sim.adapters.capture.graph.nodes import Nodes
from sim.adapters.capture.graph.object_graph import ObjectGraph
from sim.adapters.capture.graph.reach.paths import path_of
from sim.adapters.capture.graph.rows import ObjectRows, StrayError
from sim.adapters.capture.graph.unsavable import UnsavableError
from sim.adapters.capture.graph.values.trees import TreeEncoder

_BY_EQUALITY = frozenset((int, bool, str, bytes, type(None)))


def first_change(graph: ObjectGraph, roots: Sequence[Any]) -> str | None:
    """The path of the first value that differs, from the roots: ``[0].units[14].hp``; None if there is none.

    roots: as they are now. The graph must not have forgotten its objects (see ObjectGraph.is_forgotten).
    """
    for number, (now, before) in enumerate(zip(roots, graph.root, strict=True)):
        if not _is_same(before, now):
            return f"[{number}]"
    for group in graph.groups.ordered:
        path = _change_in(graph, group)
        if path is not None:
            return path
    probe = TreeEncoder(_KnownNodes(graph.nodes), graph.finder)
    probe.known = graph.encoder.known
    for number in sorted(graph.special.objects):
        try:
            is_as_before = graph.special.is_as_before(number, probe)
        except UnsavableError:
            is_as_before = False
        if not is_as_before:
            return path_of(graph.nodes, graph.values, number)
    return None


def _change_in(graph: ObjectGraph, group: Group) -> str | None:
    rows = group.rows
    try:
        flat = rows.read()
    except StrayError:
        strays = rows.strays() if isinstance(rows, ObjectRows) else []
        if strays:
            return path_of(graph.nodes, graph.values, int(group.columns.nodes[strays[0]]))
        flat = rows.read()  # Only their dicts were asked for, which changes nothing that counts.
    lengths = group.lengths if isinstance(rows, ObjectRows) else rows.lengths()
    if lengths != group.lengths:
        row = next(row for row, pair in enumerate(zip(lengths, group.lengths, strict=True)) if pair[0] != pair[1])
        return path_of(graph.nodes, graph.values, int(group.columns.nodes[row]))
    for place in changed_places(group.flat, flat):
        if not _is_same(group.flat[int(place)], flat[int(place)]):
            node = group.node_of(int(place))
            return path_of(graph.nodes, graph.values, node) + group.path_in(int(place))
    return None


def _is_same(before: Any, now: Any) -> bool:
    """Return True if a value was replaced by an equal one that is saved alike."""
    kind = type(before)
    if before is now or kind is not type(now):
        return before is now
    if kind in _BY_EQUALITY:
        return bool(before == now)
    if kind is float:
        return struct.pack("d", before) == struct.pack("d", now)
    if kind is tuple:
        return len(before) == len(now) and all(map(_is_same, before, now))
    return False


class _KnownNodes:
    """The numbers of the nodes that there are; a new one counts as a change."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes

    def number_of(self, value: Any) -> int:
        """The number of a mutable object. Raises UnsavableError for one that is new."""
        found = self._nodes.node_at(id(value))
        if found is None:
            raise UnsavableError("it is new", "", value)
        return found[0]

    def node_at(self, address: int) -> tuple[int, Any] | None:
        """See Nodes."""
        return self._nodes.node_at(address)
