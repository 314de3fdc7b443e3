"""Nodes that can no longer be reached are found from the references that went, as by a walk over the complete graph."""

from __future__ import annotations

import random
from typing import Any

import pytest

from sim.adapters import adapt, fields
from sim.adapters.capture.graph import object_graph
from sim.adapters.capture.graph.nodes import Nodes
from sim.adapters.capture.graph.reach import lost_nodes
from sim.adapters.capture.graph.reach.references import Edges, find_parents

REFERENCES_MAX = 60  # About as many references as the graph grows to.


class Thing:
    """Refers to two others."""

    def __init__(self) -> None:
        self.first: Any = None
        self.second: Any = None


class Tangle:
    """A graph of things, lists and dicts; each step adds and removes some references."""

    def __init__(self, seed: int, *, pairs: bool) -> None:
        """pairs: some references are inside tuples."""
        self.pairs = pairs
        self.chance = random.Random(seed)
        self.root: list[Any] = [[], {}]

    def holders(self) -> list[Any]:
        """All objects that can be reached, each once."""
        found: dict[int, Any] = {}
        waiting: list[Any] = [self.root]
        while waiting:
            one = waiting.pop()
            if one is None or id(one) in found:
                continue
            found[id(one)] = one
            kind = type(one)
            waiting += one if kind in (list, tuple) else one.values() if kind is dict else vars(one).values()
        return [one for one in found.values() if type(one) is not tuple]

    def step(self, _: Any = None) -> None:
        """Change up to eight references."""
        holders, chance = self.holders(), self.chance
        for _number in range(chance.randrange(1, 9)):
            holder = chance.choice(holders)
            shrinks = chance.random() < (0.75 if len(holders) > REFERENCES_MAX else 0.4)
            value = None if shrinks else chance.choice([[], {}, Thing(), Thing(), chance.choice(holders)])
            if self.pairs and chance.random() < 0.3:
                value = (value, chance.choice(holders))
            if type(holder) is Thing:
                setattr(holder, chance.choice(("first", "second")), value)
            elif type(holder) is dict:
                holder[chance.randrange(9)] = value
            elif value is not None:
                holder.append(value)
            elif holder and holder is not self.root:
                del holder[chance.randrange(len(holder))]


@pytest.mark.parametrize("pairs", [False, True])
@pytest.mark.parametrize("first_round", [0, 1, 5, 64])
@pytest.mark.parametrize("seed", range(3))
def test_the_dead_are_those_of_a_complete_walk(
    seed: int, first_round: int, *, pairs: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    removed: list[int] = []

    def find_dead(nodes: Nodes, edges: Edges) -> list[int] | None:
        found = lost_nodes.find_dead(nodes, edges)
        assert found is not None
        parents = find_parents(nodes, edges)
        assert found == [number for number in sorted(nodes.objects) if parents[number] < 0]
        for number in set(nodes.objects).difference(found):
            for _ in nodes.objects:
                number = nodes.parents[number]  # noqa: PLW2901 - up the chain
            assert number == 0, "a chain that does not lead to the root"
        removed.extend(found)
        return found

    monkeypatch.setattr(lost_nodes, "_SHARE", 1)  # Otherwise most of these small graphs are walked.
    monkeypatch.setattr(lost_nodes, "_FIRST_ROUND", first_round)
    monkeypatch.setattr(lost_nodes, "_GROWTH", 2)
    monkeypatch.setattr(object_graph, "find_dead", find_dead)
    simulation = adapt(Tangle(seed, pairs=pairs), fields())
    for _ in range(60):
        simulation.step(None)
    assert len(removed) > 20
