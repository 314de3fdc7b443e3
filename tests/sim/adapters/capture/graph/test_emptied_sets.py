"""Sets that come and go: what is left of their elements in their tables, which no process but this one may know."""

from __future__ import annotations

import os
import subprocess
import sys
import weakref
from pathlib import Path
from typing import Any

import pytest

from sim.adapters.find_adapter import adapt
from sim.adapters.plain_object.adapter import fields
from sim.kernel.sets.set_layout import table_of
from sim.kernel.simulation import restore


class WorkList:
    """Elements come and go within each step. kind: makes an element of a number. takes: how an element is taken out."""

    def __init__(self, kind: Any = str, takes: str = "pop") -> None:
        self._kind, self._takes = kind, takes
        self.todo: set[Any] = set()
        self.done = 0
        self.t = 0

    def step(self, _: Any = None) -> None:
        """Add some elements, and take all of them out."""
        self.t += 1
        elements = [self._kind(self.t * 7 + number * 5) for number in range(self.t % 23)]
        self.todo.update(elements)
        for element in elements:
            if self._takes == "pop":
                self.todo.pop()
            else:
                self.todo.discard(element)
            self.done += 1


class Emptied:
    """Integers that are seen in a set before it is emptied in each step; has another attribute from tick 9 on."""

    def __init__(self) -> None:
        self.cells: Any = {0, 8, 16, 24, 5}
        self.order: list[int] = []
        self.t = 0

    def step(self, _: Any = None) -> None:
        """Empty the set at tick 2, and let it come and go; it is full at each seventh tick."""
        self.t += 1
        if self.t == 2:
            while len(self.cells) > 0:
                self.cells.pop()
        elif self.t > 3:
            self.cells.update(range(0, 8 * (self.t % 11), 8))
            self.order = list(self.cells)
            while self.cells and self.t % 7:
                self.cells.pop()
        if self.t == 9:
            self.more = [1]


class EmptiedBesideAnObserver(Emptied):
    """So that no object is kept alive between two steps."""

    def __init__(self) -> None:
        super().__init__()
        self.target = Emptied()
        self.seen_by = weakref.ref(self.target)


HASHES = """
import sys
from test_emptied_sets import *
live = adapt(WorkList(str, sys.argv[1]), fields())
for _ in range(40):
    live.step(None)
    print(live.state.hash())
"""


@pytest.mark.parametrize("takes", ["pop", "discard"])
@pytest.mark.seldom(0.15)
def test_texts_that_come_and_go_leave_no_trace(takes: str) -> None:
    """The state is the same in processes in which texts have other hashes."""
    found = set()
    for seed in ("1", "2", "3"):
        path = os.pathsep.join([str(Path(__file__).parent), *filter(None, sys.path)])
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": path}
        command = [sys.executable, "-c", HASHES, takes]
        found.add(subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout)
    assert len(found) == 1
    assert len(set(found.pop().split())) == 40


@pytest.mark.parametrize("cls", [Emptied, EmptiedBesideAnObserver])
def test_a_set_in_which_integers_were_seen_is_as_without_a_recording(cls: type[Emptied]) -> None:
    """Its table, also the places that became free, is that of a run without a recording, and so is its order."""
    control, live = cls(), adapt(cls(), fields())
    states, truth = [live.state.snapshot()], [(table_of(control.cells), list(control.order))]
    for _ in range(30):
        control.step()
        live.step(None)
        assert table_of(live.subject.cells) == table_of(control.cells)
        states.append(live.state.snapshot())
        truth.append((table_of(control.cells), list(control.order)))
    assert any(not table.places and table.dummies for table, _ in truth)
    used = adapt(cls(), fields())
    for tick in (20, 3, 12, 30, 9):
        restore(used, states[tick])
        for later in range(tick, 31):
            assert (table_of(used.subject.cells), used.subject.order) == truth[later]
            assert used.state.hash() == states[later].hash()
            if later < 30:
                used.step(None)


@pytest.mark.parametrize("kind", [int, str])
def test_a_work_list_replays_as_it_was_recorded(kind: Any) -> None:
    """It begins again at each step, here as in a replay."""
    live = adapt(WorkList(kind), fields())
    states = [live.state.snapshot()]
    for _ in range(30):
        live.step(None)
        states.append(live.state.snapshot())
        assert not table_of(live.subject.todo).dummies
    for tick in (0, 7, 29):
        used = adapt(WorkList(kind), fields())
        restore(used, states[tick])
        for later in range(tick + 1, 31):
            used.step(None)
            assert used.state.hash() == states[later].hash()
