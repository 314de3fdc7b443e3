"""Objects that a step replaces by others: the arena is what a survey of all objects gives, and seeks give the truth."""

from __future__ import annotations

import copy
import gc
import random
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import recorder
import replayer
from sim.adapters.capture.captured_state import CapturedState


class Grid:
    def __init__(self, width: int) -> None:
        self.width, self.height, self.cells, self.owner = width, 1.5, [width, [width]], None


class Spot:
    def __init__(self, x: Any) -> None:
        self.x = x


class Nest:
    def __init__(self, size: int) -> None:
        self.eggs, self.spot = np.zeros(size), Spot(size)


class World:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.grid, self.spot, self.kept = Grid(1), Spot(0.5), Grid(2)
        self.alias: Any = self.kept
        self.nest, self.twin = Nest(2), Grid(4)
        self.shelf: list[Any] = []
        self.board = np.zeros(3)
        self.turn = 0

    def step(self) -> int:
        """Make one to three random changes; most replace an object by another one of the same form."""
        self.turn += 1
        for _ in range(self.random.randint(1, 3)):
            self.random.choice(CHANGES)(self)
        return self.turn


def shelve(world: World) -> None:
    world.shelf = [*world.shelf[-1:], world.grid]


def unshelve(world: World) -> None:
    world.grid = world.shelf.pop() if world.shelf else Grid(9)


def new_grid(world: World) -> None:
    world.grid = Grid(world.random.randrange(100))


def one_grid(world: World) -> None:
    world.grid = world.twin = Grid(5)


def new_spot(world: World) -> None:
    world.spot = Spot(world.random.random())


CHANGES: Any = [
    *[new_grid, new_spot] * 8,
    lambda world: setattr(world.grid, "width", world.turn),
    lambda world: setattr(world.spot, "x", -0.0),
    lambda world: world.grid.cells.append(world.spot),
    lambda world: setattr(world.grid, "owner", world.random.choice([None, world.spot, "a name"])),
    one_grid,
    lambda world: setattr(world, "nest", Nest(2)),
    lambda world: setattr(world.nest, "spot", Spot(1)),
    lambda world: setattr(world.nest, "eggs", world.nest.eggs + 1),
    shelve,
    unshelve,
    lambda world: setattr(world, "kept", Grid(3)),
    lambda world: setattr(world, "alias", world.kept),
    lambda world: setattr(world, "spot", Spot(world.random.choice([1, True, None, "x", [1]]))),
    lambda world: setattr(world, "spot", world.grid if world.turn % 5 == 0 else Spot(2.5)),
    lambda world: setattr(world.grid, f"extra{world.turn % 2}", 1),
    lambda world: setattr(world.grid, "board", world.board),
    lambda world: setattr(world, "board", world.board + 1),
]


def parts(world: World) -> Any:
    """All values, and which of the objects are the same one."""
    held = [world.grid, world.twin, world.spot, world.kept, world.alias, *world.shelf]
    places = {id(one): place for place, one in reversed(list(enumerate(held)))}

    def text(value: Any) -> Any:
        return places.get(id(value), f"a spot at {value.x!r}" if isinstance(value, Spot) else repr(value))

    lists = [list(map(text, one.cells)) if isinstance(one, Grid) else None for one in held]
    values = [{name: text(value) for name, value in vars(one).items() if name != "cells"} for one in held]
    nest = (world.nest.eggs.tolist(), text(world.nest.spot))
    shared = [vars(one).get("board") is world.board for one in held]
    return (
        [type(one) for one in held],
        [places[id(one)] for one in held],
        lists,
        values,
        shared,
        world.board.tolist(),
        nest,
    )


@pytest.mark.parametrize("seed", range(10))
def test_the_arena_is_what_a_survey_gives(seed: int) -> None:
    followed, surveyed = World(seed), World(seed)
    one, other = (CapturedState([("World", each)], lambda *_: None) for each in (followed, surveyed))
    for step in range(50):
        followed.step()
        surveyed.step()
        one.pack()
        other.survey_and_pack()
        assert one.structure == other.structure, f"seed {seed}, step {step}"
        assert bytes(one.state.arena.data) == bytes(other.state.arena.data), f"seed {seed}, step {step}"


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.seldom(0.15)
def test_seeks_give_the_truth(seed: int, tmp_path: Path) -> None:
    world = recorder.record(World(seed), tmp_path / "world.tape", step="step", quiet=True, trial_ms=0,
                            keyframe_interval_ticks=7)  # fmt: skip
    truth = [parts(copy.deepcopy(world.subject))]
    for _ in range(50):
        world.step()
        truth.append(parts(copy.deepcopy(world.subject)))
    world.close()
    with replayer.open(tmp_path / "world.tape", world=lambda: World(seed)) as run:
        for tick in random.Random(seed).sample(range(51), 20):
            run.seek(tick)
            assert parts(run.subject) == truth[tick], f"seed {seed}, tick {tick}"
        assert run.verify().ok


def test_a_replaced_object_is_not_kept_alive() -> None:
    class Large(Grid):
        """With attributes that can be referred to weakly."""

    world = World(1)
    world.grid = Large(1)
    captured = CapturedState([("World", world)], lambda *_: None)
    captured.pack()
    before = weakref.ref(world.grid)
    world.grid = Large(2)
    captured.pack()
    gc.collect()
    assert before() is None
