"""The kinds of values that a simulation keeps: the content of each that can change, and the way to restore it.

No code of the user's runs here: attributes are read from their storage, no property is computed, and containers are
read by the methods of their base class.
"""

from __future__ import annotations

import collections
import contextvars
import enum
import functools
import itertools
import random
import sys
import types
from collections.abc import Callable, Iterable
from types import (
    BuiltinFunctionType,
    CellType,
    CoroutineType,
    FunctionType,
    GeneratorType,
    MemberDescriptorType,
    MethodDescriptorType,
    MethodType,
    MethodWrapperType,
    ModuleType,
    WrapperDescriptorType,
)
from typing import Any

import numpy as np
import xxhash

from recorder.ambient.c_memory import is_memory, memory_of, put_memory
from recorder.ambient.iterators import ITERATOR_TYPES
from recorder.ambient.members import WEAK_KINDS, SetContent, put_weak, weak_content
from recorder.ambient.roots import CACHE_TYPE
from sim.kernel.class_names import package_of
from sim.kernel.schema import Layout, Schema
from sim.kernel.state import Snapshot, State

ARRAY_BYTES_MAX = 16 << 20  # Of a larger array only a hash is kept: a change is seen, and cannot be undone.

PLAIN_DEPTH_MAX = 100  # Of tuples in tuples: Python ends calls within calls after some 1,000.

_ATOMS = (bool, int, float, complex, str, bytes, type(None), np.generic, np.dtype, enum.Enum, range, slice)
_ATOM_MODULES = {"decimal", "fractions", "datetime", "uuid", "pathlib"}  # Their values never change.
_STILL = (type, ModuleType, property, staticmethod, classmethod, Snapshot, Schema, Layout)
KEPT_LIBRARY = {"queue", "sched"}  # Of Python's own modules: objects that hold what code puts in.
_OPAQUE_MODULES = {"numpy", "numba", "pytest", "_pytest"} | (
    set(sys.stdlib_module_names) - {"types", "dataclasses", "collections", "__main__", *KEPT_LIBRARY}
)
_PLAIN_KINDS: tuple[tuple[type, str], ...] = (
    (State, "state"),
    (np.ndarray, "array"),
    (dict, "dict"),
    (list, "list"),
    (tuple, "tuple"),
    (set, "set"),
    (frozenset, "set"),
    (collections.deque, "deque"),
    (bytearray, "bytearray"),
    (np.random.Generator, "generator"),
    (np.random.BitGenerator, "bit generator"),
    (np.random.RandomState, "bit generator"),
    (random.Random, "random"),
    (CellType, "cell"),
    (contextvars.ContextVar, "context variable"),
    (FunctionType, "function"),
    (MethodType, "method"),
    (BuiltinFunctionType, "builtin method"),  # Or a function of a module: see is_builtin_method.
    (MethodWrapperType, "builtin method"),
    (functools.partial, "partial"),
    (GeneratorType, "coroutine"),
    (CoroutineType, "coroutine"),
)


CONTAINERS = {"dict", "list", "set", "deque", "bytearray", "array"}
_WITHOUT_ATTRIBUTES = frozenset(
    {dict, list, set, frozenset, collections.deque, collections.defaultdict, bytearray, np.ndarray}
)
_KINDS: dict[type, str] = {}
NOT_SET: Any = object()  # Stands for the value of a context variable that has none, not even a default.


def kind_of(kind: type) -> str:
    """The kind of a type's values, which decides the way they are walked: atom, still, opaque, object, or special."""
    name = _KINDS.get(kind)
    if name is None:
        name = _KINDS[kind] = _find_kind(kind)
    return name


def _find_kind(kind: type) -> str:
    if issubclass(kind, enum.Enum) and _has_own_attributes(kind):
        return "object"
    if issubclass(kind, _ATOMS) or package_of(kind) in _ATOM_MODULES:
        return "atom"
    if issubclass(kind, _STILL):
        return "still"
    if issubclass(kind, random.SystemRandom):
        return "opaque"
    if is_memory(kind):
        return "memory"
    for base, name in _PLAIN_KINDS:
        if issubclass(kind, base):
            return name
    if kind is CACHE_TYPE:
        return "cache"
    if kind in ITERATOR_TYPES:
        return "iterator"
    if kind in WEAK_KINDS:
        return WEAK_KINDS[kind]
    if hasattr(kind, "__swig_destroy__"):
        return "opaque"  # Its attributes are addresses: in a different simulation they crash the process.
    if package_of(kind) in _OPAQUE_MODULES or not (_has_dict(kind) or slot_names(kind)):
        return "opaque"
    return "object"


def is_builtin_method(value: Any) -> bool:
    """Return True if a function in C code is bound to an object, such as the append of a list, or the __next__ of a count."""
    return not issubclass(type(value.__self__), type | ModuleType | types.NoneType)


def bound_to(method: Any, owner: Any) -> Any:
    """The method in C code of another object. A class of the user's may have a method of the same name: it is not meant."""
    found = (vars(base).get(method.__name__) for base in type(owner).__mro__)
    own = next((one for one in found if isinstance(one, MethodDescriptorType | WrapperDescriptorType)), None)
    return method if own is None else own.__get__(owner)


def _has_own_attributes(kind: type[enum.Enum]) -> bool:
    """Return True for an enumeration whose members have attributes that code can change, such as a price."""
    members = kind.__members__.values()
    return any(not name.startswith("_") for member in members for name in object.__getattribute__(member, "__dict__"))


def _has_dict(kind: type) -> bool:
    return any("__dict__" in vars(base) for base in kind.__mro__)


_SLOTS: dict[type, tuple[str, ...]] = {}


def slot_names(kind: type) -> tuple[str, ...]:
    """The names of a class's slots, as they are stored."""
    if kind not in _SLOTS:
        _SLOTS[kind] = tuple(
            name
            for base in kind.__mro__
            if "__slots__" in vars(base)
            for name, value in vars(base).items()
            if isinstance(value, MemberDescriptorType)
        )
    return _SLOTS[kind]


def attributes_of(value: Any) -> dict[str, Any]:
    """The values that an object stores, by name; a shallow copy."""
    attributes = dict(object.__getattribute__(value, "__dict__")) if _has_dict(type(value)) else {}
    for name in slot_names(type(value)):
        try:
            attributes[name] = object.__getattribute__(value, name)
        except AttributeError:
            continue  # An empty slot.
    return attributes


def generator_state(value: Any) -> dict[str, Any]:
    """The complete state of a NumPy generator, buffered half-words included, flat: one plain value per name."""
    if isinstance(value, np.random.RandomState):
        state: Any = value.get_state(legacy=False)
    else:
        state = (value.bit_generator if isinstance(value, np.random.Generator) else value).state
    flat: dict[str, Any] = {}
    for name, part in state.items():
        inner = part.items() if isinstance(part, dict) else [(name, part)]
        flat |= {key: one.tobytes() if isinstance(one, np.ndarray) else one for key, one in inner}
    return flat


def content_of(kind: str, value: Any) -> Any:
    """The content of a value of that kind that must be kept to restore it; shallow; None if it cannot be restored."""
    match kind:
        case "dict":
            return dict(_items_of(value))
        case "list":
            return list.copy(value)
        case "set" if not isinstance(value, frozenset):
            return SetContent.of(value)
        case "deque":
            return list(value)
        case "array":
            return value.copy() if value.nbytes <= ARRAY_BYTES_MAX else None
        case "bit generator" if isinstance(value, np.random.RandomState):
            return value.get_state(legacy=False)
        case "generator" | "bit generator":
            return (value.bit_generator if kind == "generator" else value).state
        case "weak set" | "weak dict" | "weak keys" | "weak reference":
            return weak_content(kind, value)
        case _ if kind in _READ:
            return _READ[kind](value)
    return None


def put_content(kind: str, value: Any, content: Any) -> bool:
    """Restore the content that content_of returned, in place. Return False if that is not possible."""
    match kind:
        case "dict":
            _put_items(value, content)
        case "list":
            list.__setitem__(value, slice(None), content)
        case "set" if not isinstance(value, frozenset):
            content.put(value)
        case "deque":
            collections.deque.clear(value)
            collections.deque.extend(value, content)
        case "bytearray":
            bytearray.__setitem__(value, slice(None), content)
        case "array" if content is not None and value.flags.writeable and _is_of_one_kind(value, content):
            value[...] = content
        case "bit generator" if isinstance(value, np.random.RandomState):
            value.set_state(content)
        case "generator" | "bit generator":
            (value.bit_generator if kind == "generator" else value).state = content
        case "weak set" | "weak dict" | "weak keys":
            put_weak(kind, value, content)
        case _:
            return kind in _PUT and content is not None and _PUT[kind](value, content) is not False
    return True


def _items_of(value: dict[Any, Any]) -> Iterable[tuple[Any, Any]]:
    """The items of a dict, in its order: an OrderedDict has one of its own, which the methods of dict do not see."""
    return collections.OrderedDict.items(value) if isinstance(value, collections.OrderedDict) else dict.items(value)


def _put_items(value: dict[Any, Any], content: dict[Any, Any]) -> None:
    if not isinstance(value, collections.OrderedDict):
        dict.clear(value)
        dict.update(value, content)
        return
    collections.OrderedDict.clear(value)
    for key, one in content.items():  # Its update() would call a method of a class derived from it.
        collections.OrderedDict.__setitem__(value, key, one)


def _is_of_one_kind(one: np.ndarray[Any, Any], other: np.ndarray[Any, Any]) -> bool:
    """Return True for arrays of one shape and type of elements: else numbers would be converted."""
    return bool(one.shape == other.shape and one.dtype == other.dtype)


def content_of_array(value: np.ndarray[Any, Any]) -> int:
    """A hash of an array's elements, for one of which no content is kept."""
    elements: Any = np.ascontiguousarray(value).reshape(-1).view(np.uint8)
    return xxhash.xxh3_64_intdigest(elements)


def keeps_values(function: FunctionType) -> bool:
    """Return True for a function with a closure, default arguments or attributes."""
    return bool(function.__closure__ or function.__defaults__ or function.__kwdefaults__ or function.__dict__)


def own_attributes(value: Any) -> dict[str, Any] | None:
    """The attributes of a container whose class is derived from a plain one; None if its class cannot have any."""
    kind = type(value)
    if kind in _WITHOUT_ATTRIBUTES or not (_has_dict(kind) or slot_names(kind)):
        return None
    return attributes_of(value)


def _value_of_variable(variable: contextvars.ContextVar[Any]) -> Any:
    """What a context variable gives: its value here, or its default."""
    try:
        return variable.get()
    except LookupError:
        return NOT_SET


def _put_variable(variable: contextvars.ContextVar[Any], content: Any) -> bool:
    """One that was not set cannot be made so again: Python has no way to that but the token of the first set()."""
    if content is not NOT_SET and _value_of_variable(variable) is not content:
        variable.set(content)
    return content is not NOT_SET


def put_attributes(value: Any, content: dict[str, Any]) -> None:
    """Let an object store these values, by name, and no others."""
    now = attributes_of(value)
    for name in now.keys() - content.keys():
        object.__delattr__(value, name)
    for name, one in content.items():
        if name not in now or now[name] is not one:
            object.__setattr__(value, name, one)


_READ: dict[str, Callable[[Any], Any]] = {
    "bytearray": bytes,
    "context variable": _value_of_variable,
    "memory": memory_of,
    "object": attributes_of,
    "random": random.Random.getstate,
}
_PUT: dict[str, Callable[[Any, Any], Any]] = {
    "context variable": _put_variable,
    "memory": put_memory,
    "object": put_attributes,
    "random": random.Random.setstate,
}


def is_plain(value: Any, depth: int = 0) -> bool:
    """Return True for a value that is known by its value: a number, a text, a tuple of those, but not a long chain of them."""
    if kind_of(type(value)) == "atom":
        return True
    is_group = isinstance(value, tuple | frozenset) and depth < PLAIN_DEPTH_MAX
    return is_group and all(map(is_plain, value, itertools.repeat(depth + 1)))


def same_leaf(one: Any, other: Any) -> bool:
    """Return True if two leaves are equal: of one type, floats to the bit."""
    if type(one) is not type(other):
        return False
    if isinstance(one, tuple | list) and len(one) == len(other):
        if set(map(type, one)) == {int} == set(map(type, other)):
            return bool(one == other)  # The state of a random generator has hundreds of them.
        return one is other or all(map(same_leaf, one, other))
    if isinstance(one, float):
        return bool(one.hex() == other.hex())
    if isinstance(one, np.generic):
        return bool(one.dtype == other.dtype and one.tobytes() == other.tobytes())
    return bool(one == other)


def shown_key(key: Any) -> Any:
    """A key that can be compared, or the name of a class or of an object's class."""
    if kind_of(type(key)) == "atom":
        return key
    if (parts := plain_key(key)) is not None:
        return parts
    return (key if issubclass(type(key), type) else type(key)).__qualname__


def plain_key(key: Any) -> tuple[Any, ...] | None:
    """A key that is a tuple of plain values, in Python's own numbers, which equal those of NumPy; None for others."""
    if type(key) is not tuple or any(kind_of(type(part)) != "atom" for part in key):
        return None
    return tuple(part.item() if isinstance(part, np.generic) else part for part in key)
