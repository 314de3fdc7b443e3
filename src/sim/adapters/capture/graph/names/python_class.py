"""Which objects can be saved by their attributes: those of classes written in Python."""

from __future__ import annotations

import types
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Iterable
from itertools import chain
from typing import Any

from sim.adapters.capture.graph.names.classes import ClassFinder

_CONTAINERS: tuple[type, ...] = (list, dict, deque, OrderedDict, defaultdict, types.SimpleNamespace)


def is_python_class(cls: Any) -> bool:
    """Return True for a class made by a class statement: no C type gave it memory of its own."""
    members = vars(cls).values()
    if any(isinstance(one, types.WrapperDescriptorType | types.MethodDescriptorType) and one.__objclass__ is cls
           for one in members):  # fmt: skip
        return False
    return not any(isinstance(one, types.BuiltinFunctionType) and one.__self__ is cls for one in members)


_BASES: dict[type, Any] = {}


def base_of(cls: type) -> Any:
    """The type whose memory objects of the class have: object, or list, dict, …; None for a type written in C."""
    if cls not in _BASES:
        _BASES[cls] = _find_base(cls)
    return _BASES[cls]


def _find_base(cls: type) -> Any:
    if hasattr(cls, "__swig_destroy__"):
        return None  # SWIG: the attributes are addresses of C++ objects.
    for kind in cls.__mro__:
        if kind in _CONTAINERS or kind is object:
            return kind
        if kind is not Counter and not is_python_class(kind):
            return None
    return None


def ensure_savable(value: Any, finder: ClassFinder) -> bool:
    """Return True for an object of a Python class, False for one of a C type. Raises UnsavableError for a lost class."""
    cls = type(value)
    if base_of(cls) is None or isinstance(value, type):
        return False
    finder.name_of(cls)
    return True


def in_order(cls: type, names: Iterable[str]) -> list[str]:
    """Names of attributes in the order in which the class sets them: of its fields, then as its __init__ names them.

    The order in which an object got them is not known without making a dict for it, and an object that was made by a
    restore may have got them in another one.
    """
    listed = _ORDERS.get(cls)
    if listed is None:
        fields = list(getattr(cls, "__dataclass_fields__", ()))
        made = [vars(kind).get("__init__") for kind in reversed(cls.__mro__)]
        codes = [one.__code__.co_names for one in made if isinstance(one, types.FunctionType)]
        listed = _ORDERS[cls] = {name: place for place, name in enumerate(dict.fromkeys([*fields, *chain(*codes)]))}
    return sorted(names, key=lambda name: (listed.get(name, len(listed)), name))


_ORDERS: dict[type, dict[str, int]] = {}


def make_shell(cls: type) -> Any:
    """A new object of the class without any code of it. Raises ValueError for a type written in C."""
    base = base_of(cls)
    if base is None:
        raise ValueError(f"expected a class written in Python, got {cls.__qualname__}")
    return base.__new__(cls)
