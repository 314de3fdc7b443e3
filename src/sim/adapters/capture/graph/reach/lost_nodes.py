"""Which of some nodes that lost the reference they were known to be reached by can still be reached.

Each other node has a chain of references from the root (Nodes.parents), so that only the nodes whose chains went through
the lost ones are in doubt. A reference to one of these from anywhere else proves that it can be reached.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from sim.adapters.capture.graph.nodes import Nodes
from sim.adapters.capture.graph.storage import Integers
from sim.adapters.capture.graph.tags import NODE_TAG

_SHARE = 8  # If more than one of so many nodes is in doubt, a walk over the complete graph is faster.


def find_dead(nodes: Nodes) -> list[int] | None:
    """The nodes that can no longer be reached, ascending, with new parents for the others; None if most are in doubt.

    No value of a cell may have nodes inside.
    """
    doubtful = _with_descendants(nodes)
    if doubtful is None:
        return None
    parents, among = nodes.parents, dict[int, list[int]]()
    alive, waiting = set[int](), list[int]()
    for source, target in _references_to(nodes, doubtful):
        if source in doubtful:
            among.setdefault(source, []).append(target)
        elif target not in alive:
            alive.add(target)
            parents[target] = source
            waiting.append(target)
    while waiting:
        source = waiting.pop()
        for target in among.get(source, ()):
            if target not in alive:
                alive.add(target)
                parents[target] = source
                waiting.append(target)
    dead = sorted(doubtful - alive)
    for number in dead:
        parents[number] = -1
    return dead


def _with_descendants(nodes: Nodes) -> set[int] | None:
    """The lost nodes, and those whose chains go through them; None if they are many."""
    parents, limit, starts = nodes.parents, len(nodes.objects) // _SHARE, dict[int, Integers]()
    held: dict[int, frozenset[int]] = {}
    found: set[int] = set()
    for number in nodes.lost:  # Most have only moved inside a list or dict.
        parent = parents[number]
        if parent not in held:
            held[parent] = frozenset(_nodes_in(nodes, parent, starts))
        if number not in held[parent]:
            found.add(number)
    waiting = list(found)
    while waiting:
        if len(found) > limit:
            return None
        number = waiting.pop()
        for target in _nodes_in(nodes, number, starts):
            if parents[target] == number and target not in found:
                found.add(target)
                waiting.append(target)
    return found


def _nodes_in(nodes: Nodes, number: int, starts: dict[int, Integers]) -> Iterable[int]:
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
    pairs = zip(columns.tags[cells].tolist(), columns.values[cells].tolist(), strict=True)
    found = [value for tag, value in pairs if tag == NODE_TAG]
    inner = nodes.contents.get(number)
    return found if inner is None else [*found, inner]


def _references_to(nodes: Nodes, doubtful: set[int]) -> Iterator[tuple[int, int]]:
    """All references to these nodes, as (source, target)."""
    is_doubtful = np.zeros(len(nodes.parents), bool)
    is_doubtful[list(doubtful)] = True
    for group in nodes.groups.ordered:
        columns = group.columns
        places = np.flatnonzero(columns.tags == NODE_TAG)
        places = places[is_doubtful[columns.values[places]]]
        if len(places):
            yield from zip(group.nodes_of(places).tolist(), columns.values[places].tolist(), strict=True)
    for source, targets in nodes.special.edges.items():
        yield from ((source, target) for target in targets if target in doubtful)
    for source, target in nodes.contents.items():
        if target in doubtful:
            yield source, target
