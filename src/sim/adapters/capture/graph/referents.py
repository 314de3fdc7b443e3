"""What many objects hold, read in one call: what the garbage collector sees of them.

The collector names the values of an object's attributes, in the order of the class's table of names, and then the class;
or the object's dict in place of its values, where it has one. So from the references of many objects at once it is known
whether all of them have all attributes, without a look at each.

Facts about CPython that this module relies on, and tests when it is first used:
    1. Of an object of a Python class, the class is the last reference.
    2. The items of a list are named from the last to the first, those of a deque from the first to the last.
    3. An object that has a dict refers to that alone, and to its class; from Python 3.13 on, to its values and its class,
       as long as the dict has them in the object.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from gc import get_referents
from itertools import chain, repeat
from operator import is_
from typing import Any, Self

import attrs

from sim.kernel.memory.object_memory import Values, identities, pointers_are_known
from sim.kernel.memory.own_attributes import OwnAttributes, own_attributes

_LOOP_MAX = 200  # Up to here a loop at C speed is faster than three calls of NumPy.
_NAMES_MIN = 2  # An object with a dict and one with a single attribute have as many references.


@attrs.frozen(eq=False)
class AttributeOrder:
    """Where the references of the objects of a class are those to its attributes.

    Attributes:
        cls: the class.
        places: for each name its place among the references; None if they come in the order of the names.
        own: tells whether the class knows of no other names; None for a class whose objects have slots alone.
    """

    cls: type
    count: int
    places: Sequence[int] | None
    own: OwnAttributes | None

    @classmethod
    def of(cls, kind: Any, names: Sequence[str], slots: Sequence[str]) -> Self | None:
        """Learn it; None if it cannot be known. slots: all slots of the class.

        An object is made and thrown away, without any code of the class.
        """
        if len(names) < _NAMES_MIN or not _dicts_are_known():
            return None
        own = None
        if kind.__dictoffset__:
            own = None if slots else own_attributes(kind, names)
            if own is None or not own.are_all_of(len(names)):
                return None
        elif sorted(names) != sorted(slots) or hasattr(kind, "__del__"):
            return None
        values = [_Probe() for _ in names]
        try:
            probe = object.__new__(kind)
            for name, value in zip(names, values, strict=True):
                object.__setattr__(probe, name, value)
        except (TypeError, AttributeError):  # Abstract, derived from a class of C, or a slot that another one hides.
            return None
        seen = list(map(id, get_referents(probe)))
        if sorted(seen) != sorted([*map(id, values), id(kind)]) or seen[-1] != id(kind):
            return None
        places = [seen.index(id(value)) for value in values]
        return cls(kind, len(names), None if places == sorted(places) else places, own)

    def read(self, objects: Sequence[Any]) -> list[Any] | None:
        """The values of all attributes, object by object; None if an object may have another class or other attributes."""
        found, count = get_referents(*objects), self.count
        # No object has more of them than there are names, and its class: so each one has just as many.
        if len(found) != (count + 1) * len(objects):
            return None
        if self.own is not None and not self.own.are_all_of(count):
            return None
        if not _are_all(found[count :: count + 1], self.cls):
            return None
        del found[count :: count + 1]
        if self.places is None:
            return found
        ordered = found.copy()
        for place, source in enumerate(self.places):
            ordered[place::count] = found[source::count]
        return ordered


def items_of(containers: Sequence[Any], kind: type) -> Values:
    """The items of lists or deques, one container after the other. kind: list or deque."""
    if kind is list and _lists_are_known():
        found = get_referents(*containers[::-1])
        found.reverse()
        return tuple(found)
    return tuple(chain.from_iterable(containers))


def _are_all(values: list[Any], one: Any) -> bool:
    """Return True if all values are this very object; values that are equal to it are not."""
    if len(values) <= _LOOP_MAX:
        return all(map(is_, values, repeat(one)))
    held = tuple(values)  # It must outlive the view of its memory.
    return bool((identities(held) == id(one)).all())


class _Probe:
    """A value like no other."""


@functools.cache
def _lists_are_known() -> bool:
    values = [_Probe() for _ in range(5)]
    return list(map(id, get_referents(values[:2], values[2:]))) == [id(values[at]) for at in (1, 0, 4, 3, 2)]


@functools.cache
def _dicts_are_known() -> bool:
    if not pointers_are_known():
        return False
    probe: Any = _Probe()
    probe.first, probe.second = values = [_Probe(), _Probe()]
    made = vars(probe)
    found = list(map(id, get_referents(probe)))
    return found in ([id(made), id(_Probe)], [*map(id, values), id(_Probe)])
