"""The names of objects that a module's globals and its classes refer to, remembered while these refer to the same ones.

The walk over all globals takes milliseconds for a large module, and a state before a reset is captured at each reset:
so the identities that it saw are kept, and compared at C speed.
"""

from __future__ import annotations

import enum
import types
from collections.abc import Mapping
from operator import is_
from typing import Any

import attrs

from sim.adapters.capture.graph.names.global_items import addresses_in, holds_only_tuples, is_container, named_items
from sim.adapters.capture.graph.names.used_globals import SCRIPTS, used_globals
from sim.kernel.class_names import module_of

_VALUES = (type(None), bool, int, float, complex, str, bytes, tuple, frozenset)  # Equal ones need not be identical.
_DESCRIBERS = (
    type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType, types.MethodType, property, staticmethod,
    classmethod, types.MemberDescriptorType, types.GetSetDescriptorType, types.WrapperDescriptorType,
    types.MethodDescriptorType, types.MethodWrapperType, types.GenericAlias, types.UnionType, enum.Enum,
)  # fmt: skip


@attrs.frozen(eq=False)
class _Seen:
    """A module or class, with what its dict held: names, identities and types. No object in it is kept alive."""

    holder: Any
    names: list[str]
    addresses: list[int]
    kinds: list[type]

    @classmethod
    def now(cls, holder: Any) -> _Seen:
        """As it is now."""
        items = dict(dict_of(holder))
        return cls(holder, list(items), list(map(id, items.values())), list(map(type, items.values())))

    def is_same(self) -> bool:
        """Return True if each name still refers to what it did: an object at the same place, of the same type."""
        now = _Seen.now(self.holder)
        # Types are compared by identity: a metaclass of a user could define ==.
        return now.names == self.names and now.addresses == self.addresses and all(map(is_, now.kinds, self.kinds))


@attrs.frozen(eq=False)
class _SeenItems:
    """A variable of a module or class, with the identities of what its list or dict held. That is not kept alive."""

    holder: Any
    name: str
    addresses: list[int]

    def is_same(self) -> bool:
        """Return True if it holds the same objects at the same places. The variable itself is the same: see _Seen."""
        return addresses_in(dict_of(self.holder)[self.name]) == self.addresses


_remembered: dict[tuple[str, str], tuple[list[_Seen], list[_SeenItems], dict[int, str]]] = {}


def names_of_globals(module: types.ModuleType, text: str) -> Mapping[int, str]:
    """The names of the objects that a module's globals and the attributes of its classes refer to, by their ids.

    Without numbers, texts, tuples, classes, functions and modules. Of a script only those that its functions reach (see
    used_globals.py). The first name of an object counts, and that of a variable before that of a place in a container
    (see global_items.py). text: the name of the module in these names.

    The objects are not kept alive: ask whether a name still refers to the object at its address.
    """
    seen, held, names = _remembered.get((module.__name__, text), ([], [], {}))
    if seen and seen[0].holder is module and all(one.is_same() for one in seen) and all(one.is_same() for one in held):
        return names
    seen, held, names = [], [], {}
    items: dict[int, str] = {}
    todo: list[tuple[Any, str]] = [(module, "")]
    own = {
        name: value
        for name, value in list(dict_of(module).items())
        if is_named_object(name, value) or (is_container(value) and not name.startswith("__"))
    }
    used = used_globals(module, own) if module.__name__ in SCRIPTS else None
    for holder, path in todo:  # It grows by the classes that are defined in these.
        seen.append(_Seen.now(holder))
        for name, value in list(dict_of(holder).items()):
            full = f"{text}:{path}{name}"
            if used and not path and name not in used.names and id(value) not in used.addresses and name in own:
                continue
            if is_named_object(name, value):
                names.setdefault(id(value), full)
            elif _is_defined_as(value, module, path + name):
                todo.append((value, f"{path}{name}."))
            for container, place in _containers(name, value, full, module):
                for item, one in named_items(container, place):
                    items.setdefault(id(item), one)
                if container is value and not holds_only_tuples(value):
                    held.append(_SeenItems(holder, name, addresses_in(value)))
    names = {**items, **names}
    _remembered[module.__name__, text] = seen, held, names
    return names


def _containers(name: str, value: Any, full: str, module: types.ModuleType) -> list[tuple[Any, str]]:
    """The containers that a variable refers to, with their names: its own value, or the tuples of an enumeration."""
    if name.startswith("__") and name.endswith("__"):
        return []
    if is_container(value) and not issubclass(type(value), enum.Enum):
        return [(value, full)]
    if issubclass(type(value), enum.EnumMeta) and module_of(value) == module.__name__ and issubclass(value, tuple):
        members = dict_of(value)["_member_map_"]
        return [(member, f"{full}.{one}") for one, member in members.items() if is_container(member)]
    return []


def dict_of(holder: Any) -> Any:
    """The dict of a module or class; a metaclass of a user is not asked."""
    is_class = issubclass(type(holder), type)
    return (
        type.__getattribute__(holder, "__dict__") if is_class else types.ModuleType.__getattribute__(holder, "__dict__")
    )


def is_named_object(name: str, value: Any) -> bool:
    """Return True for an object that is known by the name that refers to it."""
    is_hidden = name.startswith("__") and name.endswith("__")
    return not is_hidden and type(value) not in _VALUES and not issubclass(type(value), _DESCRIBERS)


def _is_defined_as(value: Any, module: types.ModuleType, qualname: str) -> bool:
    """Return True for a class that is defined here, and no enum: what that holds is found by its members' names."""
    is_plain_class = issubclass(type(value), type) and not issubclass(value, enum.Enum)
    return is_plain_class and module_of(value) == module.__name__ and value.__qualname__ == qualname
