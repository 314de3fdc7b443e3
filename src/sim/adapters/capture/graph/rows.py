"""The mutable objects of one kind, and what they hold now, read at C speed.

A group is all objects of one class with the same attributes, or all lists, dicts, … of one kind. ``read`` returns all
values that its objects hold, one object after another, as one tuple: two such tuples are compared by identity.

The attributes of an object are read without its ``__dict__``: asking for that would make a dict for each object, which
slows the user's own program down for good. Where the class knows of no other names, the garbage collector names all
values in one call (see referents). Elsewhere, new attributes show in the number of objects that the collector sees,
removed ones as an AttributeError; or, where the class has a value of the same name, in the object's memory.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Collection, Sequence
from gc import get_referents
from itertools import chain
from operator import attrgetter, is_, itemgetter
from typing import Any

import numpy as np

from sim.adapters.capture.graph.names.attribute_names import hidden_names, names_of, read_slowly, reader_of, slot_names
from sim.adapters.capture.graph.referents import AttributeOrder, items_of
from sim.adapters.capture.graph.storage import Integers
from sim.kernel.memory.object_memory import Values
from sim.kernel.memory.own_attributes import OwnWatch, own_attributes

_flat = chain.from_iterable
# Where more than this part of the objects have a dict, they are not put between the others one by one. The first object
# of a group has one: it was asked for its names.
_DICTS_SHARE = 8
_dict_of = attrgetter("__dict__")


LISTS: dict[str, type] = {"list": list, "deque": deque}
DICTS: dict[str, type] = {"dict": dict, "OrderedDict": OrderedDict, "defaultdict": defaultdict, "Counter": Counter}


class StrayError(Exception):
    """Objects of a group no longer have the group's class or attributes."""


class ListRows:
    """Lists or deques."""

    def __init__(self) -> None:
        self.objects: list[Any] = []

    def set_objects(self, objects: list[Any]) -> None:
        """Replace the objects."""
        self.objects = objects

    def insert(self, at: list[int], objects: list[Any]) -> None:
        """Insert objects before these rows, which ascend."""
        self.objects = inserted(self.objects, at, objects)

    def remove(self, rows: list[int]) -> None:
        """Remove these rows, which ascend."""
        self.objects = removed(self.objects, rows)

    def lengths(self) -> list[int]:
        """The number of values of each object."""
        return list(map(len, self.objects))

    def read(self) -> Values:
        """All values."""
        return items_of(self.objects, type(self.objects[0]) if self.objects else list)

    def read_of(self, one: Any) -> Values:
        """The values of one object."""
        return tuple(one)


class DictRows(ListRows):
    """Dicts: for each its keys, then its values."""

    def lengths(self) -> list[int]:
        """Twice the number of items of each dict."""
        return [2 * count for count in map(len, self.objects)]

    def read(self) -> Values:
        """All keys and values."""
        return tuple(_flat([half for one in self.objects for half in (one, one.values())]))

    def read_of(self, one: Any) -> Values:
        """The keys, then the values of one dict."""
        return (*one, *one.values())


class ContentRows(ListRows):
    """The content of objects whose classes are derived from list, dict, …: read by the methods of the base alone."""

    def __init__(self, base: type) -> None:
        super().__init__()
        self._base: Any = base

    def lengths(self) -> list[int]:
        """The number of cells of each object."""
        factor = 2 if issubclass(self._base, dict) else 1
        return [1 + factor * self._base.__len__(one) for one in self.objects]

    def read(self) -> Values:
        """The objects, each followed by what it holds."""
        return tuple(_flat(map(self.read_of, self.objects)))

    def read_of(self, one: Any) -> Values:
        """One object, and what it holds; of a dict its keys, then its values."""
        if issubclass(self._base, dict):
            keys = tuple(self._base.__iter__(one))
            return (one, *keys, *(dict.__getitem__(one, key) for key in keys))
        return (one, *self._base.__iter__(one))


class ObjectRows:
    """Objects of one class with the same attributes.

    Attributes:
        cls: the class.
        names: of the attributes, in the order of the class (see in_order).
    """

    def __init__(self, cls: type, names: Sequence[str], ignored: frozenset[str] = frozenset()) -> None:
        """ignored: names of attributes of this class that are not saved."""
        self.cls, self.names, self._ignored = cls, tuple(names), ignored
        self.objects: list[Any] = []
        self._classes = {cls}
        self._reader = reader_of(cls, self.names)
        self._counts: list[int] = []
        self._dicts: list[Any] = []  # Of objects whose dict exists; they hold the attributes in it.
        self._with_dict: list[Any] = []
        self._dict_rows: list[int] = []
        self._dict_sizes: list[int] = []
        self._without_dict: list[Any] | None = None  # Found when it is needed.
        self._get = _getter(self.names, attrgetter)
        slots = slot_names(cls)
        # With one name, or with slots beside a dict, the number of references does not tell a dict from its values.
        is_counted = not cls.__dictoffset__ or (len(self.names) > 1 and not slots)
        hidden = hidden_names(cls, self.names) if self._reader == "names" else []
        self._own = own_attributes(cls, hidden) if hidden and is_counted else None
        self._watch: OwnWatch | None = None  # Of the objects without a dict; made when it is needed.
        self._get_hidden: Callable[[Any], Any] | None = itemgetter(*hidden) if hidden else None
        is_counted = is_counted and (not hidden or self._own is not None)
        self.by_names = self._reader == "names" and is_counted
        of_dict = cls.__dictoffset__ and not slots and len(self.names) > 1
        self._get_item = itemgetter(*self.names) if of_dict else None
        self._order = AttributeOrder.of(cls, self.names, slots) if self.by_names else None

    def set_objects(self, objects: list[Any]) -> None:
        """Replace the objects."""
        self.objects = objects
        self._expect()

    def insert(self, at: list[int], objects: list[Any]) -> None:
        """Insert objects before these rows, which ascend."""
        self.objects = inserted(self.objects, at, objects)
        counts = list(map(len, map(get_referents, objects))) if self.by_names else []
        if not self.by_names or counts.count(len(self.names) + 1) != len(counts):
            self._expect()
            return
        self._watch = self._without_dict = None
        self._counts = inserted(self._counts, at, counts)
        self._dict_rows = [row + bisect_right(at, row) for row in self._dict_rows]

    def remove(self, rows: list[int]) -> None:
        """Remove these rows, which ascend."""
        self.objects = removed(self.objects, rows)
        if not self.by_names or not set(rows).isdisjoint(self._dict_rows):
            self._expect()
            return
        self._watch = self._without_dict = None
        self._counts = removed(self._counts, rows)
        self._dict_rows = [row - bisect_right(rows, row) for row in self._dict_rows]

    def _expect(self) -> None:
        """Note how the objects look to the garbage collector now, all having the attributes of the group."""
        objects = self.objects
        self._watch = self._without_dict = None
        self._counts = list(map(len, map(get_referents, objects)))
        self._dict_rows = []
        if self.cls.__dictoffset__:
            inline = len(self.names) + 1 if self.by_names else -1
            self._dict_rows = [row for row, count in enumerate(self._counts) if count != inline]
        self._with_dict = [objects[row] for row in self._dict_rows]
        self._dicts = list(map(_dict_of, self._with_dict))
        self._dict_sizes = list(map(len, self._dicts))
        if self._with_dict:  # Some of these dicts may have been made just now, in place of the values.
            self._counts = list(map(len, map(get_referents, objects)))

    def lengths(self) -> list[int]:
        """The number of attributes, for each object."""
        return [len(self.names)] * len(self.objects)

    def read(self) -> Values:
        """All values. Raises StrayError if an object no longer has the class or the attributes of the group."""
        if self._order is not None and len(self._dict_rows) * _DICTS_SHARE <= len(self.objects):
            found = self._read_together(self._order)
            if found is not None:
                return found
        objects = self.objects
        if not set(map(type, objects)) <= self._classes or not self._have_their_dicts():
            raise StrayError
        if self._get_item is not None and not self.by_names:
            try:
                return tuple(_flat(map(self._get_item, self._dicts)))
            except KeyError:
                raise StrayError from None
        if list(map(len, map(get_referents, objects))) != self._counts:
            raise StrayError
        if self._get_hidden is not None and not self._have_hidden(self._get_hidden):
            raise StrayError
        if not self.by_names or len(self.names) < 2:
            return tuple(_flat(map(self.read_of, objects)))
        try:
            return tuple(_flat(map(self._get, objects)))
        except AttributeError:
            raise StrayError from None

    def _read_together(self, order: AttributeOrder) -> Values | None:
        """All values; None if some object may have changed in another way than by its values."""
        if self._without_dict is None:
            self._without_dict = removed(self.objects, self._dict_rows) if self._dict_rows else self.objects
        found, width = order.read(self._without_dict), len(self.names)
        if found is None:
            return None
        if self._dict_rows:
            if not set(map(type, self._with_dict)) <= self._classes or not self._have_their_dicts():
                return None
            get_item: Any = self._get_item
            try:
                for row, attributes in zip(self._dict_rows, self._dicts, strict=True):
                    found[row * width : row * width] = get_item(attributes)
            except KeyError:
                return None
        return tuple(found)

    def _have_their_dicts(self) -> bool:
        """Return True if the objects with a dict have the same one as before, of the same size."""
        return not self._with_dict or (
            all(map(is_, map(_dict_of, self._with_dict), self._dicts))
            and list(map(len, self._dicts)) == self._dict_sizes
        )

    def _have_hidden(self, get_hidden: Callable[[Any], Any]) -> bool:
        """Return True if the objects have the attributes that their class has, too: asked for them, it would answer."""
        try:
            list(map(get_hidden, self._dicts))
        except KeyError:
            return False
        if self._own is None or self._own.are_all_of(len(self.names)) or len(self._with_dict) == len(self.objects):
            return True
        if self._watch is None:
            inline = len(self.names) + 1
            found = [one for one, count in zip(self.objects, self._counts, strict=True) if count == inline]
            self._watch = OwnWatch(self._own, found if self._with_dict else self.objects)
        return self._watch.holds()

    def read_of(self, one: Any) -> Values:
        """The values of one object. Raises StrayError for one with other attributes."""
        try:
            if self._reader == "names":
                values = self._get(one)
                return values if len(self.names) != 1 else (values,)
            return read_slowly(one, self.names)
        except (AttributeError, KeyError):
            raise StrayError from None

    def has_dict_among(self, addresses: Collection[int]) -> bool:
        """Return True if the dict of an object has one of these identities."""
        return any(id(one) in addresses for one in self._dicts)

    def strays(self) -> list[int]:
        """The rows of objects with another class or other attributes; the others count as they are from now on.

        Only objects that look different are asked for their names, since that makes a dict for each.
        """
        wanted = frozenset(self.names)
        found = [
            row
            for row in self._suspects()
            if type(self.objects[row]) is not self.cls
            or frozenset(names_of(self.objects[row])) - self._ignored != wanted
        ]
        self._expect()
        return found

    def _suspects(self) -> list[int]:
        """The rows of objects that look different from before."""
        objects = self.objects
        if not self.by_names or len(self.names) < 2:
            return list(range(len(objects)))
        rows = [row for row, one in enumerate(objects) if type(one) is not self.cls]
        counts = list(map(len, map(get_referents, objects)))
        rows += [row for row, (now, before) in enumerate(zip(counts, self._counts, strict=True)) if now != before]
        inline = len(self.names) + 1
        for row, one in enumerate(objects):
            if counts[row] != inline or not self._has_all(one):
                rows.append(row)
        return sorted(set(rows))

    def fits(self, one: Any) -> bool:
        """Return True if an object of the class surely has just these attributes, without making a dict for it."""
        return self.by_names and len(get_referents(one)) == len(self.names) + 1 and self._has_all(one)

    def _has_all(self, one: Any) -> bool:
        """Return True if an object of the class, which refers to as many values as the group has names, has these."""
        try:
            self._get(one)
        except AttributeError:
            return False
        return self._own is None or self._own.are_all_of(len(self.names)) or self._own.are_in(one)


def inserted(present: list[Any], at: list[int], new: list[Any]) -> list[Any]:
    """A list with each new item before its index; indexes ascend."""
    if not at or at[0] == len(present):
        return present + new
    made: list[Any] = []
    last = 0
    for index, item in zip(at, new, strict=True):
        made += present[last:index]
        made.append(item)
        last = index
    made += present[last:]
    return made


def removed(present: list[Any], at: list[int]) -> list[Any]:
    """A list without the items at these indexes, which ascend."""
    made: list[Any] = []
    last = 0
    for index in at:
        made += present[last:index]
        last = index + 1
    made += present[last:]
    return made


def _getter(names: Sequence[str], getter: Any) -> Callable[[Any], Any]:
    return getter(*names) if names else lambda _: ()


def as_lengths(lengths: list[int]) -> Integers:
    """The lengths as an array."""
    return np.array(lengths, np.int64)
