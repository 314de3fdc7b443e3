"""Which nodes of a graph can be reached from its root, and from which node each was reached first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from sim.adapters.capture.graph.storage import Integers, ranges
from sim.adapters.capture.graph.tags import ROOT

_SMALL = 1024  # Up to here a plain loop is faster than NumPy's calls.
_LEVELS_MAX = 64  # A graph that is deeper than wide, such as a linked list, is walked by a loop.


def find_reachable(size: int, sources: Integers, targets: Integers, more: Mapping[int, Iterable[int]]) -> list[int]:
    """For each of size nodes a reachable node that refers to it (for the root, itself); -1 for unreachable ones.

    sources, targets: (edges,) int64. more: further edges by their source.
    """
    if more:
        extra = [(source, target) for source, listed in more.items() for target in listed]
        if extra:
            array = np.array(extra, np.int64)
            sources, targets = np.concatenate((sources, array[:, 0])), np.concatenate((targets, array[:, 1]))
    if (np.diff(sources) < 0).any():
        order = np.argsort(sources, kind="stable")
        sources, targets = sources[order], targets[order]
    counts = np.bincount(sources, minlength=size)
    starts = np.cumsum(counts) - counts
    parents = np.full(size, -1, np.int64)
    parents[ROOT] = ROOT
    frontier = np.array([ROOT])
    if len(targets) > _SMALL:
        for _ in range(_LEVELS_MAX):
            edges = ranges(starts[frontier], counts[frontier])
            found, owners = targets[edges], np.repeat(frontier, counts[frontier])
            is_new = parents[found] < 0
            found = found[is_new]
            if not len(found):
                return parents.tolist()
            parents[found] = owners[is_new]
            is_frontier = np.zeros(size, bool)
            is_frontier[found] = True
            frontier = np.flatnonzero(is_frontier)
    return _by_loop(parents.tolist(), frontier.tolist(), starts, counts, targets)


def _by_loop(
    parents: list[int], waiting: list[int], starts: Integers, counts: Integers, targets: Integers
) -> list[int]:
    first, count, target = starts.tolist(), counts.tolist(), targets.tolist()
    while waiting:
        node = waiting.pop()
        start = first[node]
        for found in target[start : start + count[node]]:
            if parents[found] < 0:
                parents[found] = node
                waiting.append(found)
    return parents
