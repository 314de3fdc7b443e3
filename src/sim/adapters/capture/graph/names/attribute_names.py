"""The names of the attributes that an object has itself, in its dict and in slots, and how they are read."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Sequence
from types import MemberDescriptorType
from typing import Any

from sim.kernel.memory.object_memory import Values


def object_dict(one: Any) -> Any:
    """The dict of an object of a class that has one; this makes it."""
    return object.__getattribute__(one, "__dict__")


def slot_names(cls: type) -> list[str]:
    """The attributes of instances that are kept in slots, in the order of the classes."""
    names: list[str] = []
    for kind in cls.__mro__[-2::-1]:  # The last one is object, which has none.
        for name, member in vars(kind).items():
            is_slot = type(member) is MemberDescriptorType and member.__objclass__ is kind
            if is_slot and name != "__dict__" and name not in names:  # SimpleNamespace has its dict as a member.
                names.append(name)
    return names


def names_of(one: Any) -> tuple[str, ...]:
    """The names of all attributes that an object has; this makes its dict."""
    cls = type(one)
    slots = [name for name in slot_names(cls) if has_slot(one, cls, name)]
    return (*slots, *(object.__getattribute__(one, "__dict__") if cls.__dictoffset__ else ()))


def has_slot(one: Any, cls: type, name: str) -> bool:
    """Return True if an object has an attribute in this slot of its class."""
    try:
        slot_of(cls, name).__get__(one, cls)
    except AttributeError:
        return False
    return True


def slot_of(cls: type, name: str) -> Any:
    """The descriptor of a slot. Raises StopIteration for a name that is none."""
    return next(vars(kind)[name] for kind in cls.__mro__ if inspect.ismemberdescriptor(vars(kind).get(name)))


def read_slowly(one: Any, names: Iterable[str]) -> Values:
    """The attributes of these names, from the object's dict and slots themselves."""
    cls = type(one)
    attributes = object.__getattribute__(one, "__dict__") if cls.__dictoffset__ else {}
    return tuple([attributes[name] if name in attributes else _slot_value(one, cls, name) for name in names])


def _slot_value(one: Any, cls: type, name: str) -> Any:
    try:
        return slot_of(cls, name).__get__(one, cls)
    except StopIteration:
        raise AttributeError(name) from None


def reader_of(cls: type, names: Sequence[str]) -> str:
    """How the attributes of a class are read: "names" (getattr gives them), "slots" or "dict" (it does other things)."""
    if not all(name.isidentifier() for name in names):
        return "dict"  # A name with a dot means more to attrgetter.
    own = (
        hasattr(cls, "__getattr__")
        or vars(_owner_of(cls, "__getattribute__"))["__getattribute__"] is not vars(object)["__getattribute__"]
    )
    if own or any(is_shadowed(cls, name) for name in names):
        return "dict" if cls.__dictoffset__ else "slots"
    return "names"


def _owner_of(cls: type, name: str) -> type:
    """The class that defines a name."""
    return next(kind for kind in cls.__mro__ if name in vars(kind))


def hidden_names(cls: type, names: Iterable[str]) -> list[str]:
    """Those names of which a class has a value as well, which getattr gives for an object that lacks the attribute."""
    found = ((name, inspect.getattr_static(cls, name, cls)) for name in names)
    return [name for name, value in found if value is not cls and not inspect.ismemberdescriptor(value)]


def is_shadowed(cls: type, name: str) -> bool:
    """Return True if the class has a property or another data descriptor that hides the attribute of this name."""
    member = inspect.getattr_static(cls, name, None)
    return hasattr(type(member), "__set__") and not inspect.ismemberdescriptor(member)
