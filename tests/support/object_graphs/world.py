"""A simulation whose step makes the changes that its inputs name, in a graph of objects."""

from __future__ import annotations

import gc
import random
from typing import Any

import numpy as np

from object_graphs.changes import make_changes, objects_of, weak_references_of
from object_graphs.classes import Kind, Special, Thing

OBJECTS_MAX = 150  # More are cut off, so that examples stay small.


class World:
    """A graph of objects; inputs are lists of [operation, maker, b, c].

    Attributes:
        alive_count: the weak references whose object lived after the last step. Shows a capture that holds them.
    """

    def __init__(self) -> None:
        self.births = 0
        self.alive_count = 0
        self.collects = self.has_had_weak_references = False
        self.tick = 0
        self.score: Any = 0.0
        self.kind: Any = Kind.A
        self.target: Any = None
        self.grid: Any = np.zeros((3, 4))
        self.row: Any = self.grid[1]
        self.rng: Any = np.random.default_rng(4)
        self.dice: Any = random.Random(4)
        self.things: list[Any] = [Thing(-1), Thing(-2), Special(-3)]
        self.table: dict[Any, Any] = {1: self.things[0], "two": self.things}
        self.cells: Any = {(1, 2), (3, 4), 5}
        self.things[0].near = self.things[1]

    def step(self, inputs: Any) -> int:
        """Make the changes."""
        self.tick += 1
        had_weak_references = self.has_had_weak_references
        if inputs:
            make_changes(self, inputs)
            self._cut_off()
        if self.collects:
            gc.collect()  # So that an object in a cycle dies at the same step in each run.
        if had_weak_references:  # docs/adapt.md: what is referred to weakly only now may live to the end of this step.
            self.alive_count = sum(reference() is not None for reference in weak_references_of(self))
        if self.collects and not had_weak_references:
            self.has_had_weak_references = bool(weak_references_of(self))
        return self.tick

    def born(self) -> int:
        """The number of a new object."""
        self.births += 1
        return self.births

    def _cut_off(self) -> None:
        if len(objects_of(self)) <= OBJECTS_MAX:
            return
        del self.things[2:]
        self.table.clear()
        self.target = None
        for one in self.things:
            if isinstance(one, Thing):
                one.near = None
        for name in ("extra0", "extra1", "extra2"):
            if hasattr(self, name):
                delattr(self, name)


def make_world() -> World:
    """The factory: the graph in its initial state."""
    return World()


def adapted_world() -> Any:
    """The world as the adapter for ordinary objects captures it."""
    from sim.adapters.find_adapter import adapt
    from sim.adapters.plain_object.adapter import fields

    return adapt(make_world(), fields())
