"""Deep and large graphs cost about as much as others of their size, and are right."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from sim.adapters import NotCapturedError, adapt, fields
from sim.adapters.capture.graph.reach import references
from sim.adapters.capture.graph.storage import GroupColumns
from sim.kernel.simulation import restore

DEPTH = 3_000


class Node:
    """One of a linked list."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.before: Any = None
        self.next: Any = None


class Holder:
    """The recorded object: holds anything, and changes it by a call of the test's."""

    def __init__(self, held: Any) -> None:
        self.held = held

    def step(self, change: Callable[[Holder], None] | None) -> None:
        """Change."""
        if change is not None:
            change(self)


def linked(count: int) -> Node:
    """A linked list."""
    first = last = Node(0)
    for number in range(1, count):
        last.next = Node(number)
        last.next.before = last
        last = last.next
    return first


def nested(count: int, wrap: Callable[[Any], Any]) -> Any:
    """Containers in containers."""
    held: Any = 0
    for _ in range(count):
        held = wrap(held)
    return held


def tree(count: int) -> Node:
    """A tree: each node's children follow one after another."""
    nodes = [Node(number) for number in range(count)]
    for number, node in enumerate(nodes):
        node.before, node.next = [*nodes[2 * number + 1 : 2 * number + 2]], [*nodes[2 * number + 2 : 2 * number + 3]]
    return nodes[0]


DEEP: dict[str, Callable[[], Any]] = {
    "a linked list": lambda: linked(DEPTH),
    "a linked list in a list": lambda: [linked(DEPTH)],
    "lists in lists": lambda: nested(DEPTH, lambda one: [one]),
    "dicts in dicts": lambda: nested(DEPTH, lambda one: {"k": one}),
    "lists and dicts in turn, and tuples": lambda: nested(DEPTH // 2, lambda one: [{"k": (1, one)}]),
    "a tree": lambda: tree(DEPTH),
}


@pytest.fixture
def copies(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of rows at each copy of all rows of a group."""
    counts: list[int] = []
    replace = GroupColumns.replace

    def counted(columns: GroupColumns, *arrays: Any) -> None:
        counts.append(len(arrays[0]))
        replace(columns, *arrays)

    monkeypatch.setattr(GroupColumns, "replace", counted)
    return counts


@pytest.mark.parametrize("name", DEEP)
def test_a_deep_graph_is_written_at_once(name: str, copies: list[int]) -> None:
    simulation = adapt(Holder(DEEP[name]()), fields())
    assert sum(copies) < 8 * DEPTH  # Not once for each node: the graph itself, and the trial of restoring it.

    copies.clear()
    simulation.step(lambda holder: setattr(holder, "held", [holder.held]))
    assert simulation.recapture() == []
    state = simulation.state.snapshot()
    digest = simulation.value_digest()
    other = adapt(Holder(None), fields())
    restore(other, state)
    assert other.value_digest() == digest
    simulation.step(None)
    other.step(None)
    assert other.state.hash() == simulation.state.hash()
    assert sum(copies) < 8 * DEPTH


def lose_head(holder: Holder) -> None:
    """The first node goes."""
    holder.held[0] = holder.held[0].next
    holder.held[0].before = None


def test_a_list_that_loses_its_head_is_not_walked(monkeypatch: pytest.MonkeyPatch) -> None:
    walks: list[int] = []
    find = references.find_reachable
    monkeypatch.setattr(references, "find_reachable", lambda *edges: walks.append(edges[0]) or find(*edges))
    simulation = adapt(Holder([linked(DEPTH)]), fields())
    walks.clear()
    for _ in range(30):
        simulation.step(lose_head)
    assert walks == []
    assert simulation.recapture() == []
    nodes = simulation._captured._graph.nodes
    assert len(nodes.objects) == DEPTH - 30 + 2  # The root, and the list that holds the first.


def test_the_path_to_what_cannot_be_saved_in_a_deep_graph() -> None:
    """The nodes between have no rows yet when it is met."""
    last = first = linked(12)
    while last.next is not None:
        last = last.next
    last.next = {"k": [1, (2, (one for one in "ab"))]}
    expected = "Holder.held[0]" + 12 * ".next" + "['k'][1]"
    with pytest.raises(NotCapturedError) as caught:
        adapt(Holder([first]), fields())
    assert expected in str(caught.value)

    simulation = adapt(Holder([]), fields())
    with pytest.raises(NotCapturedError) as caught:
        simulation.step(lambda holder: holder.held.append(first))
    assert f"{expected} (generator)" in str(caught.value)


class Umlauts:
    """Two names that are one in the characters of a field name, and objects in objects with long names."""

    def __init__(self) -> None:
        self.ä, self.ö = 1, 2
        self.first = linked(60)

    def step(self, _: Any = None) -> None:
        """Change each."""
        self.ä += 1
        self.ö += 2
        self.first.next.number += 1


def test_attributes_whose_fields_would_have_one_name() -> None:
    """A linked list of objects with numbers, which were refused as fields with equal names."""
    simulation, other = adapt(Umlauts(), fields()), adapt(Umlauts(), fields())
    simulation.step(None)
    restore(other, simulation.state.snapshot())
    assert (other.subject.ä, other.subject.ö, other.subject.first.next.number) == (2, 4, 2)
    assert other.value_digest() == simulation.value_digest()
    simulation.step(None)
    other.step(None)
    assert other.state.hash() == simulation.state.hash()


def test_values_that_nothing_holds_any_more_are_dropped() -> None:
    """Otherwise a long recording would fill the memory, and its keyframes the disk."""
    simulation = adapt(Holder([Node(0), *((number, "x") for number in range(500))]), fields())
    sizes, next_number = set[int](), 500
    for _ in range(40):
        fresh = [(number, "y") for number in range(next_number, next_number + 500)]
        next_number += 500
        simulation.step(lambda holder, fresh=fresh: holder.held.__setitem__(slice(1, None), fresh))
        sizes.add(simulation.state.layout.size_bytes)
        assert 500 <= simulation.state.count("graph.values") <= 1024 + 500
    assert len(sizes) <= 3
