"""The digest of values: equal for equal objects, different for every difference that a later step could notice."""

from __future__ import annotations

import array
import collections
import copy
import enum
import fractions
import gc
import itertools
import os
import random
import struct
import subprocess
import sys
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.adapters.capture.digest.value_digest import ValueSubject, digest_values, first_difference, image_of


class Bag:
    """An object with the attributes that it is given."""

    def __init__(self, **held: Any) -> None:
        vars(self).update(held)


class Unit:
    """An object that keeps its attributes without a dict."""

    def __init__(self, hp: Any, path: Any = None) -> None:
        self.hp = hp
        self.path = path


class Slotted:
    __slots__ = ("__hidden", "x")

    def __init__(self, x: Any, hidden: Any) -> None:
        self.x, self.__hidden = x, hidden


class Items(list[Any]):
    """A list with attributes."""


class Color(enum.Enum):
    RED = 1
    BLUE = 2


Pair = collections.namedtuple("Pair", "a b")  # noqa: PYI024 - this kind is tested


def digest(value: Any, **options: Any) -> bytes:
    return digest_values(ValueSubject({"root": value}, **options)).digest


def calling(make: Callable[..., Any], *values: Any) -> Any:
    return make(*values)


def shared(first: Any, second: Any) -> dict[str, Any]:
    return {"a": first, "b": second}


def array_of(*numbers: float, dtype: str = "f8") -> np.ndarray[Any, Any]:
    return np.array(numbers, dtype)


def views_of_one() -> Any:
    base = np.arange(6.0)
    return [base[1:3], base[2:4]]


def other_views_of_one() -> Any:
    base = np.arange(6.0)
    return [base[1:3], base[2:4].copy()]


def advanced(iterator: Any, steps: int) -> Any:
    for _ in range(steps):
        next(iterator)
    return iterator


def drawn(generator: Any, half_words: int) -> Any:
    generator.integers(0, 1 << 20, half_words, dtype=np.uint32)
    return generator


def in_history(*elements: Any) -> set[Any]:
    """A set to which the elements were added in this order."""
    made: set[Any] = set()
    for element in elements:
        made.add(element)
    return made


def watched(target: Any, *, alive: bool) -> Any:
    bag = Bag(target=target, other=Unit(1))
    bag.reference = weakref.ref(bag.target if alive else bag.other)  # type: ignore[attr-defined]
    return bag


def nan_with(payload: int) -> float:
    return float(struct.unpack("<d", struct.pack("<Q", 0x7FF8_0000_0000_0000 | payload))[0])


_ONE: list[Any] = [1]
_SELF: list[Any] = []
_SELF.append(_SELF)
_TWO: list[Any] = [[]]
_TWO[0].append(_TWO)

DIFFERENT: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
    "true and one": (lambda: [True], lambda: [1]),
    "one and one point zero": (lambda: [1, 2.0], lambda: [1, 2]),
    "signs of zero": (lambda: [0.0, "x"], lambda: [-0.0, "x"]),
    "signs of zero in a list of floats": (lambda: [0.0, 1.0], lambda: [-0.0, 1.0]),
    "payloads of nan": (lambda: nan_with(1), lambda: nan_with(2)),
    "complex zeros": (lambda: complex(0.0, -0.0), lambda: complex(0.0, 0.0)),
    "text and bytes": (lambda: "a", lambda: b"a"),
    "bytes and bytearray": (lambda: b"a", lambda: bytearray(b"a")),
    "list and tuple": (lambda: [1, 2], lambda: (1, 2)),
    "nesting": (lambda: [[1], 2], lambda: [[1, 2]]),
    "texts that look alike": (lambda: ["a", "b"], lambda: ["a', 'b"]),
    "tuples in tuples": (lambda: ((1,), 2), lambda: ((1, 2),)),
    "deep in tuples": (lambda: (1, (2, (3, (4,)))), lambda: (1, (2, (3, (5,))))),
    "long tuples": (lambda: tuple(range(100)), lambda: (*range(99), 0)),
    "namedtuple and tuple": (lambda: Pair(1, 2), lambda: (1, 2)),
    "one list twice": (lambda: shared(_ONE, _ONE), lambda: shared([1], [1])),
    "a cycle and a longer one": (lambda: _SELF, lambda: _TWO),
    "order of a dict": (lambda: {1: 0, 2: 0}, lambda: {2: 0, 1: 0}),
    "keys and values": (lambda: {1: 2, 3: 4}, lambda: {1: 3, 2: 4}),
    "order of an ordered dict": (
        lambda: collections.OrderedDict([(1, 0), (2, 0)]),
        lambda: calling(lambda made: (made.move_to_end(1), made)[1], collections.OrderedDict([(1, 0), (2, 0)])),
    ),
    "factory": (lambda: collections.defaultdict(int), lambda: collections.defaultdict(list)),
    "maxlen": (lambda: collections.deque([1], 2), lambda: collections.deque([1], 3)),
    "counter and dict": (lambda: collections.Counter({"a": 1}), lambda: {"a": 1}),
    "a subclass and its attributes": (
        lambda: calling(lambda made: (setattr(made, "x", 1), made)[1], Items([1])),
        lambda: calling(lambda made: (setattr(made, "x", 2), made)[1], Items([1])),
    ),
    "items of a subclass": (lambda: Items([1]), lambda: Items([2])),
    "an attribute's value": (lambda: Unit(1), lambda: Unit(2)),
    "an attribute more": (lambda: Bag(x=1), lambda: Bag(x=1, y=1)),
    "an attribute of another name": (lambda: Bag(x=1), lambda: Bag(y=1)),
    "a class": (lambda: Unit(1, 2), lambda: Bag(hp=1, path=2)),
    "slots": (lambda: Slotted(1, 2), lambda: Slotted(1, 3)),
    "a slot that is not set": (lambda: Slotted.__new__(Slotted), lambda: Slotted(None, None)),
    "enum members": (lambda: Color.RED, lambda: Color.BLUE),
    "classes": (lambda: Unit, lambda: Bag),
    "functions": (lambda: digest, lambda: shared),
    "methods of two objects": (
        lambda: calling(lambda one, two: [one, two, one.append], [], []),
        lambda: calling(lambda one, two: [one, two, two.append], [], []),
    ),
    "numpy numbers of two types": (lambda: np.int32(1), lambda: np.int64(1)),
    "numpy number and float": (lambda: np.float64(1), lambda: 1.0),
    "dtype": (lambda: array_of(1, 2), lambda: array_of(1, 2, dtype="f4")),
    "shape": (lambda: np.zeros((2, 3)), lambda: np.zeros((3, 2))),
    "elements": (lambda: array_of(1, 2), lambda: array_of(1, 3)),
    "signs of zero in arrays": (lambda: array_of(0.0), lambda: array_of(-0.0)),
    "order of axes": (lambda: np.ones((2, 3)), lambda: np.asfortranarray(np.ones((2, 3)))),
    "memory of views": (views_of_one, other_views_of_one),
    "memory of a buffer": (
        lambda: calling(lambda held: [held, np.frombuffer(held, "u1")], bytearray(4)),
        lambda: [bytearray(4), np.frombuffer(bytearray(4), "u1")],
    ),
    "fields of structured arrays": (lambda: np.zeros(2, "i4,i4"), lambda: np.zeros(2, "i4,f4")),
    "arrays of objects": (lambda: np.array([None, 1], object), lambda: np.array([None, True], object)),
    "array.array": (lambda: array.array("i", [1]), lambda: array.array("l", [1])),
    "set": (lambda: {1, 2}, lambda: {1, 3}),
    "order of a set of numbers": (lambda: in_history(0, 8), lambda: in_history(8, 0)),
    "order of a set of pairs": (
        lambda: in_history(*itertools.product(range(13), range(13))),
        lambda: in_history(*reversed(list(itertools.product(range(13), range(13))))),
    ),
    "set and frozenset": (lambda: {1}, lambda: frozenset([1])),
    "sets of objects": (lambda: {Unit(1), Unit(2)}, lambda: {Unit(1), Unit(3)}),
    "an object in a set and elsewhere": (
        lambda: calling(lambda one, two: [one, two, {one}], Unit(1), Unit(1)),
        lambda: calling(lambda one, two: [one, two, {two}], Unit(1), Unit(1)),
    ),
    "fractions": (lambda: fractions.Fraction(1, 3), lambda: fractions.Fraction(1, 4)),
    "random": (lambda: random.Random(1), lambda: random.Random(2)),
    "half a word of a generator": (lambda: np.random.default_rng(1), lambda: drawn(np.random.default_rng(1), 1)),
    "bit generators": (
        lambda: np.random.Generator(np.random.PCG64(1)),
        lambda: np.random.Generator(np.random.PCG64DXSM(1)),
    ),
    "one bit generator for two": (
        lambda: calling(lambda bits: [np.random.Generator(bits), np.random.Generator(bits)], np.random.PCG64(1)),
        lambda: [np.random.Generator(np.random.PCG64(1)), np.random.Generator(np.random.PCG64(1))],
    ),
    "legacy generators": (lambda: np.random.RandomState(1), lambda: np.random.RandomState(2)),
    "list iterators": (lambda: iter([1, 1]), lambda: advanced(iter([1, 1]), 1)),
    "dict iterators": (lambda: iter({1: 2, 3: 4}), lambda: advanced(iter({1: 2, 3: 4}), 1)),
    "count": (lambda: itertools.count(1), lambda: advanced(itertools.count(0), 2)),
    "repeat": (lambda: itertools.repeat("a", 3), lambda: advanced(itertools.repeat("a", 3), 1)),
    "weak references": (lambda: watched(Unit(1), alive=True), lambda: watched(Unit(1), alive=False)),
    "exceptions": (lambda: ValueError("a"), lambda: ValueError("b")),
}


@pytest.mark.parametrize("name", DIFFERENT)
def test_values_that_a_step_could_tell_apart_have_different_digests(name: str) -> None:
    """Each alone, inside a list, and as an attribute; and each of them equals itself when it is made again."""
    first, second = DIFFERENT[name]
    for around in (lambda value: value, lambda value: [None, value], lambda value: Unit(value, value)):
        assert digest(around(first())) == digest(around(first())), "made twice"
        assert digest(around(first())) != digest(around(second()))
    ours, theirs = ValueSubject({"game": Unit([0, first()])}), ValueSubject({"game": Unit([0, second()])})
    path = first_difference(ours, theirs)
    assert path is not None
    assert path.startswith("game.hp[1]")


EQUAL: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
    "one tuple twice": (lambda: calling(lambda one: [one, one], (1, 2)), lambda: [(1, 2), tuple([1, 2])]),  # noqa: C409
    "a nested tuple twice": (lambda: calling(lambda one: [one, one], (1, (2,))), lambda: [(1, (2,)), (1, tuple([2]))]),  # noqa: C409
    "a text twice": (lambda: ["ab" * 40] * 2, lambda: ["ab" * 40, "".join(["ab"] * 40)]),
    "texts in sets": (lambda: set("abcdef"), lambda: set("fedcba")),
    "a lone view": (lambda: np.arange(6.0).reshape(2, 3), lambda: np.arange(6.0).reshape(2, 3).copy()),
    "a strided lone view": (lambda: np.arange(6.0)[::2], lambda: np.array([0.0, 2.0, 4.0])),
    "objects in sets": (lambda: {Unit(n, [n]) for n in range(20)}, lambda: {Unit(n, [n]) for n in reversed(range(20))}),
    "friends in sets": (
        lambda: calling(lambda one, two: (setattr(one, "hp", two), {one, two})[1], Unit(1), Unit(2)),
        lambda: calling(lambda two, one: (setattr(one, "hp", two), {two, one})[1], Unit(2), Unit(1)),
    ),
    "an attribute set in another order": (lambda: Bag(x=1, y=2), lambda: Bag(y=2, x=1)),
    "with and without a dict": (lambda: Unit(1), lambda: calling(lambda one: (vars(one), one)[1], Unit(1))),
}


@pytest.mark.parametrize("name", EQUAL)
def test_values_that_no_step_can_tell_apart_have_equal_digests(name: str) -> None:
    first, second = EQUAL[name]
    assert digest(first()) == digest(second())
    assert first_difference(ValueSubject({"game": first()}), ValueSubject({"game": second()})) is None


def test_a_path_names_the_first_value_that_differs() -> None:
    one, two = ({"units": [Unit(n, {"x": [n, n]}) for n in range(20)]} for _ in range(2))
    two["units"][14].path["x"][1] = 14.0
    assert (
        first_difference(ValueSubject({"game": one}), ValueSubject({"game": two})) == "game['units'][14].path['x'][1]"
    )
    two = {"units": one["units"][:-1]}
    assert first_difference(ValueSubject({"game": one}), ValueSubject({"game": two})) == "game['units']"


def test_a_list_of_objects_that_was_sorted_is_named_as_that() -> None:
    """Its objects are the same ones: no value of any of them has changed. Two that exchanged their values have."""
    units = [Unit(n, [n]) for n in (5, 3, 4)]
    game = {"crew": [Unit(1, None)], "fleet": Bag(units=units, queue=collections.deque(units))}
    subject = ValueSubject({"game": game})
    before = image_of(subject)
    assert first_difference(subject, before) is None
    game["fleet"].units.sort(key=lambda one: one.hp)  # type: ignore[attr-defined]
    assert first_difference(subject, before) == "order of game['fleet'].units"
    game["fleet"].units[:] = game["fleet"].queue  # type: ignore[attr-defined]
    assert first_difference(subject, before) is None
    game["fleet"].queue.rotate(1)  # type: ignore[attr-defined]
    assert first_difference(subject, before) == "order of game['fleet'].queue"
    game["fleet"].queue.rotate(-1)  # type: ignore[attr-defined]
    units[0].hp, units[1].hp = units[1].hp, units[0].hp
    assert first_difference(subject, before) == "game['fleet'].queue[0].hp"


def test_roots_that_hold_copies_share_nothing_with_others() -> None:
    """The same array as the state's, or a copy of it: a detached root is digested alone."""
    state = Bag(x=np.arange(4.0))
    live, loaded = Bag(seen=state.x), Bag(seen=state.x.copy())  # type: ignore[attr-defined]
    for detached, equal in ((frozenset({"result"}), True), (frozenset[str](), False)):
        one, two = (
            digest_values(ValueSubject({"result": result, "state": state}, detached=detached))
            for result in (live, loaded)
        )
        assert (one == two) is equal


def test_excluded_attributes_do_not_count() -> None:
    def excluded(holder: object, name: str) -> bool:
        return isinstance(holder, Unit) and name == "path"

    game = [Unit(1, "a"), Unit(2, "b"), Bag(path=3)]
    before = digest(game, excluded=excluded)
    game[1].path = [game]  # type: ignore[union-attr]
    assert digest(game, excluded=excluded) == before
    game[2].path = 4  # type: ignore[union-attr]
    assert digest(game, excluded=excluded) != before


def test_objects_of_unknown_kinds_are_listed() -> None:
    looked = digest_values(ValueSubject({"game": [memoryview(b"a"), Unit(1), (one for one in "ab"), gc]}))
    assert looked.not_looked_at == ("builtins:generator",)
    dead = weakref.proxy(Unit(1))
    looked = digest_values(ValueSubject({"game": [dead, {1: dead}]}))
    assert looked.not_looked_at == ("weakref:ProxyType",)


@pytest.mark.seldom(0.15)
def test_a_chain_of_a_hundred_thousand_objects_needs_no_recursion() -> None:
    """Neither lists in lists nor tuples in tuples; a tuple that holds itself twice over does not grow."""
    deep: Any = None
    nested: Any = ()
    doubled: Any = ()
    for _ in range(100_000):
        deep, nested, doubled = [deep], (nested, 1), (doubled, doubled)
    assert digest(deep) != digest([deep])
    assert digest(nested) != digest((nested, 1))
    assert digest(doubled) != digest((doubled, doubled))
    while nested:  # Piece by piece: Python frees nested tuples by recursion.
        nested = nested[0]
    while doubled:
        doubled = doubled[0]


def test_the_walk_makes_no_dicts() -> None:
    """An object that keeps its attributes without a dict does so afterwards, so that writes to it stay fast."""
    units = [Unit(n, (n, "x")) for n in range(100)]
    digest(units)
    assert sum(type(gc.get_referents(unit)[0]) is dict for unit in units) <= 1


def test_attributes_that_come_and_go_are_seen_without_dicts() -> None:
    """Against the values in the dicts themselves, for every combination of attributes that are set."""
    names = ("a", "b", "c", "d")
    objects = []
    for chosen in itertools.product((False, True), repeat=len(names)):
        one = Bag.__new__(Bag)
        for name in itertools.compress(names, chosen):
            setattr(one, name, name)
        objects.append(one)
    for ours, theirs in itertools.product(objects, objects):
        fresh = Bag.__new__(Bag)
        for name, value in vars(theirs).items():
            setattr(fresh, name, value)
        equal = vars(ours) == vars(theirs)
        assert (digest([*copy.copy(objects), ours]) == digest([*copy.copy(objects), fresh])) is False
        assert (digest([Bag(a=1), copy.copy(ours)]) == digest([Bag(a=1), fresh])) is equal


class Asked:
    """Its class answers for attributes that its instances do not have, and hides one that they have."""

    asked: list[str] = []  # noqa: RUF012 - of the class

    def __init__(self, **held: Any) -> None:
        vars(self).update(held)

    def __getattr__(self, name: str) -> Any:
        self.asked.append(name)
        return 1

    @property
    def hidden(self) -> int:
        self.asked.append("hidden")
        return 1


def test_no_code_of_the_class_runs() -> None:
    """Attributes are read from the instance: neither ``__getattr__`` nor a property is called."""
    ours, theirs = [Asked(x=1, hidden=2), Asked(y=1, hidden=2)], [Asked(x=1, hidden=2), Asked(y=1, hidden=3)]
    assert digest(ours) != digest(theirs)
    assert first_difference(ValueSubject({"game": ours}), ValueSubject({"game": theirs})) == "game[1].hidden"
    assert Asked.asked == []


PROGRAM = """
import numpy as np
import random
from sim.adapters.capture.digest.value_digest import ValueSubject, digest_values
class Unit:
    def __init__(self, n): self.n, self.tags, self.friends = n, {"a%d" % n, "b", None}, set()
def make():
    units = [Unit(n) for n in range(30)]
    for unit in units: unit.friends = {units[unit.n * 7 % 30], units[unit.n * 11 % 30], Unit(-unit.n)}
    return {"units": units, "names": frozenset("abc"), "kind": Unit, "rng": random.Random(1), "f": make}
def main():
    print(digest_values(ValueSubject({"game": make()}, home=Unit.__module__)).digest.hex())
if __name__ == "__main__": main()
"""


@pytest.mark.seldom(0.15)
def test_a_digest_is_the_same_in_every_process(tmp_path: Path) -> None:
    """Under other hash seeds, and for a class of the main program that is imported elsewhere."""
    (tmp_path / "game_of_test.py").write_text(PROGRAM)
    calls = [["game_of_test.py"], ["-c", "import game_of_test; game_of_test.main()"]]
    printed = {
        subprocess.run(
            [sys.executable, *call],
            cwd=tmp_path,
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for call in calls
        for seed in ("0", "1", "77")
    }
    (one,) = printed
    assert len(one.strip()) == 34


# --- any graph

ATOMS = st.sampled_from(
    [None, True, 1, 0, -1, 1 << 70, 0.0, -0.0, 2.5, float("nan"), "", "a", "ä\ud800", b"a", (1, 2), (), Color.RED, 1j]
)
NODES_MAX = 8
Graph = tuple[list[tuple[str, list[Any]]], list[int]]


@attrs.frozen
class Link:
    """The place of another object."""

    node: int


GRAPHS = st.lists(
    st.tuples(
        st.sampled_from(["list", "dict", "unit", "tuple", "set"]),
        st.lists(ATOMS | st.builds(Link, st.integers(0, NODES_MAX - 1)), max_size=4),
    ),
    min_size=1,
    max_size=NODES_MAX,
)


def built(graph: Any) -> Any:
    """The objects of a graph: each list, dict, object or set of units may refer to each other."""
    made: list[Any] = [
        {"list": list, "dict": dict, "unit": Bag, "tuple": list, "set": Bag}[kind]() for kind, _ in graph
    ]
    for (kind, items), one in zip(graph, made, strict=True):
        values = [made[item.node % len(made)] if isinstance(item, Link) else item for item in items]
        if kind == "list":
            one.extend(values)
        elif kind == "tuple":
            one.append(tuple(values))
        elif kind == "dict":
            one.update(enumerate(values))
        elif kind == "set":
            one.members = {value for value in values if isinstance(value, Bag)}
        else:
            for index, value in enumerate(values):
                setattr(one, f"x{index}", value)
    return made[0]


def spelled(value: Any) -> str:
    """A plain recursive description: the truth to compare with. Only for graphs without sets."""
    numbers: dict[int, int] = {}

    def spell(one: Any) -> str:
        if isinstance(one, tuple):
            return f"({','.join(map(spell, one))})"
        if not isinstance(one, list | dict | Bag):
            return f"{type(one).__name__}:{one!r}"
        if id(one) in numbers:
            return f"#{numbers[id(one)]}"
        numbers[id(one)] = len(numbers)
        if isinstance(one, list):
            return f"[{','.join(map(spell, one))}]"
        held = one if isinstance(one, dict) else dict(sorted(vars(one).items()))
        return f"{type(one).__name__}{{{','.join(f'{key!r}={spell(item)}' for key, item in held.items())}}}"

    return spell(value)


@given(GRAPHS)
def test_a_deep_copy_has_an_equal_digest(graph: Any) -> None:
    value = built(graph)
    assert digest(value) == digest(copy.deepcopy(value)) == digest(built(graph))
    assert first_difference(ValueSubject({"": value}), ValueSubject({"": copy.deepcopy(value)})) is None


@given(GRAPHS, st.data())
def test_a_digest_differs_exactly_if_the_description_differs(graph: Any, data: st.DataObject) -> None:
    """Two graphs, the second one with one change: against a plain recursive description of both."""
    graph = [(kind, items) for kind, items in graph if kind != "set"] or [("list", [])]
    changed = [(kind, list(items)) for kind, items in graph]
    _, items = changed[data.draw(st.integers(0, len(changed) - 1))]
    new = data.draw(ATOMS | st.builds(Link, st.integers(0, NODES_MAX - 1)))
    if items and data.draw(st.booleans()):
        items[data.draw(st.integers(0, len(items) - 1))] = new
    else:
        items.append(new)
    ours, theirs = built(graph), built(changed)
    is_equal = spelled(ours) == spelled(theirs)
    assert (digest(ours) == digest(theirs)) is is_equal
    path = first_difference(ValueSubject({"game": ours}), ValueSubject({"game": theirs}))
    assert (path is None) is is_equal
