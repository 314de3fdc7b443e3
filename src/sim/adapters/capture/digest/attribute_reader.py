"""Read the attributes of an object as they are, without a property, ``__getattr__`` or a new ``__dict__``.

Asking an object for its ``__dict__`` makes one for good in some Pythons, and each later write to the object takes longer.
The names are therefore learned from one instance of a class. The values of the others are read by these names, and
count only if they are exactly the objects that the collector of garbage finds in the instance. That does not tell a
value of the instance from the same value of its class, as of a default: those names are looked for in its memory.
"""

from __future__ import annotations

import array
import gc
import operator
import random
import types
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from sim.adapters.capture.digest.value_tokens import text_token
from sim.kernel.memory.own_attributes import OwnAttributes, own_attributes

Attributes = list[tuple[str, Any]]

CONTAINERS = (list, dict, set, frozenset, deque, bytearray, array.array, tuple, int, float, complex, str, bytes)
_MANAGED_DICT = 1 << 4  # A flag of types: the attributes of an instance may be stored without a dict.
_LAYOUTS_MAX = 8  # Sets of attribute names that are kept for one class and number of names.
_KNOWN_BASES = frozenset({*CONTAINERS, OrderedDict, defaultdict, *random.Random.__mro__})
_NAME: Callable[[tuple[str, Any]], str] = operator.itemgetter(0)


class AttributeReader:
    """Reads the attributes of the instances of one class.

    Attributes:
        container: the container of Python's own that the class inherits from; None if there is none.
        is_opaque: True if a compiled base class may hold values that are no attributes.
        is_direct: True if the collector of garbage finds exactly the values and the class in an instance.
    """

    def __init__(self, kind: Any, name: bytes) -> None:
        bases = kind.__mro__
        self.name = name
        self.container = next((one for one in bases if one in CONTAINERS or one in (OrderedDict, defaultdict)), None)
        self.is_opaque = any(
            one.__dictoffset__ == 0 and "__slots__" not in vars(one) for one in bases if one not in _KNOWN_BASES
        )
        self._slots = _slots_of(kind)
        self._has_dict = kind.__dictoffset__ != 0
        self.is_direct = (
            bool(kind.__flags__ & _MANAGED_DICT)
            and kind.__getattribute__ is object.__getattribute__
            and not hasattr(kind, "__getattr__")  # It would run for a name that an instance does not have.
            and not self._slots
            and self.container is None
            and not self.is_opaque
        )
        self._kind = kind
        self._layouts: dict[
            int, list[AttributeLayout]
        ] = {}  # By the number of objects that an instance then refers to.
        self._by_names: dict[tuple[str, ...], AttributeLayout] = {}

    def read(self, value: Any) -> Attributes:
        """The attributes of an instance, sorted by name. Those in slots come from there."""
        if self.is_direct and (found := self.direct(value)) is not None:
            layout, values = found
            return list(zip(layout.sorted_names, layout.in_order(values), strict=True))
        held = dict(object.__getattribute__(value, "__dict__")) if self._has_dict else {}
        for name, get in self._slots:
            try:
                held[name] = get(value)
            except AttributeError:  # It was never set.
                continue
        return sorted(held.items(), key=_NAME) if all(type(one) is str for one in held) else _odd(held)

    def direct(self, value: Any) -> tuple[AttributeLayout, tuple[Any, ...]] | None:
        """The names and the values of an instance of a direct class; None if a name is not a text."""
        found = gc.get_referents(value)
        for layout in self._layouts.get(len(found), ()):
            values = layout.values(value, found)
            if values is not None:
                return layout, values
        held = object.__getattribute__(value, "__dict__")
        names = tuple(held)
        known = self._by_names.get(names)
        if known is None:
            if not all(type(name) is str for name in names):
                return None
            known = self._learn(names)
        return known, tuple(held.values())

    def _learn(self, names: tuple[str, ...]) -> AttributeLayout:
        """Keep the names of an instance, to read other instances without making their dicts."""
        of_class = [name for name in names if any(name in vars(base) for base in self._kind.__mro__)]
        own = own_attributes(self._kind, of_class) if of_class else None
        made = self._by_names[names] = AttributeLayout(self, names, own)
        layouts = self._layouts.setdefault(len(names) + 1, [])
        # A property of this name would be read in place of the attribute.
        is_hidden = any(hasattr(type(vars(base).get(name)), "__set__") for base in self._kind.__mro__ for name in names)
        is_known = own is not None or not of_class
        if names and is_known and not is_hidden and len(layouts) < _LAYOUTS_MAX:
            layouts.append(made)
        return made


class AttributeLayout:
    """The names of the attributes of an instance, in the order in which it holds them.

    Attributes:
        names, sorted_names: in that order, and sorted.
        head, labels: of the content of such an instance.
        in_order: puts its values in the order of the sorted names.
    """

    def __init__(self, reader: AttributeReader, names: tuple[str, ...], own: OwnAttributes | None) -> None:
        """own: finds the attributes of which the class has a value, too."""
        self.names, self.sorted_names = names, sorted(names)
        ordered = sorted(range(len(names)), key=names.__getitem__)
        self.head = object_head(reader, self.sorted_names)
        self.labels = [f".{name}" for name in self.sorted_names]
        self.in_order: Callable[[Any], Sequence[Any]] = operator.itemgetter(*ordered) if len(names) > 1 else tuple
        self._get: Callable[[Any], Any] = operator.attrgetter(*names) if names else tuple
        self._is_one = len(names) == 1
        self._own = own

    def values(self, value: Any, found: list[Any]) -> tuple[Any, ...] | None:
        """The values, in the order of names; None if these are not the instance's. found: all that it refers to."""
        try:
            values = (self._get(value),) if self._is_one else self._get(value)
        except AttributeError:
            return None
        is_its_own = all(map(operator.is_, values, found)) and (self._own is None or self._own.are_in(value))
        return values if is_its_own else None


def object_head(reader: AttributeReader, names: Iterable[str]) -> bytes:
    """The head of the content of an object with these attributes."""
    return b"object " + reader.name + b"".join(map(text_token, names))


def _slots_of(kind: type) -> list[tuple[str, Callable[[Any], Any]]]:
    slots: dict[str, Callable[[Any], Any]] = {}
    for base in reversed(kind.__mro__):
        listed = vars(base).get("__slots__", ())
        for slot in (listed,) if isinstance(listed, str) else listed:
            name = f"_{base.__name__.lstrip('_')}{slot}" if slot.startswith("__") and not slot.endswith("__") else slot
            descriptor = vars(base).get(name)
            if isinstance(descriptor, types.MemberDescriptorType):
                slots[name if name not in slots else f"{base.__qualname__}.{name}"] = descriptor.__get__
    return list(slots.items())


def _odd(held: dict[Any, Any]) -> Attributes:
    """Attributes of which some names are not texts, which only a write into the dict can make."""
    return sorted(((str(name), held) for name, held in held.items()), key=_NAME)
