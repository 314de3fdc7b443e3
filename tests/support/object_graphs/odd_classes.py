"""Classes and graphs that are hard to capture, each for one case."""

from __future__ import annotations

import enum
import itertools
import random
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np

from object_graphs.classes import Half, Spare, Thing
from object_graphs.pitfalls import Subject


class Counting:
    """Counts the calls that a restore must not make."""

    calls: ClassVar[int] = 0

    def __init__(self, value: Any = 0) -> None:
        type(self).calls += 1
        self.value = value

    def __setstate__(self, state: Any) -> None:
        raise AssertionError("a restore called __setstate__")

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise AssertionError("a capture called __reduce_ex__")


class Strict:
    """Refuses attributes that are set from outside."""

    def __init__(self) -> None:
        vars(self)["value"] = 1

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{name} cannot be set")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{name} cannot be deleted")


class Asking:
    """Answers every attribute that is missing, and raises for some, as a proxy does."""

    def __init__(self) -> None:
        self.value = 1

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise RuntimeError(f"{name} was asked for")
        return 7

    @property
    def broken(self) -> Any:
        raise RuntimeError("a property was read")


class Grumpy:
    """Cannot be compared, hashed, measured, shown or iterated."""

    def __init__(self) -> None:
        self.value = 1

    def _refuse(self, *_: Any) -> Any:
        raise RuntimeError("a capture called a method of the user's class")

    __eq__ = __ne__ = __len__ = __bool__ = __iter__ = __contains__ = __repr__ = __str__ = __getitem__ = _refuse
    __hash__ = None  # type: ignore[assignment]


class Raising:
    """An attribute that raises when it is read, whatever the way."""

    def __init__(self) -> None:
        self.value = 1

    def __getattribute__(self, name: str) -> Any:
        if name == "value":
            raise RuntimeError("value cannot be read")
        return super().__getattribute__(name)


class OfItsOwn:
    """Made in another way than other objects."""

    made: ClassVar[list[Any]] = []

    def __new__(cls, key: int) -> Self:
        one = super().__new__(cls)
        one.key = key  # type: ignore[attr-defined]
        return one


class Mortal:
    """Notes its death on its world."""

    def __init__(self, world: Any) -> None:
        self.world = world

    def __del__(self) -> None:
        self.world.deaths = getattr(self.world, "deaths", 0) + 1


class Lone:
    """One attribute, of which the class has a value, too."""

    near: Any = None

    def __init__(self, _: int = 0) -> None:
        self.near = None


class HalfSpare(Half):
    """Slots beside a dict, and a default for what is in the dict."""

    near: Any = None


class Ending(Spare):
    """Its end could be seen."""

    def __del__(self) -> None:
        pass


class Bag(list[Any]):
    """A list with attributes."""


class Table(dict[Any, Any]):
    def __missing__(self, key: Any) -> Any:
        return f"no {key}"


class Text(str):
    __slots__ = ()


class Hashed:
    """It hashes by an attribute that may change."""

    def __init__(self, x: int) -> None:
        self.x, self.near = x, None

    def __hash__(self) -> int:
        return self.x

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Hashed) and self.x == other.x


def with_stale_key() -> Any:
    """A dict that does not find its key, and the key."""
    key = Hashed(1)
    held = {key: 1}
    key.x = 2
    return [key, held]


class Token(str):
    """A text that is equal to no other object."""

    __slots__ = ()
    __eq__ = object.__eq__
    __hash__ = object.__hash__


class Trail(deque):  # type: ignore[type-arg]
    """A deque with a method of its own."""

    def last(self) -> Any:
        """The newest element."""
        return self[-1]


class Shared:
    """State on the class."""

    count: ClassVar[int] = 0


class Chain:
    def __init__(self, inner: Any) -> None:
        self.inner = inner


class Turned(Subject):
    """What the subject becomes."""


class Mode(enum.Enum):
    OFF = 0
    ON = enum.auto()


def chain(depth: int) -> Any:
    """A linked list of objects."""
    one = None
    for _ in range(depth):
        one = Chain(one)
    return one


@dataclass(frozen=True)
class Knot:
    """Hashes by its number; what it is tied to may hold itself."""

    x: int
    tied: Any = field(default=None, compare=False)


def knot(x: int) -> Knot:
    """A frozen object in the frozenset that it refers to."""
    one = Knot(x)
    object.__setattr__(one, "tied", frozenset({one}))
    return one


def nested(depth: int, wrap: Any) -> Any:
    """Containers in containers."""
    one: Any = 1
    for _ in range(depth):
        one = wrap(one)
    return one


def depth_of(one: Any) -> int:
    """The depth of either, and the value inside."""
    depth = 0
    while isinstance(one, Chain | list | tuple | dict | frozenset):
        one = one.inner if isinstance(one, Chain) else one["k"] if isinstance(one, dict) else next(iter(one))
        depth += 1
    return depth + (0 if one is None else one)


def shuffled(elements: Iterable[Any]) -> set[Any]:
    """A set from which half of the elements have gone and come back."""
    made = set(elements)
    gone = [made.pop() for _ in range(len(made) // 2)]
    made.update(reversed(gone))
    return made


def shuffled_set() -> set[Any]:
    """A set whose table has seen other members."""
    rng = random.Random(5)
    one = {(x, y) for x in range(12) for y in range(12)}
    for _ in range(300):
        key = (rng.randrange(20), rng.randrange(20))
        one.discard(key) if rng.random() < 0.6 else one.add(key)
    return one


def cut_iterator() -> Any:
    """An iterator at the third place of a list of one."""
    items = [1, 2, 3]
    iterator = iter(items)
    list(itertools.islice(iterator, 3))
    del items[1:]
    return [items, iterator]


def memory_of_two() -> Any:
    base = np.arange(12.0)
    return [base[2:8], base[4:], base.reshape(3, 4)[:, 1]]


def two_of_one_source() -> Any:
    bits = np.random.PCG64(3)
    return [np.random.Generator(bits), np.random.Generator(bits)]


def ring() -> Any:
    one: list[Any] = [1]
    one.append((one, {"k": one}))
    return one


def identity_set() -> Any:
    things = [Thing(uid) for uid in range(20)]
    return [things, set(things[::2])]


class Router:
    def __init__(self) -> None:
        self.route: Any = None
