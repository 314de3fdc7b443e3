"""The interface of a special kind: the state of a mutable object made by C code, as plain data and parts.

Such objects have no attributes that could be compared. Their state is taken each tick.

Rules of every kind:
    1. Equal states give equal plain data, in every process and in every version of Python that is supported.
    2. take changes nothing that a simulation can see; it consumes no element.
    3. make and finish raise ValueError for plain data or parts that take does not give, because a tape is not trusted.
       They call no method of a user's class.
"""

from __future__ import annotations

import gc
from collections.abc import Sequence
from typing import Any, Protocol, TypeVar

Plain = Any  # None, bool, int of any size, float, str, bytes, and lists of these.


Part = TypeVar("Part")


class SpecialKind(Protocol):
    """One kind of object.

    Attributes:
        name: on the tape.
        is_weak: the object keeps only those of its parts alive that strong_parts returns.
    """

    @property
    def name(self) -> str:
        """The name of the kind on a tape."""

    @property
    def is_weak(self) -> bool:
        """True if the object does not keep all its parts alive."""

    def take(self, value: Any) -> tuple[Plain, tuple[Any, ...]]:
        """The state of value: plain data, and the objects that it refers to, in order. Raises UnsavableError."""

    def strong_parts(self, plain: Plain, parts: Sequence[Part]) -> Sequence[Part]:
        """Those of the parts that the object keeps alive."""

    def make(self, plain: Plain, parts: Sequence[Any]) -> Any:
        """A new object. Its parts are made already, but containers among them may still be empty."""

    def finish(self, value: Any, plain: Plain, parts: Sequence[Any]) -> None:
        """Complete value when all containers have their contents."""


class StrongKind:
    """The attributes that most kinds have in common: parts are kept alive, and nothing is left to finish."""

    is_weak = False

    def strong_parts(self, plain: Plain, parts: Sequence[Part]) -> Sequence[Part]:
        """All parts."""
        del plain
        return parts

    def finish(self, value: Any, plain: Plain, parts: Sequence[Any]) -> None:
        """Do nothing: the object was complete when it was made."""


class Identities:
    """Objects that are compared by identity, and kept alive for that."""

    def __init__(self, objects: list[Any]) -> None:
        self._objects = objects

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Identities) and list(map(id, self._objects)) == list(map(id, other._objects))

    __hash__ = None  # type: ignore[assignment]


def is_a(value: Any, kind: type | tuple[type, ...]) -> bool:
    """isinstance by the type alone: isinstance may ask the value for its class, which calls a method of its own."""
    return issubclass(type(value), kind)


def wrong_data(name: str) -> ValueError:
    """The error for data of a tape that no object of this kind gives."""
    return ValueError(f"expected the state of a {name}, got other data")


def held_by(value: Any) -> list[Any]:
    """The objects that value refers to, in the order of its fields, without its type."""
    held = gc.get_referents(value)
    if type(value).__flags__ & HEAP_TYPE:  # Instances of heap types refer to their type, those of static types do not.
        del held[next(number for number, one in enumerate(held) if one is type(value))]
    return held


HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE
