"""The references between the nodes of a graph: those in cells, those in immutable values, and those of special nodes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from sim.adapters.capture.graph.cells.new_rows import NewRows
from sim.adapters.capture.graph.groups import Group
from sim.adapters.capture.graph.nodes import Nodes
from sim.adapters.capture.graph.reach.reachable import find_reachable
from sim.adapters.capture.graph.storage import Integers
from sim.adapters.capture.graph.tags import NODE_TAG, VALUE_TAG

Edges = Mapping[int, tuple[int, ...]]  # Of values with nodes inside: these nodes, by the number of the value.


def find_parents(nodes: Nodes, edges: Edges, new: Iterable[NewRows] = ()) -> list[int]:
    """For each number a node that refers to it; -1 for what cannot be reached from the root.

    new: rows that are not in the columns of their groups yet.
    """
    sources, targets = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    more: dict[int, list[int]] = {one: list(found) for one, found in nodes.special.edges.items() if found}
    for number, inner in nodes.contents.items():
        more.setdefault(number, []).append(inner)
    groups: list[Group | NewRows] = [*nodes.groups.ordered, *new]
    for group in groups:
        columns = group.columns
        places = (columns.tags == NODE_TAG).nonzero()[0]
        if len(places):
            sources.append(group.nodes_of(places))
            targets.append(columns.values[places])
        for source, value in values_with_nodes(group, edges):
            more.setdefault(source, []).extend(edges[value])
    return find_reachable(len(nodes.parents), np.concatenate(sources), np.concatenate(targets), more)


NodeCells = list[tuple[Group, Integers, Integers]]


def node_cells(nodes: Nodes) -> NodeCells:
    """The cells that hold nodes, of each group: their places, and the nodes."""
    found = []
    for group in nodes.groups.ordered:
        columns = group.columns
        places = (columns.tags == NODE_TAG).nonzero()[0]
        if len(places):
            found.append((group, places, columns.values[places]))
    return found


def references_to(nodes: Nodes, cells: NodeCells, wanted: set[int], edges: Edges) -> Iterator[tuple[int, int]]:
    """All references to these nodes, as (source, target). cells: of node_cells."""
    is_wanted = np.zeros(len(nodes.parents), bool)
    is_wanted[list(wanted)] = True
    for group, places, targets in cells:
        mine = is_wanted[targets].nonzero()[0]
        if len(mine):
            yield from zip(group.nodes_of(places[mine]).tolist(), targets[mine].tolist(), strict=True)
    holding = {value: wanted.intersection(held) for value, held in edges.items() if not wanted.isdisjoint(held)}
    for group in nodes.groups.ordered if holding else ():
        for source, value in values_with_nodes(group, holding):
            yield from ((source, target) for target in holding[value])
    for source, linked in nodes.special.edges.items():
        yield from ((source, target) for target in linked if target in wanted)
    for source, inner in nodes.contents.items():
        if inner in wanted:
            yield source, inner


def values_with_nodes(group: Group | NewRows, edges: Mapping[int, object]) -> Iterator[tuple[int, int]]:
    """The cells of a group that hold one of these values, as (node, number of the value)."""
    if not edges:
        return
    columns = group.columns
    places = np.flatnonzero(columns.tags == VALUE_TAG)
    numbers: Integers = columns.values[places]
    is_meant = np.zeros(max(int(numbers.max(initial=0)), *edges) + 1, bool)
    is_meant[list(edges)] = True
    found = is_meant[numbers]
    yield from zip(group.nodes_of(places[found]).tolist(), numbers[found].tolist(), strict=True)
