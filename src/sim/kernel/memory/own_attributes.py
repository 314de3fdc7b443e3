"""Which attributes objects have themselves, and do not only have by their class; without a ``__dict__`` for each.

``getattr`` gives the value of the class for an attribute that an object lacks. To ask an object for its dict makes one,
which slows the user's own program down for good. So it is read from memory whether an object has an attribute.

Facts about CPython that this module relies on, and tests with an instance of each class:
    1. The attributes of an object that has no dict are an array of addresses, 0 for one that the object lacks. In all
       objects of a class an attribute has the same place in it.
    2. Python 3.11: the fourth word before an object is the address of the array, 0 if the object has a dict.
       Python 3.12: the third word before an object is that address minus 1, or the address of a dict, which is even.
       Python 3.13: the array lies behind the object, and a word before it, whose fourth byte is 0 if it does not count.
    3. A class has a table of the names that its arrays have places for. It only grows. In the class, its address follows
       that of the qualified name; the fourth word of the table is the number of names.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from typing import Any, cast

import attrs
import numpy as np

from sim.kernel.memory.object_memory import all_memory, identities, pointers_are_known

_MANAGED_DICT, _INLINE_VALUES = 1 << 4, 1 << 2  # Flags of types.
_ATTRIBUTES_MAX = 30  # That objects of a class can have without a dict.
_WORD_BITS = 3  # The index of a word in all memory is its address divided by 8, minus 1.

FindArray = Callable[[Any, Any], Any]


@attrs.frozen(eq=False)
class OwnAttributes:
    """Where the objects of one class have some of their attributes.

    Attributes:
        places: of these attributes in the array.
        head: the distance from an object to the word that leads to its array, in words.
        find_array: from that word and its index in memory the index of the array; 0 or less if there is none. Takes
            numbers, or arrays of them.
        names_at: the index in memory of the number of names; 0 if it is not known.
    """

    places: tuple[int, ...]
    head: int
    find_array: FindArray
    names_at: int = 0

    def are_all_of(self, count: int) -> bool:
        """Return True if the arrays have only so many places: an object without a dict has no attributes but these."""
        return self.names_at > 0 and bool(_words()[self.names_at] == count)

    def are_in(self, one: Any) -> bool:
        """Return True if this object of the class surely has all of these attributes itself."""
        array, words = self.array_of(one), _words()
        return array > 0 and all(map(words.__getitem__, [array + place for place in self.places]))

    def array_of(self, one: Any) -> int:
        """The index in memory of an object's array; 0 or less if it has none."""
        head = (id(one) >> _WORD_BITS) + self.head - 1
        return int(self.find_array(_words()[head], head))


class OwnWatch:
    """Some objects, watched: do all of them still have their own attributes?

    They must be alive, and have no dict, each time that this is asked: an object keeps its array as long as it has none.
    """

    def __init__(self, own: OwnAttributes, objects: Sequence[Any]) -> None:
        held = tuple(objects)
        heads = (identities(held) >> _WORD_BITS) + (own.head - 1)
        arrays = own.find_array(all_memory().take(heads), heads)
        self._have_arrays = np.count_nonzero(arrays > 0) == len(held)
        self._indexes = arrays + own.places[0] if len(own.places) == 1 else np.add.outer(own.places, arrays)

    def holds(self) -> bool:
        """Return True if each object surely has all of these attributes itself."""
        if not self._have_arrays:
            return False
        return bool(np.count_nonzero(all_memory().take(self._indexes)) == self._indexes.size)


def own_attributes(cls: Any, names: Sequence[str]) -> OwnAttributes | None:
    """Learn where the objects of a class have these attributes, which are not in slots; None if that is not known.

    An instance is made and thrown away, without any code of the class; not of one that sees the end of its objects.
    """
    way = _way_of(cls)
    if (
        way is None
        or hasattr(cls, "__del__")
        or len(names) > _ATTRIBUTES_MAX
        or any(_is_set(cls, name) for name in names)
    ):
        return None
    try:
        without, probe = object.__new__(cls), object.__new__(cls)
        values = [object() for _ in names]
        for name, value in zip(names, values, strict=True):
            object.__setattr__(probe, name, value)
    except (TypeError, AttributeError):  # Abstract, derived from a class of C, or with an attribute of its own kind.
        return None
    names_at = _find_name_count(cls) if _name_counts_are_known() else 0
    found = attrs.evolve(way, places=_places_of(way, probe, values), names_at=names_at)
    is_right = len(found.places) == len(names) and not any(
        attrs.evolve(way, places=(place,)).are_in(without) for place in found.places
    )
    return found if is_right else None


def _is_set(cls: Any, name: str) -> bool:
    """Return True if code of the class, such as a property's, would set this attribute."""
    found = next((vars(base)[name] for base in cls.__mro__ if name in vars(base)), None)
    return hasattr(type(found), "__set__")


def _places_of(way: OwnAttributes, probe: Any, values: Sequence[Any]) -> tuple[int, ...]:
    """The places of these values in an object's array; fewer if not all are there."""
    words, array = _words(), way.array_of(probe)
    wanted, found = set(map(id, values)), dict[int, int]()
    for place in range(_ATTRIBUTES_MAX if array > 0 else 0):
        if len(found) == len(wanted):
            break  # The array may end here.
        if words[array + place] in wanted:
            found[words[array + place]] = place
    return tuple(found[id(value)] for value in values if id(value) in found)


def _find_name_count(cls: Any) -> int:
    """The index in memory of the number of names in the table of a class; 0 if it is not found."""
    start, words, name = (id(cls) >> _WORD_BITS) - 1, _words(), id(cls.__qualname__)
    class_bytes = cast("int", type.__basicsize__)
    for at in range(start + (class_bytes >> _WORD_BITS) - 2, start, -1):
        if words[at] == name:
            table = words[at + 1]
            return (table >> _WORD_BITS) + 2 if table > 0 and table & 7 == 0 else 0
    return 0


@functools.cache
def _name_counts_are_known() -> bool:
    class Probe:
        """It gets an attribute after the other, in one object and in another."""

    at, one, found = _find_name_count(Probe), Probe(), []
    for number in range(4 if at else 0):
        found.append(_words()[at])
        setattr(one if number else Probe(), f"probed{number}", None)
    return found == [0, 1, 2, 3]


def _way_of(cls: Any) -> OwnAttributes | None:
    """How the arrays of the objects of a class are found in this Python; None if they have none, or it is not known."""
    if not cls.__flags__ & _MANAGED_DICT or not pointers_are_known():
        return None
    match sys.version_info[:2]:
        case (3, 11):
            return OwnAttributes((), -4, _by_address)
        case (3, 12):
            return OwnAttributes((), -3, _by_tagged_address)
        case (3, 13) if cls.__flags__ & _INLINE_VALUES:
            return OwnAttributes((), cls.__basicsize__ >> _WORD_BITS, _behind)
    return None


def _by_address(word: Any, _: Any) -> Any:
    return (word >> _WORD_BITS) - 1


def _by_tagged_address(word: Any, _: Any) -> Any:
    return ((word + 1 >> _WORD_BITS) - 1) * (word & 7 == 7)


def _behind(word: Any, at: Any) -> Any:
    return (at + 1) * (word & 0xFF << 24 != 0)


@functools.cache
def _words() -> Any:
    """All memory behind the first word, for reading single words."""
    return all_memory().data
