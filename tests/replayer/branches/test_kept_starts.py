"""Forks that go back to a kept start, not by a load: all that a step can see is as after a load, or the start is not kept."""

from __future__ import annotations

import collections
import random
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import recorder
import replayer

NOTHING = object()
RULES = {"limit": 3}


class Item:
    """A member; some refer to each other in circles."""

    def __init__(self, number: int) -> None:
        self.number, self.next = number, self
        self.seen: dict[Any, int] = {}


class Slotted:
    """A member without a __dict__."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0


class World:
    """Objects of many kinds; its step returns all that it sees, identities included."""

    def __init__(self) -> None:
        self.rng = random.Random(3)
        self.numpy_rng = np.random.default_rng(4)
        self.items = [Item(number) for number in range(5)]
        for one, other in zip(self.items, self.items[1:], strict=False):
            one.next = other
            one.seen[other] = 1
        self.favourite = self.items[2]
        self.shared = self.also = [1, 2, 3]
        self.queue = collections.deque([1, 2], maxlen=4)
        self.target: object = NOTHING
        self.slotted = Slotted()
        self.heat = np.arange(6.0).reshape(2, 3)
        self.table = {"a": [self.items[0]], (1, 2): self.items}
        self.text, self.number, self.nothing = "text", 2.5, None
        self.callback = self.grow

    def grow(self) -> None:
        self.items.append(Item(len(self.items)))

    def step(self, order: str | None = None) -> list[Any]:
        """Change something of each kind."""
        if order == "target":
            self.target = self.items[0]
        if order == "dict":
            self.__dict__ = dict(self.__dict__)
        if order == "texts":
            self.number = "two"  # type: ignore[assignment]
        self.also.append(self.rng.randrange(100))
        self.queue.append(int(self.numpy_rng.integers(100)))
        self.heat[0] *= 1.5
        self.slotted.value += 1
        self.items[0].number += 1
        self.items[0].seen[self.favourite] = self.rng.randrange(9)
        if self.rng.random() < 0.4:
            self.callback()
        if self.rng.random() < 0.2:
            self.items.pop(0)
        return self.look()

    def look(self) -> list[Any]:
        """Values and identities."""
        return [
            [
                (one.number, one.next.number, [key.number for key in one.seen], [*one.seen.values()])
                for one in self.items
            ],
            [self.favourite is one for one in self.items],
            self.shared is self.also,
            [*self.shared],
            (list(self.queue), self.queue.maxlen),
            (self.target is NOTHING, self.target is self.items[0]),
            (self.slotted.value, self.heat.tolist(), self.heat.flags.writeable),
            (self.table["a"][0] is self.items[0], self.table[1, 2] is self.items),  # type: ignore[index]
            (self.text, self.number, self.nothing),
            (self.callback.__self__ is self, self.rng.random(), float(self.numpy_rng.random())),
        ]


def recorded(path: Path, world: Any, ticks: int = 12) -> None:
    """Record some steps."""
    game = recorder.record(world, path, trial_ms=0, quiet=True)
    with recorder.tape_of(game):
        for _ in range(ticks):
            game.step()


def is_kept(fork: replayer.Fork) -> bool:
    """Return True if the fork began by going back to a kept start."""
    return fork._pooled._go_back is not None  # type: ignore[union-attr]


ORDERS = [None, "target", "dict", None, None, None]
WITH_TEXTS = [*ORDERS, "texts", None]  # An attribute becomes one of another kind.


def seen_by(run: replayer.Timeline, *, as_recorded: bool, orders: list[str | None] = ORDERS) -> tuple[Any, int, bool]:
    """All that the steps of a fork see, the hash at their end, and if its start was kept."""
    with run.fork(saves_each_step=as_recorded) as fork:
        kept = is_kept(fork)
        return [fork.subject.look(), *(fork.subject.step(order) for order in orders)], fork.hash(), kept


@pytest.mark.parametrize(("orders", "is_often_kept"), [(ORDERS, True), (WITH_TEXTS, False)])
def test_a_kept_start_is_what_a_load_gives(tmp_path: Path, orders: list[str | None], *, is_often_kept: bool) -> None:
    """Of values, identities, orders and generators, each time, whatever the fork before has done."""
    recorded(tmp_path / "run.tape", World())
    with replayer.open(tmp_path / "run.tape", World) as run:
        run.seek(8)
        loaded, _, kept = seen_by(run, as_recorded=True, orders=orders)
        assert not kept
        results = [seen_by(run, as_recorded=False, orders=orders) for _ in range(12)]
        assert [result[0] == loaded for result in results] == [True] * 12
        assert len({result[1] for result in results}) == 1, "equal values have equal hashes, kept or loaded"
        assert (sum(result[2] for result in results) >= 10) == is_often_kept


def test_a_start_is_kept_from_the_second_fork_on(tmp_path: Path) -> None:
    """Until a step has given an attribute another kind of value, and its state was asked for."""
    recorded(tmp_path / "run.tape", World())
    with replayer.open(tmp_path / "run.tape", World) as run:
        run.seek(8)
        kept = []
        for _ in range(4):
            with run.fork() as fork:
                kept.append(is_kept(fork))
                fork.subject.step()
        assert kept == [False, True, True, True]
        run.seek(9)
        with run.fork() as fork:
            assert not is_kept(fork)
            assert fork.subject.look() == seen_by(run, as_recorded=True)[0][0]


class Sets(World):
    """Sets, whose order a pickle may change."""

    def __init__(self) -> None:
        super().__init__()
        self.names = {"a", "b", "c"}


class Views(World):
    """An array over the memory of another one."""

    def __init__(self) -> None:
        super().__init__()
        self.pair = [np.zeros(4)]
        self.pair.append(self.pair[0][:2])


class Reduced(World):
    """A class that tells pickle something else."""

    def __init__(self) -> None:
        super().__init__()
        self.favourite = Forgetful(7)


class Forgetful(Item):
    """Comes back from pickle with another number."""

    def __reduce__(self) -> Any:
        return Forgetful, (0,)


class Ruled(World):
    """A dict that is also a global of the module: steps compare it, and could change it."""

    def __init__(self) -> None:
        super().__init__()
        self.rules = RULES

    def look(self) -> list[Any]:
        """Identity and content, too."""
        return [*super().look(), self.rules is RULES, dict(self.rules)]


class Watched(World):
    """An object that a weak reference refers to."""

    def __init__(self) -> None:
        super().__init__()
        self.watch = weakref.WeakSet([self.items[3]])


@pytest.mark.parametrize("kind", [Sets, Views, Reduced, Ruled, Watched])
def test_what_pickle_may_change_is_loaded(tmp_path: Path, kind: Any) -> None:
    """Or refused by the recording itself; the forks are as after a load in any case."""
    try:
        recorded(tmp_path / "run.tape", kind())
    except TypeError:
        return
    with replayer.open(tmp_path / "run.tape", kind) as run:
        run.seek(8)
        loaded = seen_by(run, as_recorded=True)[0]
        for _ in range(3):
            seen, _, kept = seen_by(run, as_recorded=False)
            assert seen == loaded
            assert not kept


def test_a_cartpole_goes_back(tmp_path: Path) -> None:
    """Bit by bit, with its generator, its counter of steps and the wrappers."""
    gymnasium = pytest.importorskip("gymnasium")
    env = recorder.record(
        gymnasium.make("CartPole-v1", max_episode_steps=15), tmp_path / "run.tape", quiet=True, trial_ms=0
    )
    env.reset(seed=3)
    for number in range(14):
        env.step(number % 2)
    env.close()
    with replayer.open(tmp_path / "run.tape") as run:
        run.seek(9)
        results, kept = [], []
        for _ in range(4):
            with run.fork() as fork:
                kept.append(is_kept(fork))
                steps = [fork.subject.step(number % 2) for number in range(7)]
                again = fork.subject.reset()[0].tobytes()
                results.append(([(one[0].tobytes(), *one[1:4]) for one in steps], again, fork.hash()))
        assert kept == [False, True, True, True]
        assert results[1:] == results[:1] * 3
        assert results[0][0][6][3], "the time limit counts on"
