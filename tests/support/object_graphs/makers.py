"""The values of random graphs, by the features that they belong to.

A maker gets the world, its objects in order and a number; it returns a new value or one of these objects.
"""

from __future__ import annotations

import datetime as dt
import itertools
import random
import weakref
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import PurePosixPath
from typing import Any

import numpy as np

from object_graphs.classes import (
    MISSING,
    WALL,
    Cell,
    Data,
    Fixed,
    Half,
    Kind,
    Loose,
    Made,
    Marks,
    Narrow,
    Narrower,
    Point,
    Rank,
    Size,
    Slim,
    Spare,
    Special,
    Team,
    Thing,
    Tile,
    double,
    halve,
)

NAN = float("nan")
ATOMS = (
    0, 1, True, False, 0.0, -0.0, 1.0, NAN, -NAN, None, 2**63, -(2**63), 2**63 - 1, 2**200, -(10**30), 7, "a", "abab",
    b"x", "", b"", (), (1,), (1.0,), (True,), (-0.0, NAN), 3 + 4j, complex(-0.0, 0.0), 255, 256, 257, 10**6,
    float("inf"), "\ud800 é", 1e-320,
)  # fmt: skip
MEMBERS = (Kind.A, Kind.B, Rank.LOW, Rank.HIGH, Marks.RED, Marks.RED | Marks.BLUE, Marks(0))
NUMBERS = (
    np.int64(1),
    np.float32(1),
    np.bool_(1),
    np.uint8(255),
    np.float64(-0.0),
    np.complex64(1j),
    np.datetime64("2020-01-01"),
)
RARE = (
    Decimal("1.10"), Decimal("NaN"), Fraction(1, 3), PurePosixPath("a/b"), dt.date(2020, 2, 29), dt.time(3, 4, fold=1),
    dt.datetime(2020, 2, 29, 1, 2, 3, 4, tzinfo=dt.UTC), dt.timedelta(-1, 2, 3), range(3, 9, 2), slice(1, None), ...,
)  # fmt: skip
KEYS = (
    0,
    -1,
    -2,
    1,
    1.5,
    "k",
    "key",
    b"k",
    None,
    (1, 2),
    (1, ("a", 2.5)),
    Kind.B,
    Rank.HIGH,
    2**61 - 1,
    2**200,
    Thing,
)

Maker = Callable[[Any, list[Any], int], Any]


def picked(world: Any, objects: list[Any], b: int) -> Any:
    """One of the objects that are there: an alias."""
    del world
    return objects[b % len(objects)]


def thing_of(world: Any, objects: list[Any], b: int) -> Thing:
    """One of the things that are there, or a new one."""
    things = [one for one in objects if isinstance(one, Thing)]
    return things[b % len(things)] if things else Thing(world.born())


def key_of(world: Any, objects: list[Any], b: int) -> Any:
    """A key for a dict; some are objects that are hashed by identity."""
    if b % 4 == 0:
        return thing_of(world, objects, b)
    if b % 8 == 1:
        return (Cell(b % 3, "k"), Tile(b % 3), Point(b % 3, Tile(b % 3)))[b % 3]
    return KEYS[b % len(KEYS)] if b % 4 < 3 else b


def member_of(b: int) -> Any:
    """A member of a set: numbers and tuples that collide in various ways."""
    return (b % 40, b * 1024, (b % 9, b % 7), -(b % 3), (b % 50) / 2, 2**61 - 1 + b % 3)[b % 6]


def _array(b: int) -> Any:
    dtype = ("f8", "i8", "u1", "?", "U3", "c16", "f4", "M8[s]", ">i4")[b % 9]
    array = np.arange(b % 12).astype("i8").astype(dtype)
    if b % 4 == 1:
        array = np.asfortranarray(array.repeat(2).reshape(2, -1))
    array.flags.writeable = b % 5 != 4
    return array


def _view(objects: list[Any], b: int) -> Any:
    arrays = [one for one in objects if type(one) is np.ndarray] or [np.zeros((3, 4))]
    array = arrays[b % len(arrays)]
    return (array[b % 3 :], array[::-1], array.T, array.reshape(-1)[::2], array[..., None])[b % 5]


def _cycle(b: int) -> Any:
    cycle = itertools.cycle((b, 2, 3))
    for _ in range(b % 5):
        next(cycle)
    return cycle


def _advanced(iterator: Any, b: int) -> Any:
    for _ in range(b % 3):
        next(iterator, None)
    return iterator


def _with_its_list(b: int) -> list[Any]:
    """A list and its iterator, in some cases at a place that the list no longer has."""
    items = [b, 1, 2, 3]
    iterator = iter(items)
    list(itertools.islice(iterator, 3 - b % 2))
    del items[1 + b % 4 :]
    return [items, iterator]


def _list_of(objects: list[Any], b: int) -> list[Any]:
    lists = [one for one in objects if type(one) is list]
    return lists[b % len(lists)] if lists else [b, 2, 3]


def _narrow(kind: Any, o: Any, b: int) -> Any:
    made = kind(o)
    if b % 2:
        made.b = b
    if kind is Narrower:
        made.c = made
    return made


def _generator(b: int) -> Any:
    bits = (np.random.PCG64, np.random.MT19937, np.random.Philox, np.random.SFC64, np.random.PCG64DXSM)[b % 5]
    return np.random.Generator(bits(b))


def _held_by_target(world: Any) -> Any:
    """A weak reference to an object that dies when the world takes another target."""
    world.target = Thing(world.born())
    return weakref.ref(world.target)


def _ring(world: Any, b: int) -> Thing:
    thing = Thing(world.born(), b)
    thing.near = [thing, (thing,)]
    return thing


FEATURES: dict[str, list[Maker]] = {
    "basic": [
        lambda _, __, b: ATOMS[b % len(ATOMS)],
        lambda _, __, b: (True, 1, 1.0, -0.0, 0, False, 0.0)[b % 7],
        picked,
        picked,
        lambda w, o, b: (1, picked(w, o, b)),
        lambda _, __, b: b * 1000 + 7,
        lambda _, __, b: b / 3,
        lambda _, __, b: f"{b}s",
        lambda w, _, b: Thing(w.born(), b),
        lambda w, _, b: Special(w.born(), b),
        lambda w, _, b: _ring(w, b),
        lambda w, o, b: [b, picked(w, o, b)],
        lambda w, o, b: {b: picked(w, o, b), "k": b},
        lambda *_: None,
    ],
    "containers": [
        lambda w, o, b: deque([picked(w, o, b), b], maxlen=(None, 2, 3)[b % 3]),
        lambda w, o, b: defaultdict((list, int, Thing, None)[b % 4], {1: [picked(w, o, b)]}),
        lambda *_: Counter("hello"),
        lambda w, o, b: OrderedDict([(b, 1), ("z", picked(w, o, b)), (key_of(w, o, b), 2)]),
        lambda _, __, b: bytearray(b"abc" * (b % 3)),
        lambda w, o, b: Point(picked(w, o, b), (picked(w, o, b + 1),)),
        lambda w, o, b: Size(b, picked(w, o, b)),
    ],
    "values": [
        lambda _, __, b: MEMBERS[b % len(MEMBERS)],
        lambda _, __, b: NUMBERS[b % len(NUMBERS)],
        lambda _, __, b: RARE[b % len(RARE)],
    ],
    "dataclasses": [
        lambda _, __, b: Data(b / 7),
        lambda w, o, b: Data(b, [picked(w, o, b)]),
        lambda w, o, b: Cell(b, picked(w, o, b)),
        lambda _, __, b: [Tile(b % 3), Tile(b % 3), Cell(b % 3), Cell(b % 3)],
        lambda _, __, b: {Tile(b % 3): Cell(b % 2), Cell(b % 3): (Tile(b % 3), Tile(b % 3))},
        lambda _, __, b: {Tile(x % 5, b % 3) for x in range(b % 9)},
        lambda _, __, b: [Cell(b % 3, frozenset({Tile(b % 5), Tile(b % 3)})), frozenset({Cell(1, frozenset())})],
        lambda _, __, b: (Point(b % 3, Tile(b % 2)), Size(b % 3), (b % 3, Cell(b % 2))),
        lambda w, o, b: Slim(b, picked(w, o, b)),
        lambda w, o, b: Made(b, picked(w, o, b)),
        lambda _, __, b: Loose(b),
        lambda w, o, b: Fixed(b, picked(w, o, b)),
    ],
    "slots": [
        lambda w, o, b: _narrow(Narrow, picked(w, o, b), b),
        lambda w, o, b: _narrow(Narrower, picked(w, o, b), b),
        lambda w, o, b: _narrow(Half, picked(w, o, b), b),
    ],
    "sets": [
        lambda _, __, b: {b * 8, 3, 16, (b, 2)},
        lambda _, __, b: {(x, y) for x in range(b % 7) for y in range(4)},
        lambda _, __, b: set(map(member_of, range(b, b + b % 30))),
        lambda _, __, b: {b % 50},
        lambda _, __, b: frozenset({b % 5, 6, 7}),
    ],
    "text_sets": [lambda _, __, b: frozenset({"x", str(b)})],
    "teams": [lambda w, o, b: Team({thing_of(w, o, b)})],
    "arrays": [lambda _, __, b: _array(b), lambda _, o, b: _view(o, b), lambda _, o, b: _view(o, b)],
    "randoms": [
        lambda _, __, b: random.Random(b),
        lambda _, __, b: np.random.default_rng(b),
        lambda _, __, b: _generator(b),
        lambda _, __, b: np.random.RandomState(b),
    ],
    "iterators": [
        lambda _, __, b: itertools.count(b, 2),
        lambda _, __, b: itertools.count(b / 4, 0.5),
        lambda _, __, b: itertools.repeat(b, b % 5) if b % 2 else itertools.repeat(b),
        lambda _, __, b: _cycle(b),
        lambda _, o, b: _advanced(iter(_list_of(o, b)), b),
        lambda _, __, b: _with_its_list(b),
        lambda _, o, b: _advanced(reversed(_list_of(o, b)), b),
        lambda w, o, b: _advanced(iter((1, picked(w, o, b), 2.5)), b),
        lambda _, __, b: _advanced(iter(range(b, b + 6)), b),
        lambda _, __, b: _advanced(iter(dict.fromkeys(range(b % 6))), b),
        lambda _, __, b: _advanced(iter("text"), b),
    ],
    "functions": [
        lambda w, o, b: thing_of(w, o, b).act,
        lambda _, __, b: (halve, double, len, Thing, Special, Point, Kind, int, dict)[b % 9],
    ],
    "weak": [
        lambda w, _, __: _held_by_target(w),
        lambda w, o, b: weakref.ref(thing_of(w, o, b)),
        lambda w, _, __: weakref.ref(Thing(w.born())),
    ],
    "defaults": [lambda w, _, b: Spare(w.born(), b), lambda w, o, b: [Spare(w.born()), picked(w, o, b)]],
    "singletons": [lambda _, __, b: (WALL, MISSING)[b % 2], lambda *_: [WALL, WALL, MISSING]],
    "reshape": [],  # Its changes are in changes.py: another __class__, another __dict__.
}
MAKERS = [maker for makers in FEATURES.values() for maker in makers]


def makers_of(features: frozenset[str]) -> list[int]:
    """The numbers of the makers of these features: the basic ones, and as many others."""
    basic: list[int] = []
    others: list[int] = []
    start = 0
    for name, makers in FEATURES.items():
        numbers = range(start, start + len(makers))
        start += len(makers)
        if name == "basic":
            basic += numbers
        elif name in features:
            others += numbers
    return basic + others * max(1, len(basic) // max(1, len(others)))


WEAK_MAKERS = frozenset(makers_of(frozenset({"weak"}))) - frozenset(makers_of(frozenset()))
