"""Set and clear the attributes of objects without any code of their classes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sim.adapters.capture.graph.names.attribute_names import has_slot, is_shadowed, slot_names, slot_of

_HEAP_TYPE = 1 << 9  # A flag of types that Python code made.


def set_attributes(one: Any, names: Sequence[str], values: Sequence[Any]) -> None:
    """Set attributes without any code of the object's class."""
    setter_of(type(one), names)(one, values)


def setter_of(cls: type, names: Sequence[str]) -> Callable[[Any, Sequence[Any]], None]:
    """What sets these attributes of objects of a class, without any code of the class.

    No ``__dict__`` is made where none is needed: steps of objects that have one take up to twice as long.
    """
    slots = {name: slot_of(cls, name) for name in slot_names(cls)}
    if not slots and cls.__dictoffset__ and _sets_as_object(cls) and not any(is_shadowed(cls, name) for name in names):
        set_one = object.__setattr__

        def set_in_object(one: Any, values: Sequence[Any]) -> None:
            for name, value in zip(names, values, strict=True):
                set_one(one, name, value)

        return set_in_object

    def set_all(one: Any, values: Sequence[Any]) -> None:
        attributes = object.__getattribute__(one, "__dict__") if cls.__dictoffset__ else {}
        for name, value in zip(names, values, strict=True):
            if name in slots:
                slots[name].__set__(one, value)
            else:
                attributes[name] = value

    return set_all


def _sets_as_object(cls: type) -> bool:
    """Return True if object.__setattr__ accepts objects of a class: no base of compiled code has its own."""
    return all(kind is object or kind.__flags__ & _HEAP_TYPE or "__setattr__" not in vars(kind) for kind in cls.__mro__)


def clear_attributes(one: Any) -> None:
    """Remove all attributes without any code of the object's class."""
    cls = type(one)
    for name in slot_names(cls):
        if has_slot(one, cls, name):
            slot_of(cls, name).__delete__(one)
    if cls.__dictoffset__:
        object.__getattribute__(one, "__dict__").clear()
