"""Which of some nodes that lost the reference they were known to be reached by can still be reached.

Each other node has a chain of references from the root (Nodes.parents), so that only the nodes whose chains go through
the lost ones are in doubt. They are taken in rounds, the nearest first, and all references to them are looked up: one
from a node whose chain goes through none of them proves that a node can be reached, and all whose chains go through it.
In a linked list that has lost its head, the first round therefore clears the rest.
"""

from __future__ import annotations

from collections.abc import Iterable

from sim.adapters.capture.graph.nodes import Nodes
from sim.adapters.capture.graph.reach.references import Edges, NodeCells, node_cells, references_to
from sim.adapters.capture.graph.storage import Integers
from sim.adapters.capture.graph.tags import NODE_TAG, ROOT, VALUE_TAG

_SHARE = 8  # If more than one of so many nodes is in doubt, a walk over the complete graph is faster.
_FIRST_ROUND = 64  # Nodes, beyond the lost ones; each round takes more.
_GROWTH = 8


def find_dead(nodes: Nodes, edges: Edges) -> list[int] | None:
    """The nodes that can no longer be reached, ascending, with new parents for the others; None if most are in doubt.

    edges: of the immutable values with nodes inside.
    """
    parents = nodes.parents
    doubtful, cells = set(nodes.lost), node_cells(nodes)
    for source, target in references_to(nodes, cells, doubtful, edges):  # Most have only moved inside a list or dict.
        if parents[target] == source:
            doubtful.discard(target)
    frontier, room = list(doubtful), _FIRST_ROUND
    starts: dict[int, Integers] = {}
    while frontier:
        frontier = _add_descendants(nodes, edges, starts, doubtful, frontier, len(doubtful) + room)
        if is_many(len(doubtful), nodes):
            return None
        alive = _spread_life(nodes, cells, edges, doubtful)
        doubtful -= alive
        frontier = [number for number in frontier if number not in alive]
        room *= _GROWTH
    dead = sorted(doubtful)
    for number in dead:
        parents[number] = -1
    return dead


def is_many(count: int, nodes: Nodes) -> bool:
    """Return True for so many nodes in doubt that a walk over the complete graph is faster."""
    return count > len(nodes.objects) // _SHARE


def _add_descendants(
    nodes: Nodes,
    edges: Edges,
    starts: dict[int, Integers],
    doubtful: set[int],
    frontier: list[int],
    size_max: int,
) -> list[int]:
    """Add the nodes whose chains go through the frontier, up to a number; return those whose own were not added."""
    parents = nodes.parents
    for index, number in enumerate(frontier):
        if len(doubtful) > size_max:
            return frontier[index:]
        for target in _nodes_in(nodes, number, edges, starts):
            if parents[target] == number and target not in doubtful:
                doubtful.add(target)
                frontier.append(target)
    return []


def _spread_life(nodes: Nodes, cells: NodeCells, edges: Edges, doubtful: set[int]) -> set[int]:
    """Those of the doubtful nodes that can be reached, with new parents."""
    parents = nodes.parents
    alive, waiting = set[int](), list[int]()
    through: dict[int, list[tuple[int, int]]] = {}  # References that count if a doubtful node is alive.
    nearest: dict[int, int] = {ROOT: ROOT}
    for source, target in references_to(nodes, cells, doubtful, edges):
        first = source if source in doubtful else _nearest_doubtful(source, parents, doubtful, nearest)
        if first != ROOT:
            through.setdefault(first, []).append((source, target))
        elif target not in alive:
            alive.add(target)
            parents[target] = source
            waiting.append(target)
    while waiting:
        for source, target in through.get(waiting.pop(), ()):
            if target not in alive:
                alive.add(target)
                parents[target] = source
                waiting.append(target)
    return alive


def _nearest_doubtful(number: int, parents: list[int], doubtful: set[int], nearest: dict[int, int]) -> int:
    """The first doubtful node in the chain of a node; the root if there is none. nearest: what is known already."""
    chain = []
    while number not in nearest and number not in doubtful:
        chain.append(number)
        number = parents[number]
    found = nearest.get(number, number)
    nearest.update(dict.fromkeys(chain, found))
    return found


def _nodes_in(nodes: Nodes, number: int, edges: Edges, starts: dict[int, Integers]) -> Iterable[int]:
    """The nodes that one node refers to. starts: of the rows of the groups that were needed before, by identity."""
    group = nodes.group_of.get(number)
    if group is None:
        return nodes.special.edges.get(number, ())
    columns = group.columns
    first = starts.get(id(group))
    if first is None:
        first = starts[id(group)] = columns.starts()
    row = int(columns.nodes.searchsorted(number))
    cells = slice(first[row], first[row] + columns.lengths[row])
    pairs = list(zip(columns.tags[cells].tolist(), columns.values[cells].tolist(), strict=True))
    found = [value for tag, value in pairs if tag == NODE_TAG]
    for value in [value for tag, value in pairs if tag == VALUE_TAG] if edges else ():
        found += edges.get(value, ())
    inner = nodes.contents.get(number)
    return found if inner is None else [*found, inner]
