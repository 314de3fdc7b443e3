"""What differs between a graph and an earlier state of it, by paths: for messages."""

from __future__ import annotations

from sim.adapters.capture.graph.object_graph import ObjectGraph
from sim.adapters.capture.graph.reach.paths import path_of
from sim.adapters.capture.graph.special_nodes import contents_in
from sim.adapters.capture.graph.storage import changed_roots, rows_in
from sim.kernel.state import Snapshot


def differences(graph: ObjectGraph, before: Snapshot) -> list[tuple[int, str]]:
    """What differs from an earlier state: each by the index of its root, and the path from there."""
    if graph.storage.state.arena.tobytes() == before.arena.tobytes():
        return []
    state, nodes = graph.storage.state.snapshot(), graph.nodes
    numbers: set[int] = set()
    for group in graph.groups.ordered:
        then, now = rows_in(before, group.name), rows_in(state, group.name)
        numbers |= {number for number in now if then.get(number, b"") != now[number]}
    then, now = contents_in(before), contents_in(state)
    numbers |= {number for number in now if then.get(number) != now[number]}
    own = {path_of(nodes, graph.values, number) for number in numbers if number in nodes.objects}
    roots = changed_roots(before, state, graph.groups.ordered[0].name)  # The root made the first group.
    paths = dict.fromkeys([*roots, *sorted(own)])
    return [(int(index), inside) for index, _, inside in (one.removeprefix("[").partition("]") for one in paths if one)]
