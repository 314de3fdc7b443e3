"""Two states of objects are compared by paths: values, order, and which paths lead to one object."""

from __future__ import annotations

import copy
import itertools
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from sim.adapters import adapt
from sim.adapters.object_view.object_comparison import object_differences
from sim.adapters.object_view.object_tree import ObjectTree, tree_of


@dataclass(eq=False)
class Unit:
    """A unit that refers to others."""

    name: str
    hp: int = 10
    target: Unit | None = None


class Game:
    """One of everything; each step makes the next change."""

    def __init__(self, change: Callable[[Game], object]) -> None:
        self.units = [Unit(f"u{number}", number) for number in range(6)]
        self.units[0].target = self.units[3]
        self.leader = self.units[2]
        self.bag = {"a": 1, "b": 2, "c": 3}
        self.queue, self.words, self.cells = [5, 6, 7, 8], ["x", "y", "y"], [0, 1, 0, 0]
        self.names = ["x", "y", "z"]
        self.recent, self.tags, self.alive = deque("abc"), {1, 2, 3}, {self.units[1], self.units[4]}
        self.owner = {self.units[5]: "us"}
        self.grid, self.grids = np.zeros((3, 4)), [np.zeros(3), np.zeros(3)]
        self.rng, self.random, self.ids = np.random.default_rng(3), random.Random(3), itertools.count()
        self.order, self.speed, self.text = iter([1, 2, 3]), 1.0, "t" * 200
        self.place, self.spot = (7, 8), [7, 8]
        self.change = None
        _CHANGES[id(self)] = change

    def step(self, _: Any) -> None:
        """Change something."""
        _CHANGES[id(self)](self)


_CHANGES: dict[int, Callable[[Game], object]] = {}


def tree_after(change: Callable[[Game], object]) -> ObjectTree:
    """The tree of a game after a step that makes a change."""
    simulation = adapt(Game(change))
    simulation.step(None)
    tree = tree_of(simulation.state.snapshot())
    assert tree is not None
    return tree


def lines(
    change: Callable[[Game], object], before: Callable[[Game], object] = lambda _: None, elements: int = 3
) -> list[str]:
    """The differences between a game without and with a change."""
    found = object_differences(tree_after(before), tree_after(change), elements)
    return [difference.text(("A", "B")) for difference in found]


def swap(items: Any, one: int, other: int) -> None:
    """Exchange two items of a list."""
    items[one], items[other] = items[other], items[one]


def first_to_the_end(bag: dict[str, int]) -> None:
    """Take the first key out, and put it back."""
    key = next(iter(bag))
    bag[key] = bag.pop(key)


U4, U5 = "Unit(name='u4', hp=4, …)", "Unit(name='u5', hp=5, …)"
CHANGES: list[tuple[Callable[[Game], object], list[str]]] = [
    (lambda _: None, []),
    (lambda g: setattr(g.units[4], "hp", 60.5), ["units[4].hp: A 4, B 60.5"]),
    (lambda g: setattr(g, "speed", -0.0), ["speed: A 1.0, B -0.0"]),
    (lambda g: setattr(g, "speed", 1), ["speed: A 1.0, B 1"]),
    (lambda g: setattr(g, "speed", np.float64(1)), ["speed: A 1.0 (float), B 1.0 (numpy.float64)"]),
    (lambda g: setattr(g, "text", "t" * 150 + "u" * 50), [f"text: A … from [135]: {'t' * 59!r}…", "?"]),
    (lambda g: first_to_the_end(g.bag), ["order of bag: A a, b, c; B b, c, a"]),
    (lambda g: g.bag.__setitem__("d", g.bag.pop("a")), ["bag['a']: A 1, B absent", "bag['d']: A absent, B 1"]),
    (lambda g: g.queue.reverse(), ["order of queue: A 5, 6, 7, 8; B 8, 7, 6, 5"]),
    (lambda g: g.words.reverse(), ["words[0]: A 'x', B 'y'", "words[2]: A 'y', B 'x'"]),
    (lambda g: g.names.reverse(), ["order of names: A 'x', 'y', 'z'; B 'z', 'y', 'x'"]),
    (lambda g: swap(g.cells, 1, 2), ["cells[1]: A 1, B 0", "cells[2]: A 0, B 1"]),
    (lambda g: setattr(g, "place", (8, 7)), ["place[0]: A 7, B 8", "place[1]: A 8, B 7"]),
    (lambda g: g.spot.reverse(), ["spot[0]: A 7, B 8", "spot[1]: A 8, B 7"]),
    (lambda g: g.recent.rotate(), ["order of recent: A 'a', 'b', 'c'; B 'c', 'a', 'b'"]),
    (lambda g: swap(g.units, 4, 5), [f"order of units: A … from [4]: {U4}, {U5}; B … from [4]: {U5}, {U4}"]),
    (lambda g: g.tags.add(9), ["9 in tags: A absent, B present"]),
    (lambda g: g.alive.add(g.units[0]), ["Unit(name='u0', hp=0, …) in alive: A absent, B present"]),
    (lambda g: setattr(g, "owner", {g.units[4]: "us"}),
     ["owner[<Unit name='u5'>]: A 'us', B absent", "owner[<Unit name='u4'>]: A absent, B 'us'"]),
    (lambda g: g.grid.__setitem__((1, 2), 7), ["grid[1, 2]: A 0.0, B 7.0"]),
    (lambda g: g.grids[1].__setitem__(2, 7), ["grids[1][2]: A 0.0, B 7.0"]),
    (lambda g: g.grids[1].fill(np.nan), ["grids[1][0]: A 0.0, B nan", "grids[1][1]: A 0.0, B nan",
                                         "grids[1][2]: A 0.0, B nan"]),
    (lambda g: g.grid.fill(1), ["grid: 12 of 12 elements differ", "grid[0, 0]: A 0.0, B 1.0", "grid[0, 1]: A 0.0, B 1.0",
                                "grid[0, 2]: A 0.0, B 1.0"]),
    (lambda g: g.rng.random(), ["rng: the state of numpy.random.Generator(PCG64) differs"]),
    (lambda g: g.random.random(), ["random: the state of <random.Random> differs"]),
    (lambda g: next(g.order), ["order: the state of <list_iterator> differs"]),
    (lambda g: setattr(g.units[0], "target", g.units[1]), ["units[0].target: A units[3], B units[1]"]),
    (lambda g: setattr(g, "leader", g.units[5]), ["leader: A units[2], B units[5]"]),
    (lambda g: setattr(g, "leader", copy.copy(g.leader)), ["leader and units[2]: A the same object, B two objects"]),
    (lambda g: setattr(g.units[0], "target", Unit("u3", 99)),
     ["units[3] and units[0].target: A the same object, B two objects", "units[0].target.hp: A 3, B 99"]),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(CHANGES)))
def test_a_change_gives_these_lines_and_no_others(number: int) -> None:
    """Also in the other direction, with the two states exchanged."""
    change, expected = CHANGES[number]
    found = lines(change)

    if expected[-1:] == ["?"]:
        assert len(found) == 1
        assert found[0].startswith("text: A … from [135]: 'ttttttttttttttt")
        assert "'tttttttttttttttuuuu" in found[0]
        return
    assert sorted(found) == sorted(expected)
    assert bool(lines(lambda _: None, change)) == bool(expected)


def test_two_objects_that_became_one() -> None:
    """The reverse of a lost alias."""
    assert "leader and units[2]: A two objects, B the same object" in lines(
        lambda _: None, before=lambda g: setattr(g, "leader", copy.copy(g.leader))
    )


def test_each_element_of_an_array_on_request() -> None:
    """A table has all of them, and needs no count."""
    assert len(lines(lambda g: g.grid.fill(1), elements=100)) == 12


def test_other_numbers_for_the_same_objects_are_no_difference() -> None:
    """Objects that came and went leave the numbers of later ones free: the paths and values are compared, not these."""

    def with_detour(game: Game) -> None:
        game.units = [Unit(unit.name, unit.hp, unit.target) for unit in game.units]
        game.units[0].target = game.units[3]
        game.leader = game.units[2]
        game.alive, game.owner = {game.units[1], game.units[4]}, {game.units[5]: "us"}

    assert lines(with_detour) == []


def test_any_changed_number_is_found_at_its_path() -> None:
    """Units that refer to each other in any way, and one of them changes: no other line."""
    for seed in range(20):
        choice = random.Random(seed)
        targets = [choice.randrange(6) for _ in range(6)]
        changed = choice.randrange(6)

        def connect(game: Game, targets: list[int] = targets) -> None:
            for unit, target in zip(game.units, targets, strict=True):
                unit.target = game.units[target]

        def change(game: Game, connect: Any = connect, changed: int = changed) -> None:
            connect(game)
            game.units[changed].hp = 77

        (line,) = lines(change, before=connect)
        assert line in (f"units[{changed}].hp: A {changed}, B 77", f"leader.hp: A {changed}, B 77")


def test_a_value_of_an_object_that_moved_has_both_paths() -> None:
    """The path in the first state, and where the object is in the second one."""

    def swap_and_hit(game: Game) -> None:
        swap(game.units, 4, 5)
        game.units[4].hp = 99  # The unit that was at 5.

    assert "units[5].hp: A 5, B 99 at units[4].hp" in lines(swap_and_hit)


class Road:
    """Its short text does not show its traffic."""

    def __init__(self, traffic: int) -> None:
        self.name = "a road from the first town to the second one"
        self.traffic = traffic


class LongRoad:
    """Its longer text does not show its traffic either."""

    def __init__(self, traffic: int) -> None:
        self.name, self.note, self.rest = "n" * 50, "o" * 50, "p" * 50
        self.traffic = traffic


@pytest.mark.parametrize(("kind", "shown"), [(Road, ["traffic=1", "traffic=2"]), (LongRoad, ["[0] Long", "[1] Long"])])
def test_an_order_of_items_that_are_shown_alike(kind: Callable[[int], Any], shown: list[str]) -> None:
    """Two items swapped places whose short texts are equal: longer texts or their places tell them apart."""

    def roads(*traffic: int) -> Callable[[Game], object]:
        return lambda game: setattr(game, "units", [kind(number) for number in traffic])

    (line,) = [one for one in lines(roads(1, 2), before=roads(2, 1)) if one.startswith("order of units")]
    one, other = line.removeprefix("order of units: A ").split("; B ")
    assert all(text in side for text in shown for side in (one, other))
    assert one != other


def test_an_order_of_keys_with_equal_texts() -> None:
    """A class as a key is shown as the text of its name is."""
    (line,) = lines(
        lambda game: setattr(game, "bag", {"Unit": 1, Unit: 2}),
        before=lambda game: setattr(game, "bag", {Unit: 2, "Unit": 1}),
    )
    assert line == "order of bag: A [0] Unit, [1] Unit; B [1] Unit, [0] Unit"


class Machine:
    """Keeps a method of its own, and so itself."""

    def __init__(self) -> None:
        self.turn, self.speed = 0, 1.0
        self.next_move, self.me = self.move, self

    def move(self) -> None:
        """A step of the machine."""

    def step(self, faster: bool) -> None:  # noqa: FBT001 - an input
        """Turn."""
        self.speed += faster


def test_what_refers_to_the_object_itself_is_compared_once() -> None:
    """A method that an object keeps leads back to it."""
    trees = []
    for faster in (False, True):
        simulation = adapt(Machine())
        simulation.step(faster)
        trees.append(tree_of(simulation.state.snapshot()))
    assert trees[0] is not None
    assert trees[1] is not None
    found = [one.text(("A", "B")) for one in object_differences(trees[0], trees[1], 3)]
    assert found == ["speed: A 1.0, B 2.0"]
