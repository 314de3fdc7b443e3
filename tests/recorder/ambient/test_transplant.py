"""What is put into a copy has taken: it is read back, and what stays as it was is told apart from what had no effect."""

from __future__ import annotations

import functools
import itertools
import random
from collections import Counter, OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable
from typing import Any

import leaky_worlds
import numpy as np
import pytest

from recorder.ambient.ambient_diff import find_candidates
from recorder.ambient.object_walk import take_ambient
from recorder.ambient.roots import Roots
from recorder.ambient.transplant import give_values, not_taken

Pair = namedtuple("Pair", ["left", "right"])  # noqa: PYI024 - a plain one, as programs have it


class Bag(dict[str, int]):
    """A dict with a number of its own."""

    weight = 0

    def __setitem__(self, name: str, count: int) -> None:
        raise AssertionError(name)


class Row(list[int]):
    """A list with a name of its own."""

    name = ""


class Recent(OrderedDict[str, int]):
    """An OrderedDict that counts."""

    def __setitem__(self, name: str, count: int) -> None:
        super().__setitem__(name, count)
        self.count = getattr(self, "count", 0) + 1


class Owner(leaky_worlds.One):
    """Keeps one value."""

    def __init__(self, held: Callable[[Any], Any], number: int = 0) -> None:
        super().__init__()
        self.number = number
        self.held = held(self)

    def told(self) -> int:
        """Its number."""
        return self.number


def ordered(names: str, kind: Any = OrderedDict) -> Any:
    """A dict with an order of its own, whose first item moved to the end."""
    made = kind((name, 1) for name in names[::-1])
    for name in names:
        made.move_to_end(name)
    return made


def bag(weight: int, **items: int) -> Bag:
    """A bag of this weight."""
    made = Bag(items)
    made.weight = weight
    return made


def row(name: str, *items: int) -> Row:
    """A row of this name."""
    made = Row(items)
    made.name = name
    return made


def cached(*owners: Any) -> Any:
    """A cache that keeps a result for each of some owners; none for one that is None."""
    words = iter(("first", "second"))
    made = functools.lru_cache(lambda _: (next(words), [1]))
    for one in owners:
        made(one)
    return made


CASES: list[tuple[str, Callable[[Any], Any], Callable[[Any], Any], Callable[[Owner], Any], Any]] = [
    ("an OrderedDict", lambda _: ordered("abc"), lambda _: ordered("cab"), lambda one: list(one.held), ["a", "b", "c"]),
    ("a derived one", lambda _: ordered("abc", Recent), lambda _: ordered("cab", Recent), lambda one: (list(one.held), one.held.count), (["a", "b", "c"], 3)),
    ("a Counter", lambda _: Counter("aab"), lambda _: Counter("b"), lambda one: (type(one.held), list(one.held.items())), (Counter, [("a", 2), ("b", 1)])),
    ("a defaultdict", lambda _: [defaultdict(list, a=1)], lambda _: [], lambda one: one.held[0]["new"], []),
    ("a derived dict", lambda _: bag(3, a=1), lambda _: bag(5, b=2), lambda one: (dict(one.held), one.held.weight), ({"a": 1}, 3)),
    ("its attribute", lambda _: bag(3, a=1), lambda _: bag(5, a=1), lambda one: (dict(one.held), one.held.weight), ({"a": 1}, 3)),
    ("a derived list", lambda _: [row("x", 1, 2)], lambda _: [], lambda one: (one.held[0], one.held[0].name), ([1, 2], "x")),
    ("a deque", lambda _: deque([1], 3), lambda _: deque([1], 5), lambda one: (one.held.maxlen, list(one.held)), (3, [1])),
    ("an array", lambda _: np.ones(2, "f4"), lambda _: np.ones(2), lambda one: (one.held.dtype, one.held.tolist()), (np.dtype("f4"), [1.0, 1.0])),
    ("a named tuple", lambda _: Pair([1], 2), lambda _: Pair([1, 2], 2), lambda one: (type(one.held), one.held), (Pair, Pair([1], 2))),
    ("methods", lambda me: [me.told], lambda _: [], lambda one: (one.held[0].__self__ is one, one.held[0]()), (True, 2)),
    ("a method in C", lambda _: [itertools.count(5).__next__], lambda _: [itertools.count(7).__next__], lambda one: one.held[0](), 5),
    ("its object", lambda _: [random.Random(1).random], lambda _: [random.Random(2).random], lambda one: one.held[0](), random.Random(1).random()),
    ("a list's method", lambda _: [[1].append], lambda _: [[2].append], lambda one: one.held[0].__self__, [1]),
    ("a partial", lambda me: [functools.partial(max, default=me)], lambda _: [], lambda one: one.held[0].keywords["default"] is one, True),
    ("a frozenset", lambda me: [frozenset({me})], lambda _: [], lambda one: next(iter(one.held[0])) is one, True),
    ("a cache", lambda me: [cached(me)], lambda me: [cached(None, me)], lambda one: one.held[0](one), ("first", [1])),
]  # fmt: skip


@pytest.mark.parametrize(
    ("live", "copy", "read", "expected"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_what_is_put_in_is_there(
    live: Callable[[Any], Any], copy: Callable[[Any], Any], read: Callable[[Owner], Any], expected: Any
) -> None:
    """With the copy's own objects, in the order and of the type that the live run's has."""
    first, second = Owner(live, 2), Owner(copy, 2)
    ours, theirs = captured(first), captured(second)
    candidates = find_candidates(ours, theirs)
    assert candidates
    give_values(ours, theirs, second.state, candidates)

    assert not_taken(ours, captured(second), candidates) == frozenset()
    assert read(second) == expected


class Keeper(Owner):
    """Has a cache that its class holds."""

    twice: Any


def counted(me: Any) -> Any:
    """A cache of a function of an instance."""
    return functools.lru_cache(lambda count: (me.number, count))


HELD: list[tuple[str, Callable[[Any], Any], Callable[[Any], Any]]] = [
    ("a bound method", lambda me: {"how": me.twice}, lambda one: one.held["how"]),
    ("a tuple", lambda me: ((counted(me), [7]), 1), lambda one: one.held[0][0]),
    ("a partial", lambda me: [functools.partial(counted(me))], lambda one: one.held[0]),
    ("a method in C", lambda me: [counted(me).__call__], lambda one: one.held[0]),
    (
        "its arguments",
        lambda me: functools.partial(map, counted(me)),
        lambda one: lambda count: next(one.held([count])),
    ),
]


@pytest.mark.parametrize(("held", "read"), [case[1:] for case in HELD], ids=[case[0] for case in HELD])
def test_a_cache_is_put_in_where_its_holder_cannot_be_changed(
    held: Callable[[Any], Any], read: Callable[[Any], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The holder is made again, with the other values that the copy's has; the proof was lost with an error."""
    monkeypatch.setattr(Keeper, "twice", functools.lru_cache(lambda me, count: (me.number, count)), raising=False)
    first = Keeper(held, 2)
    read(first)(4)
    ours = captured(first)
    Keeper.twice.cache_clear()
    second = Keeper(held, 5)
    theirs = captured(second)
    candidates = [one for one in find_candidates(ours, theirs) if one.kind == "cache"]
    assert candidates
    give_values(ours, theirs, second.state, candidates)
    second.number = 9

    assert not_taken(ours, captured(second), candidates) == frozenset()
    assert read(second)(4) == (2, 4)
    assert read(second)(6)[0] == 9


def captured(one: Owner) -> Any:
    """All that an owner holds."""
    return take_ambient(Roots(Owner), one)


def test_what_cannot_be_put_in_is_told() -> None:
    """A generator stands where it stands: it is not among what had no effect. It may lie inside of what was put in."""

    def counting() -> Any:
        yield 1
        yield 2
        yield 3

    first, second = Owner(lambda _: [counting(), 5]), Owner(lambda _: [counting(), 7])
    next(first.held[0])
    next(second.held[0])
    next(second.held[0])
    ours, theirs = captured(first), captured(second)
    candidates = find_candidates(ours, theirs)
    next(first.held[0])  # The live run continues.
    give_values(ours, theirs, second.state, candidates)
    left = not_taken(ours, captured(second), candidates)
    assert {one.name for one in candidates} == {"Owner.held"}
    assert left == {"Owner.held"}
