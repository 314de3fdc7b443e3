"""Cells written at once, one by one, and without reading memory: the bytes of the arena are the same at each tick."""

from __future__ import annotations

import random
from collections import OrderedDict
from typing import Any

import pytest

from sim.adapters.capture.graph import object_graph
from sim.adapters.capture.graph.cells import cell_writer, new_rows
from sim.adapters.find_adapter import adapt
from sim.adapters.plain_object.adapter import fields
from sim.kernel.memory import object_memory
from sim.kernel.simulation import restore

TICKS = 20


class Unit:
    """Each kind of value, in attributes and in lists."""

    def __init__(self, number: int, chance: random.Random) -> None:
        self.number, self.name = number, f"unit {number % 7}"
        self.x: Any = chance.random()
        self.path: list[Any] = [(self.x, number)]
        self.near: Unit | None = None
        self.seen: dict[Any, Any] = {number: self.x, "nan": float("nan")}


class Game:
    """Units come and go, lists are shifted, rotated and shuffled, keys are put in again."""

    def __init__(self) -> None:
        self.chance = random.Random(5)
        self.units = [Unit(number, self.chance) for number in range(70)]
        self.by_number = {unit.number: unit for unit in self.units}
        self.count = 70
        self.matrix = [[None] * 30 for _ in range(9)]

    def step(self, _: Any = None) -> None:
        """Change much."""
        chance = self.chance
        for unit in chance.sample(self.units, 50):
            unit.x = chance.choice(
                [unit.x, 1 << 40, 1 << 62, 1 << 70, -3, -0.0, 0.0, 1, True, None, 1e300, "text", (unit,)]
            )
            unit.path.append(chance.choice([(unit.x, 1), (1.0, 2.0), unit.near, "a", (True,)]))
            del unit.path[: -chance.randrange(1, 9)]
            unit.near = chance.choice([None, *self.units[:20]])
            unit.seen[chance.randrange(99)] = chance.choice([unit, 2.5, None])
            for key in list(unit.seen)[: chance.randrange(3)]:
                unit.seen[key] = unit.seen.pop(key)
        for _number in range(chance.choice([0, 1, 2, 3, 30])):
            gone = self.units.pop(chance.randrange(len(self.units)))
            del self.by_number[gone.number]
            born = self.by_number[self.count] = Unit(self.count, chance)
            self.units.insert(chance.randrange(len(self.units)), born)
            self.count += 1
        chance.choice([chance.shuffle, list.reverse, list.copy])(self.units)
        row: list[Any] = chance.choice(self.matrix)
        row[:] = [*row[1:], *chance.choices([None, 4, 0.5, self.units[0], [self.count]], k=chance.randrange(3))]


def hashes() -> list[int]:
    """Of each tick; each state equals one that is taken again as a whole."""
    simulation = adapt(Game(), fields())
    found = []
    for _ in range(TICKS):
        simulation.step(None)
        found.append(simulation.state.hash())
        assert simulation.recapture() == []
    return found


@pytest.fixture(scope="module")
def expected() -> list[int]:
    """As everything is usually done."""
    found = hashes()
    assert len(set(found)) == TICKS
    return found


@pytest.mark.parametrize(("few", "memory"), [(0, True), (10, False), (1 << 30, True)])
def test_the_bytes_are_the_same(
    monkeypatch: pytest.MonkeyPatch, expected: list[int], *, few: int, memory: bool
) -> None:
    monkeypatch.setattr(cell_writer, "_FEW", few)
    if not memory:
        for name in ("_types_are_known", "_floats_are_known", "pointers_are_known"):
            monkeypatch.setattr(object_memory, name, lambda: False)
        monkeypatch.setattr(object_memory, "_integer_reader", lambda: None)
        monkeypatch.setattr("sim.adapters.capture.graph.cells.changed_cells.pointers_are_known", lambda: False)
    assert hashes() == expected


def test_the_bytes_are_the_same_where_rows_come_and_go_one_after_the_other(
    monkeypatch: pytest.MonkeyPatch, expected: list[int]
) -> None:
    monkeypatch.setattr(new_rows, "_FEW_ROWS", 0)
    assert hashes() == expected
    monkeypatch.undo()
    monkeypatch.setattr(object_graph, "is_many", lambda *_: False)  # Each loss is followed by its references.
    assert hashes() == expected


@pytest.mark.parametrize("count", [0, 1, 64, 65, 200])
@pytest.mark.parametrize("kind", [dict, OrderedDict, list])
def test_all_empty_containers_of_a_kind_get_many_items_in_one_step(kind: Any, count: int) -> None:
    """As they are after a restore into a fresh object; there were no cells before from which any could be copied."""

    class Game:
        def __init__(self) -> None:
            self.seen = kind()

        def step(self, _: Any = None) -> None:
            if kind is list:
                self.seen.extend((i, float(i)) for i in range(count))
            else:
                self.seen.update((i, float(i)) for i in range(count))

    game = Game()
    simulation = adapt(game, fields())
    simulation.state.snapshot()
    simulation.step(None)
    fresh = adapt(Game(), fields())
    restore(fresh, simulation.state.snapshot())
    assert fresh.subject.seen == game.seen
    assert type(fresh.subject.seen) is kind
    assert simulation.recapture() == []
