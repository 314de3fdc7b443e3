"""The classes of the objects in random graphs: one for each way in which Python code defines classes."""

from __future__ import annotations

import enum
from collections import namedtuple
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import attrs


class Thing:
    """An ordinary object. uid: its number of birth, by which sets of things are compared."""

    def __init__(self, uid: int, n: Any = 0) -> None:
        self.uid = uid
        self.n = n
        self.near: Any = None

    def act(self) -> Any:
        self.n = 7
        return self.near


class Special(Thing):
    """A subclass with a default on the class, and a method that overrides one."""

    bag: Any = ()

    def act(self) -> Any:
        self.n = -7
        return self


class Spare(Thing):
    """Attributes that come and go, with defaults on the class: what an object lacks can be read all the same."""

    near: Any = None
    extra0: Any = None
    extra1: Any = ()


@dataclass
class Data:
    x: float = 0.0
    bag: list[Any] = field(default_factory=list)


@dataclass(frozen=True)
class Cell:
    """Equal by value, so that it is a key as numbers are; equal ones are still different objects."""

    x: int
    y: Any = 0


@dataclass(frozen=True, slots=True)
class Tile:
    """The same, of two numbers in slots: its hash is the same in every process."""

    x: int
    y: int = 0


@dataclass(slots=True)
class Slim:
    x: Any = 0
    y: Any = None


class Narrow:
    """Attributes in slots; b may be unset."""

    __slots__ = ("__weakref__", "a", "b")

    def __init__(self, a: Any) -> None:
        self.a = a


class Narrower(Narrow):
    """Slots in two classes."""

    __slots__ = ("c",)


class Half(Narrow):
    """Slots of the base class, and a __dict__."""

    def __init__(self, a: Any) -> None:
        super().__init__(a)
        self.near = a


@attrs.define(eq=False)
class Made:
    x: Any = 0
    near: Any = None


@attrs.define(slots=False)
class Loose:
    x: Any = 0
    bag: list[Any] = attrs.field(factory=list)


@attrs.frozen
class Fixed:
    x: int = 0
    near: Any = None


class Team:
    """Things in a set, by identity. A step adds, discards and asks ``in``; it never depends on their order."""

    def __init__(self, members: set[Thing]) -> None:
        self.members = members


class Kind(enum.Enum):
    A = 1
    B = "b"


class Rank(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Marks(enum.Flag):
    RED = 1
    BLUE = 2


Point = namedtuple("Point", "x y")  # noqa: PYI024 - both ways of defining one occur


class Size(NamedTuple):
    width: Any
    height: Any = 1


class Wall:
    """The class of WALL: of which there is one, in the module."""


WALL = Wall()
MISSING = object()
SINGLETONS = {"WALL": WALL, "MISSING": MISSING}


def halve(n: Any) -> Any:
    """A function that is a value in graphs."""
    return n


def double(n: Any) -> Any:
    """Another one."""
    return n


OBJECTS = (Thing, Data, Cell, Tile, Slim, Narrow, Made, Loose, Fixed, Team)  # Subclasses included.
