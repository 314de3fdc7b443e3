"""The contents of each kind of mutable object for value_digest.py: a head of bytes, and the values inside it.

Attributes are read from the object itself, never through a property or ``__getattr__`` of its class. The kind is that
of ``type``, since a proxy has the ``__class__`` of another object, which may be dead.
"""

from __future__ import annotations

import array
import enum
import functools
import gc
import itertools
import logging
import operator
import random
import re
import types
import weakref
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np
import xxhash

from sim.adapters.capture.digest.attribute_reader import AttributeReader, Attributes, object_head
from sim.adapters.capture.digest.loggers import logger_name
from sim.adapters.capture.digest.value_tokens import dtype_name, is_pure, number_token, text_token
from sim.kernel.class_names import module_of
from sim.kernel.foreign_arrays import ForeignArrayError, is_foreign_array, is_immutable_array, kind_of, to_numpy

Excluded = Callable[[object, str], bool]
Content = tuple[bytes, Sequence[Any], Sequence[str]]  # The head, the values, their labels (none: by index).

_LIST_ATOMS = (int, str)
_FUNCTIONS = (
    types.FunctionType, types.BuiltinFunctionType, types.WrapperDescriptorType, types.MethodDescriptorType,
    types.MethodWrapperType, types.ClassMethodDescriptorType, types.GetSetDescriptorType, types.MemberDescriptorType,
    np.ufunc,
)  # fmt: skip
# Iterators whose __reduce__ gives the whole position, in every supported Python.
_ITERATORS: tuple[Any, ...] = (
    iter([]), iter(()), iter(""), iter("é"), iter(b""), iter(bytearray()), iter(range(0)), iter(range(1 << 70)), reversed([]),
    iter({}), iter({}.values()), iter({}.items()), enumerate(()), zip(), map(bool, ()), filter(None, ()),
)  # fmt: skip
_RANGE_ITERATORS = (type(iter(range(0))), type(iter(range(1 << 70))))
_TEXT_ITERATOR = type(iter(""))  # An exhausted one of a text that is not ASCII has another class, and is the same.
_TEXT_ITERATORS = (_TEXT_ITERATOR, type(iter("é")))


class Lookup:
    """Names of classes, functions and modules, without the name of the module that holds the subject's class.

    Attributes:
        home: that module.
    """

    def __init__(self, home: str) -> None:
        self.home = home
        self._names: dict[type, bytes] = {}

    def name(self, kind: type) -> bytes:
        """The name of a class."""
        found = self._names.get(kind)
        if found is None:
            found = self._names[kind] = self.qualified(kind)
        return found

    def qualified(self, named: Any) -> bytes:
        """The module and the name of a class or function."""
        module = self.module(getattr(named, "__module__", None) or "")
        return module + b":" + str(getattr(named, "__qualname__", getattr(named, "__name__", ""))).encode()

    def module(self, name: object) -> bytes:
        """The name of a module."""
        return b"." if name == self.home else str(name).encode()


class ValueContents:
    """The contents of objects.

    Attributes:
        lookup: of names.
        not_looked_at: names of the types of which some values could not be read.
    """

    def __init__(
        self,
        lookup: Lookup,
        excluded: Excluded | None,
        *,
        holders: Collection[int] | None,
        readers: dict[type, AttributeReader],
        has_labels: bool,
        has_closures: bool = False,
    ) -> None:
        """holders, readers, has_closures: see ValueSubject. has_labels: name each value, for a path."""
        self.lookup = lookup
        self.not_looked_at: set[str] = set()
        self._handles: set[int] = set()  # Identities of SWIG's handles: the classes around them have been named.
        self._excluded = excluded
        self._holders = holders
        self._has_labels = has_labels
        self._has_closures = has_closures
        self._readers = readers

    # --- immutable values

    def _head_by_name(self, value: Any) -> bytes | None:
        """The head of a module or logger; None for a logger that is not found by its name."""
        if isinstance(value, types.ModuleType):
            return b"module " + self.lookup.module(value.__name__)
        name = logger_name(value, self.lookup.home)
        return None if name is None else b"logger " + name.encode()

    def by_value(self, value: Any) -> tuple[bytes, Sequence[Any]] | None:
        """The head and the parts of a value that counts by its content; None for an object with an identity."""
        kind = type(value)
        if issubclass(kind, np.generic):
            return number_token(value), ()
        if issubclass(kind, enum.Enum):
            name: Any = value._name_  # None for some combinations of flags.
            return b"enum " + self.lookup.name(kind), (value._value_ if name is None else name,)
        if issubclass(kind, type):
            return b"class " + self.lookup.qualified(value), ()
        if issubclass(kind, _FUNCTIONS):
            if self._has_closures and kind is types.FunctionType and value.__closure__:
                return None
            owner = getattr(value, "__self__", None)
            parts = () if owner is None or isinstance(owner, types.ModuleType | type) else (owner,)
            return b"function " + self.lookup.qualified(value), parts
        if kind is types.MethodType:
            return b"method", (value.__func__, value.__self__)
        if issubclass(kind, types.ModuleType | logging.Logger) and (head := self._head_by_name(value)) is not None:
            return head, ()
        if issubclass(kind, weakref.ref):
            target = value()
            return (b"dead weak reference", ()) if target is None else (b"weak reference", (target,))
        if kind is slice:
            return b"slice", (value.start, value.stop, value.step)
        if issubclass(kind, np.dtype):
            return b"dtype " + dtype_name(value), ()
        if kind is re.Pattern:
            return b"pattern", (value.pattern, value.flags)
        if is_foreign_array(value) and is_immutable_array(value):
            return self._foreign(value), ()
        return None

    # --- objects

    def of_set(self, value: Any) -> tuple[bytes, list[Any]]:
        """The head of a set, and the attributes of one of a subclass; its elements are left to the walk."""
        kind = type(value)
        attributes = [] if kind in (set, frozenset) else self._attributes(value)
        head = b"set " + self.lookup.name(kind) + b"".join([text_token(name) for name, _ in attributes])
        return head + b"|%d" % len(value), [held for _, held in attributes]

    def of(self, value: Any) -> Content:
        """The content of an object with an identity, except a set."""
        kind = type(value)
        if kind is list:
            return self._list(value)
        if kind is dict:
            return self._pairs(b"dict", value.items())
        reader = self._readers.get(kind)
        if reader is not None and reader.is_direct and not self._may_exclude(value):
            found = reader.direct(value)
            if found is not None:
                layout, values = found
                return layout.head, layout.in_order(values), layout.labels
        if issubclass(kind, np.ndarray):
            return self._array(value)
        if kind in _PLAIN_KINDS:
            return _PLAIN_KINDS[kind](self, value)
        if is_foreign_array(value):
            return self._foreign(value), (), ()
        if issubclass(kind, random.Random | np.random.Generator | np.random.RandomState | np.random.BitGenerator):
            return self._generator(value)
        if kind is np.random.SeedSequence:
            return self._seeds(value)
        return self._object(value)

    def _list(self, value: Any) -> Content:
        kinds = set(map(type, value)) if len(value) > 1 and not self._has_labels else ()
        if len(kinds) == 1:
            (kind,) = kinds
            if kind in _LIST_ATOMS:
                try:
                    return b"list of " + repr(value).encode("utf-8", "surrogatepass"), (), ()
                except ValueError:  # An integer of more digits than Python writes.
                    return b"list", value, ()
            if kind is float:
                return b"list of floats" + array.array("d", value).tobytes(), (), ()
        return b"list", value, ()

    def _pairs(self, head: bytes, items: Any) -> Content:
        values: list[Any] = []
        for pair in items:
            values += pair
        if not self._has_labels:
            return head, values, ()
        labels: list[str] = []
        for key in values[::2]:
            labels += (f", the key {_shown(key)}", f"[{_shown(key)}]")
        return head, values, labels

    def of_deque(self, value: Any) -> Content:
        """A deque."""
        return b"deque %s" % str(value.maxlen).encode(), list(value), ()

    def of_default_dict(self, value: Any) -> Content:
        """A defaultdict."""
        head, values, labels = self._pairs(b"defaultdict", value.items())
        return head, [value.default_factory, *values], ("'s default", *labels) if labels else ()

    def _array(self, value: Any) -> Content:
        order = b"F" if value.flags.f_contiguous and not value.flags.c_contiguous else b"C"
        head = b"array " + self.lookup.name(type(value)) + b" " + dtype_name(value.dtype)
        head += repr(value.shape).encode() + order
        attributes = [] if type(value) is np.ndarray else self._attributes(value)
        names, values = [f".{name}" for name, _ in attributes], [held for _, held in attributes]
        if value.dtype == object:
            elements = list(value.flat)
            head += b"%d" % len(elements) + b"".join(map(text_token, names))
            return head, elements + values, [f".flat[{index}]" for index in range(len(elements))] + names
        if value.dtype.hasobject:
            self.not_looked_at.add(f"numpy.ndarray of {value.dtype}")
            return head, values, names
        whole = value if value.flags.c_contiguous and value.dtype.kind not in "mM" else None
        content = whole.reshape(-1).view(np.uint8) if whole is not None and whole.nbytes else value.tobytes()
        return head + xxhash.xxh3_128_digest(content) + b"".join(map(text_token, names)), values, names

    def _foreign(self, value: Any) -> bytes:
        """The head of an array of another library."""
        head = b"foreign array " + self.lookup.name(type(value))
        try:
            kind, bits = kind_of(value), to_numpy(value)
        except ForeignArrayError:
            self.not_looked_at.add(self.lookup.name(type(value)).decode())
            return head
        return head + repr(kind.to_plain()).encode() + xxhash.xxh3_128_digest(bits.tobytes())

    def _generator(self, value: Any) -> Content:
        head = b"generator " + self.lookup.name(type(value))
        if isinstance(value, random.Random):
            try:
                state: Any = value.getstate()
            except NotImplementedError:  # random.SystemRandom: it has no state.
                return head, (), ()
            own = (
                []
                if type(value) is random.Random
                else [one for one in self._attributes(value) if one[0] != "gauss_next"]
            )
            return head + repr(state).encode(), [held for _, held in own], [f".{name}" for name, _ in own]
        if isinstance(value, np.random.RandomState):
            bits: Any = getattr(value, "_bit_generator", None)
            return head, [value.get_state(legacy=False), bits], [", its state", "'s bit generator"]
        if isinstance(value, np.random.Generator):
            return head, [value.bit_generator], [".bit_generator"]
        return head, [value.state, getattr(value, "_seed_seq", None)], [", its state", ".seed_seq"]

    def _seeds(self, value: Any) -> Content:
        entropy = value.entropy.tolist() if isinstance(value.entropy, np.ndarray) else value.entropy
        made_of = (type(value.entropy).__name__, entropy, value.spawn_key, value.pool_size)
        children = b" of %d children" % value.n_children_spawned
        return b"seed sequence " + repr(made_of).encode() + children, (), ()

    def of_iterator(self, value: Any) -> Content:
        """An iterator of a container."""
        _, arguments, *position = value.__reduce__()
        if type(value) in _RANGE_ITERATORS:
            return b"iterator " + self.lookup.name(type(value)), [_rest_of(*arguments, *position), 0], ()
        kind = _TEXT_ITERATOR if type(value) in _TEXT_ITERATORS and not position else type(value)
        if position and position[0] is not None and position[0] < 0:  # It has passed the start of a reversed list.
            arguments, position = ([],), []
        return b"iterator " + self.lookup.name(kind), [*arguments, *position], ()

    def of_closure(self, value: Any) -> Content:
        """A function that keeps variables of the function around it."""
        labels = [f"'s variable {name}" for name in value.__code__.co_freevars]
        return b"closure " + self.lookup.qualified(value), value.__closure__, labels

    def of_repeat(self, value: Any) -> Content:
        """An itertools.repeat."""
        try:
            left = operator.length_hint(value)
        except TypeError:  # It never ends.
            left = -1
        return b"repeat %d" % left, gc.get_referents(value), ()

    def _object(self, value: Any) -> Content:
        """An object of any other class: its attributes, and its items if it is a container."""
        kind = type(value)
        reader = self._reader(kind)
        attributes = self._attributes(value)
        names, values = [f".{name}" for name, _ in attributes], [held for _, held in attributes]
        head = object_head(reader, (name for name, _ in attributes))
        if reader.container is not None:
            inner, items, labels = self._inherited(value, reader.container)
            return head + b"|" + inner, [*values, *items], [*names, *(labels or map("[{}]".format, range(len(items))))]
        if issubclass(kind, BaseException):
            return head + b"|exception", [*values, value.args], [*names, ".args"]
        numbers = _NUMBERS.get(f"{module_of(kind)}.{kind.__qualname__}") if reader.is_opaque else None
        if numbers is not None:
            return head + b"|numbers", [*values, *numbers(value)], ()
        if ".this" in names and type(handle := values[names.index(".this")]).__name__ == HANDLE:
            self._handles.add(id(handle))
            self.not_looked_at.add(self.lookup.name(kind).decode())
        elif reader.is_opaque and id(value) not in self._handles:
            self.not_looked_at.add(self.lookup.name(kind).decode())
        return head, values, names if self._has_labels else ()

    def _inherited(self, value: Any, container: type) -> Content:
        """The items of an instance of a subclass of a container, read as the container's own."""
        if container is OrderedDict:
            return self._pairs(b"pairs", OrderedDict.items(value))
        if issubclass(container, dict):
            head, values, labels = self._pairs(b"pairs", dict.items(value))
            if container is defaultdict:
                return head, [value.default_factory, *values], ("'s default", *labels) if labels else ()
            return head, values, labels
        if container is list:
            return b"items", list(list.__iter__(value)), ()
        if container is deque:
            return b"items %s" % str(value.maxlen).encode(), list(deque.__iter__(value)), ()
        return b"value " + container.__name__.encode(), [_PLAIN[container](value)], ()

    # --- attributes

    def _may_exclude(self, value: Any) -> bool:
        return self._excluded is not None and (self._holders is None or id(value) in self._holders)

    def _attributes(self, value: Any) -> Attributes:
        """The attributes of an object, sorted by name, without those that are excluded."""
        attributes = self._reader(type(value)).read(value)
        if self._excluded is None or not self._may_exclude(value):
            return attributes
        return [one for one in attributes if not self._excluded(value, one[0])]

    def _reader(self, kind: type) -> AttributeReader:
        reader = self._readers.get(kind)
        if reader is None:
            reader = self._readers[kind] = AttributeReader(kind, self.lookup.name(kind))
        return reader


HANDLE = "SwigPyObject"  # What an object wrapped by SWIG has as `this`. The class has no module: it would say nothing.
# Objects of packages that are some numbers, by the names of their classes.
_NUMBERS: dict[str, Callable[[Any], list[Any]]] = {
    "pygame.rect.Rect": lambda value: [value.x, value.y, value.w, value.h],
    "pygame.rect.FRect": lambda value: [value.x, value.y, value.w, value.h],
    "pygame.math.Vector2": lambda value: [value.x, value.y, value.epsilon],
    "pygame.math.Vector3": lambda value: [value.x, value.y, value.z, value.epsilon],
    "pygame.color.Color": lambda value: [value.r, value.g, value.b, value.a],
}
# The content of an instance of a subclass, as an instance of the container itself.
_PLAIN: dict[type, Callable[[Any], Any]] = {
    int: int.__int__,
    float: float.__float__,
    complex: complex.__pos__,
    str: str.__str__,
    bytes: lambda value: bytes.__getitem__(value, slice(None)),
    tuple: lambda value: tuple(tuple.__iter__(value)),
    bytearray: lambda value: bytes(memoryview(value)),
    array.array: lambda value: (value.typecode, bytes(memoryview(value).cast("B"))),
}


def _shown(key: Any) -> str:
    """A key in a path: its text if that has no address, otherwise its type."""
    return repr(key) if is_pure(key) else f"a {type(key).__name__}"


def _rest_of(whole: range, index: int | None = None) -> range:
    """What an iterator over a range still gives, as the range that no other one of the same numbers differs from."""
    rest = whole[index or 0 :]
    return range(rest[0], rest[-1] + (1 if rest.step > 0 else -1), rest.step) if rest else range(0)


_PLAIN_KINDS: dict[type, Callable[[ValueContents, Any], Content]] = {
    OrderedDict: lambda self, value: self._pairs(b"OrderedDict", value.items()),
    Counter: lambda self, value: self._pairs(b"Counter", dict.items(value)),
    defaultdict: ValueContents.of_default_dict,
    deque: ValueContents.of_deque,
    bytearray: lambda _, value: (b"bytearray", [bytes(value)], ()),
    array.array: lambda _, value: (b"array.array " + value.typecode.encode(), [value.tobytes()], ()),
    memoryview: lambda _, value: (b"memoryview " + value.format.encode(), [value.shape, value.tobytes()], ()),
    types.MappingProxyType: lambda _, value: (b"mapping proxy", gc.get_referents(value), ()),
    types.CellType: lambda _, value: (b"cell", gc.get_referents(value), ()),
    types.FunctionType: ValueContents.of_closure,
    functools.partial: lambda _, value: (b"partial", [value.func, value.args, value.keywords], ()),
    itertools.count: lambda _, value: (b"count " + repr(value).encode(), (), ()),
    itertools.repeat: ValueContents.of_repeat,
    **dict.fromkeys(map(type, _ITERATORS), ValueContents.of_iterator),
}
