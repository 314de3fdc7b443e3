"""The surroundings of a simulation are captured without touching it, named, restored and given to copies."""

from __future__ import annotations

import collections
import ctypes
import functools
import itertools
import os
import random
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import leaky_worlds
import numpy as np
import pytest

from recorder.ambient.ambient_diff import find_candidates, words_between
from recorder.ambient.object_walk import take_ambient
from recorder.ambient.roots import Roots
from recorder.ambient.transplant import Transplant
from recorder.ambient.value_kinds import same_leaf


class Kept(leaky_worlds.One):
    """Keeps one value of every kind."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        self.number = seed
        self.listed = [seed, [seed]]
        self.named = {"a": seed, "b": {"c": seed}}
        self.chosen = {seed, 10}
        self.queue = collections.deque([seed], maxlen=5)
        self.raw = bytearray([seed])
        self.array = np.full(3, seed)
        self.objects = np.array([[seed], None], dtype=object)
        self.pair = (seed, [seed])
        self.random = random.Random(seed)
        self.generator = np.random.Generator(np.random.SFC64(seed))
        self.legacy = np.random.RandomState(seed)
        self.me = self
        self.inner = Slotted(seed)
        self.again = self.inner

    @property
    def bomb(self) -> int:
        """A property that must not be read."""
        raise AssertionError


class Slotted:
    """An object without a dict."""

    __slots__ = ("empty", "value")

    def __init__(self, value: int) -> None:
        self.value = [value]


NAMES = ["number", "listed", "named", "chosen", "queue", "raw", "array", "objects", "pair", "random", "generator"]
NAMES += ["legacy", "inner.value"]


def ambient_of(simulation: Any) -> Any:
    """The ambient of one simulation."""
    return take_ambient(Roots(type(simulation)), simulation)


def test_every_kind_of_value_is_compared_and_named() -> None:
    """Two instances with different seeds differ in all of them; equal ones, or one instance captured twice, in none."""
    first = ambient_of(Kept(1))
    differing = {candidate.name for candidate in find_candidates(first, ambient_of(Kept(2)))}

    assert differing == {f"Kept.{name}" for name in NAMES}
    assert find_candidates(first, ambient_of(Kept(1))) == []


CAMP = {"fire": 1}
TENT = leaky_worlds.One()
MAKERS: list[Callable[[], Any]] = [
    lambda: 0,
    lambda: None,
    lambda: "text",
    lambda: b"",
    lambda: (),
    lambda: ([1], 2),
    lambda: ("iterator", "list"),
    lambda: [1, 2],
    lambda: [2, 1],
    lambda: {"a": 1},
    lambda: {"b": [1], "a": 2},
    lambda: {1, 2},
    lambda: {"x"},
    lambda: frozenset({3}),
    lambda: collections.deque([1]),
    lambda: iter([1, 2]),
    lambda: itertools.count(3),
    lambda: (number for number in (1, 2)),
    lambda: weakref.ref(TENT),
    lambda: weakref.WeakSet([TENT]),
    lambda: weakref.WeakValueDictionary({"a": TENT}),
    lambda: weakref.WeakKeyDictionary({TENT: 1}),
    lambda: bytearray(b"a"),
    lambda: np.zeros(2),
    lambda: np.zeros((), bool),
    lambda: np.array([[1], None], dtype=object),
    lambda: random.Random(1),
    lambda: np.random.default_rng(1),
    lambda: np.random.RandomState(1),
    lambda: Slotted(4),
    lambda: Slotted,
    lambda: functools.partial(len, [1]),
    lambda: functools.lru_cache(len),
    lambda: lambda: CAMP,
    lambda: [1].append,
    lambda: NotImplemented,
]


@pytest.mark.parametrize("place", [lambda value: value, lambda value: [value], lambda value: {"k": value}])
def test_a_value_of_any_kind_against_any_other_is_named(place: Callable[[Any], Any]) -> None:
    """An attribute may change its type: nothing raises, and the name is right."""
    ambients, kept = [], []
    for make in MAKERS:
        kept.append(leaky_worlds.One())
        kept[-1].held = place(make())  # type: ignore[attr-defined]
        ambients.append(ambient_of(kept[-1]))
    for live, copy in itertools.permutations(ambients, 2):
        candidates = find_candidates(live, copy)
        assert all(one.name.startswith("One.held") and one.detail for one in candidates), candidates


def test_a_long_chain_of_tuples_is_followed_only_so_far() -> None:
    """In a set, or as an attribute: the copy's own step was said to have raised a RecursionError."""
    chain: Any = ()
    for number in range(5_000):
        chain = (number, chain)
    for held in (chain, {chain}):
        kept = leaky_worlds.One()
        kept.held = held  # type: ignore[attr-defined]
        assert not ambient_of(kept).is_complete


def test_capturing_changes_nothing() -> None:
    """The state, own and global generators, and kept values stay as they were."""
    kept = Kept(3)
    before, hash_before = ambient_of(kept), kept.state.hash()
    draws = random.getstate(), np.random.get_state()[2]  # noqa: NPY002
    for _ in range(3):
        assert find_candidates(before, ambient_of(kept)) == []
    assert kept.state.hash() == hash_before
    assert (random.getstate(), np.random.get_state()[2]) == draws  # noqa: NPY002


def test_a_copy_gets_all_that_it_lacks_and_keeps_its_own_objects() -> None:
    """After the transplant no value differs; aliases and references to itself are the copy's own."""
    live, copy = Kept(1), Kept(2)
    theirs, ours = ambient_of(live), ambient_of(copy)
    mine = {name: getattr(copy, name) for name in ("listed", "array", "generator", "inner")}
    live.random.random()  # The live run continues.
    live.listed[1].append(7)
    transplant = Transplant(theirs, ours, copy.state)
    for candidate in find_candidates(theirs, ours):
        for path in candidate.paths:
            transplant.give(path)

    assert find_candidates(theirs, ambient_of(copy)) == []
    assert copy.listed == [1, [1]]
    assert copy.me is copy
    assert copy.again is copy.inner
    assert copy.listed[1] is not live.listed[1]
    assert copy.pair[1] is not live.pair[1]
    for name, one in mine.items():
        assert getattr(copy, name) is one


def test_a_value_that_a_copy_lacks_is_created() -> None:
    """An attribute that only the live run has is created; one that only the copy has is deleted."""
    live, copy = Kept(1), Kept(1)
    live.extra = extra = [{"a": [1]}, np.arange(3), random.Random(5), (live, 2)]  # type: ignore[attr-defined]
    copy.superfluous = 3  # type: ignore[attr-defined]
    theirs, ours = ambient_of(live), ambient_of(copy)
    transplant = Transplant(theirs, ours, copy.state)
    for candidate in find_candidates(theirs, ours):
        for path in candidate.paths:
            transplant.give(path)

    made = copy.extra  # type: ignore[attr-defined]
    assert not hasattr(copy, "superfluous")
    assert (made[0], made[1].tolist(), made[2].random()) == ({"a": [1]}, [0, 1, 2], random.Random(5).random())
    assert made[3] == (copy, 2)
    assert made[0]["a"] is not extra[0]["a"]


def test_surroundings_are_restored_in_place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Globals and their contents, class attributes, closures, defaults, generators, the environment, the folder."""
    monkeypatch.setattr(leaky_worlds, "COUNTER", 5)
    monkeypatch.chdir(tmp_path)
    roots = Roots(leaky_worlds.MutableDefault)
    calls = leaky_worlds.CALLS
    before = take_ambient(roots, None)
    expected = random.random(), np.random.random()  # noqa: NPY002
    before.put_back()

    leaky_worlds.COUNTER = 9
    leaky_worlds.NEW = 1  # type: ignore[attr-defined]
    calls["x"] = 1
    leaky_worlds.ClassAttribute.total = 4
    leaky_worlds.FunctionAttribute.draw.calls = 2  # type: ignore[attr-defined]
    leaky_worlds.ClosureCell().draw()  # type: ignore[call-arg]
    leaky_worlds.MutableDefault().draw()
    os.environ["LEAKY_COUNT"] = "3"
    os.chdir("/")
    random.random()
    np.random.random()  # noqa: NPY002
    moved = {candidate.name for candidate in find_candidates(before, take_ambient(roots, None))}
    before.put_back()

    assert moved == {
        "module leaky_worlds: COUNTER",
        "module leaky_worlds: NEW",
        "module leaky_worlds: CALLS",
        "ClassAttribute.total",
        "FunctionAttribute.draw.calls",
        "ClosureCell.draw: drawn",
        "MutableDefault.draw: gathered",
        "os.environ['LEAKY_COUNT']",
        "current folder",
        "random",
        "np.random",
    }
    assert find_candidates(before, take_ambient(roots, None)) == []
    assert (leaky_worlds.COUNTER, leaky_worlds.CALLS is calls, calls) == (5, True, {})
    assert Path.cwd() == tmp_path
    assert (random.random(), np.random.random()) == expected  # noqa: NPY002


def test_a_function_may_have_more_defaults_than_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    """As decorators leave it that copy the defaults of the function inside; a call pairs them from the end."""

    def draw(last: Any = None) -> Any:
        return last

    gathered: list[int] = []
    draw.__defaults__ = (1, 2, gathered)
    assert draw() is gathered
    monkeypatch.setattr(leaky_worlds, "draw", draw, raising=False)
    before = take_ambient(Roots(leaky_worlds.MutableDefault), None)
    gathered.append(3)
    moved = {one.name for one in find_candidates(before, take_ambient(Roots(leaky_worlds.MutableDefault), None))}
    before.put_back()
    assert {name for name in moved if "draw" in name} == {"module leaky_worlds: draw: last"}
    assert gathered == []


@pytest.mark.parametrize("count", [0, 1, 2, 623, 624, 625, 5000])
def test_words_drawn_are_counted_exactly(count: int) -> None:
    """Between two states of the random module's generator, from any position."""
    generator = random.Random(7)
    generator.getrandbits(32)
    before = generator.getstate()
    for _ in range(count):
        generator.getrandbits(32)

    assert words_between(before, generator.getstate()) == count


def test_more_words_than_are_counted_are_not_guessed() -> None:
    """The state of a different generator is at no distance in words."""
    assert words_between(random.Random(1).getstate(), random.Random(2).getstate()) is None


def test_leaves_are_compared_to_the_bit() -> None:
    """Types, signs of zero and the order of sets matter; a NaN equals itself."""
    assert same_leaf((1, [2.0]), (1, [2.0]))
    assert same_leaf(float("nan"), float("nan"))
    assert same_leaf(np.float32(1), np.float32(1))
    assert not same_leaf(1, True)
    assert not same_leaf(0.0, -0.0)
    assert not same_leaf((1, 2), (2, 1))
    assert not same_leaf((1,), (1, 2))
    assert not same_leaf(np.float32(1), np.float64(1))
    assert not same_leaf((1, 2), (True, 2))


def test_objects_of_libraries_in_globals_are_not_walked() -> None:
    """Of installed packages, only the classes of the simulation's own objects are inspected."""
    roots = Roots(Kept)
    assert {"numpy", "random", "pytest", "sim.kernel.state"}.isdisjoint(roots.modules)
    assert "leaky_worlds" in roots.modules


class Tabled(leaky_worlds.One):
    """Keeps a table of tables."""

    def __init__(self, *rates: int) -> None:
        super().__init__()
        self.rates = {name: {"up": rate, "down": rate + 1} for name, rate in zip("abc", rates, strict=True)}


def test_differing_entries_are_counted_over_all_dicts_of_a_name() -> None:
    """Five of six values: it read "and 1 more like it, and 2 more like it"."""
    first, second = Tabled(1, 2, 3), Tabled(5, 6, 8)
    second.rates["c"]["down"] = first.rates["c"]["down"]
    [candidate] = find_candidates(ambient_of(first), ambient_of(second))
    assert candidate.detail == "['a'] ['up'] 1 in the live run, 5 for the copy, and 4 more like it"


class Queued(leaky_worlds.One):
    """Keeps objects in a list, and what comes next in a deque."""

    def __init__(self, *numbers: int) -> None:
        super().__init__()
        self.waiting = [Slotted(number) for number in numbers]
        self.next = collections.deque([[0], [1]])


@pytest.mark.parametrize("numbers", [(3, 1, 2), (3, 2, 2), (1, 2), (1, 2, 3)])
def test_a_list_of_equal_objects_in_another_order_is_told_as_that(numbers: tuple[int, ...]) -> None:
    """And not as other attributes; other objects are. A copy gets the order of the live run."""
    copy = Queued(1, 2, 3)
    first, second = ambient_of(Queued(*numbers)), ambient_of(copy)
    candidates = find_candidates(first, second)
    orders = [(one.name, one.kind, one.detail) for one in candidates if one.kind.startswith("order")]
    expected = [("Queued.waiting", "order of a list", "the same 3 items, in another order")]
    assert orders == (expected if numbers == (3, 1, 2) else [])
    assert bool(candidates) == (numbers != (1, 2, 3))
    for candidate in candidates:
        for path in candidate.paths:
            Transplant(first, second, copy.state).give(path)
    assert [one.value for one in copy.waiting] == [[number] for number in numbers]


class Routed(leaky_worlds.One):
    """Keeps ways by their goals, and what it knows of its objects by their addresses."""

    def __init__(self, *goals: tuple[int, ...]) -> None:
        super().__init__()
        self.units = [Slotted(1), Slotted(2)]
        self.ways = {goal: [goal] for goal in goals}
        self.hunger = {id(one): 70 for one in self.units} if goals else {id(self.ways): 70, 5: 6}


def test_keys_are_told_and_neither_their_types_nor_addresses() -> None:
    """Tuples of numbers; and numbers that are the addresses of objects, by the paths of these."""
    first, second = ambient_of(Routed((1, 2), (3, 4))), ambient_of(Routed())
    details = {one.name: one.detail for one in find_candidates(first, second)}
    assert details["Routed.ways"] == "[(1, 2), (3, 4)] in the live run, 0 entries for the copy"
    by_address = "[id(Routed.units[0])] 70 in the live run, absent for the copy, and 2 more like it"
    assert details["Routed.hunger"] == f"{by_address}; its keys are addresses of objects"
    details = {one.name: one.detail for one in find_candidates(first, ambient_of(Routed((1, 2), (5, 4))))}
    assert details["Routed.ways"] == "key (3, 4) in the live run only, key (5, 4) for the copy only"
    same = "the same values for the same objects, which have other addresses"
    assert details["Routed.hunger"] == f"{same}; its keys are addresses of objects"


def counted(function: Callable[..., Any]) -> Any:
    """A decorator without functools.wraps."""

    def inner(*arguments: Any) -> Any:
        inner.calls += 1  # type: ignore[attr-defined]
        return function(*arguments)

    inner.calls = 0  # type: ignore[attr-defined]
    return inner


class Counted(leaky_worlds.One):
    """Two methods that one decorator replaced."""

    @counted
    def open(self) -> None:
        """Open."""

    @counted
    def shut(self) -> None:
        """Shut."""


def test_a_function_that_a_decorator_made_has_the_name_that_the_class_gives_it() -> None:
    """The second one was "Counted.inner no. 2"."""
    first = ambient_of(Counted())
    Counted().shut()
    assert {one.name for one in find_candidates(first, ambient_of(Counted()))} == {"Counted.shut.calls"}


class Leaf:
    def __init__(self, number: int, kept: Any) -> None:
        self.number, self.kept = number, kept


class Rounded(float):
    """Shown with one digit."""

    def __repr__(self) -> str:
        return f"{self:.1f}"


class EmptyToSee(list[Any]):
    def __iter__(self) -> Iterator[Any]:
        return iter(())


class Book(leaky_worlds.One):
    def __init__(self, leaves: list[Leaf]) -> None:
        super().__init__()
        self.leaves = leaves


def _numbers(last: int) -> Any:
    """More numbers than a text of them shows."""
    return (ctypes.c_int * 300)(*[0] * 299, last)


@pytest.mark.parametrize("kept", [_numbers, lambda number: Rounded(number / 100)], ids=["ctypes", "a class of its own"])
def test_a_list_is_in_another_order_only_if_its_items_are_equal_in_all_that_they_hold(
    kept: Callable[[int], Any],
) -> None:
    first = Book([Leaf(0, kept(1)), Leaf(1, kept(2))])
    moved, changed = (Book([Leaf(1, kept(two)), Leaf(0, kept(one))]) for one, two in ((1, 2), (3, 4)))
    kinds = [{one.kind for one in find_candidates(ambient_of(first), ambient_of(other))} for other in (moved, changed)]
    assert kinds[0] == {"order of a list"}
    assert "order of a list" not in kinds[1]
    assert kinds[1]


def test_the_items_of_a_list_that_shows_others_than_it_holds_are_compared_place_by_place() -> None:
    books = [Book(EmptyToSee(Leaf(number, None) for number in numbers)) for numbers in ((0, 1), (1, 0))]
    kinds = {one.kind for one in find_candidates(*map(ambient_of, books))}
    assert "order of a list" not in kinds
