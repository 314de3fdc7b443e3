"""Immutable values as plain data for MessagePack, and back: what a cell of a graph holds besides numbers and nodes.

Interning, memos and the identity of dtypes do not enter: equal values of one type give equal bytes. A node (a mutable
object) inside a value is written as its number. Nothing is imported or called that a tape names: classes and functions
come from a ClassFinder, methods from the class of the object that they are bound to.
"""

from __future__ import annotations

import enum
import functools
import inspect
import logging
import re
import sys
import types
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

import msgpack
import numpy as np

from sim.adapters.capture.digest.loggers import logger_name, logger_named
from sim.adapters.capture.graph.attribute_setters import set_attributes
from sim.adapters.capture.graph.names.array_types import array_type_from_plain, array_type_to_plain
from sim.adapters.capture.graph.names.classes import LOCALS, ClassFinder, NotFoundError
from sim.adapters.capture.graph.names.known_names import NAMED, NAMES
from sim.adapters.capture.graph.names.local_functions import function_in, name_in_function
from sim.adapters.capture.graph.names.python_class import base_of, make_shell
from sim.adapters.capture.graph.unsavable import UnsavableError
from sim.adapters.capture.graph.values.canonical_order import canonical_order
from sim.adapters.capture.graph.values.foreign_values import decode_foreign, encode_foreign, is_foreign_constant
from sim.adapters.capture.graph.values.found_by_identity import refuse_found_by_identity
from sim.adapters.capture.graph.values.immutable_values import (
    decode_immutable,
    encode_immutable,
    is_immutable_kind,
)
from sim.kernel.foreign_arrays import is_foreign_array
from sim.kernel.sets.equal_hashes import hashes_alike
from sim.kernel.sets.set_layout import SetTable, frozen, table_of

_LARGE_INT = 1  # The type of MessagePack's extension for integers of more than 64 bits.
_ATOMS = frozenset((type(None), bool, int, float, str, bytes))
_BASES: tuple[type, ...] = (str, bytes, int, float, complex)
_NUMBERS = "biufcSUmM"  # The kinds of NumPy's scalars that are their bytes.
_SCALARS: dict[type, str] = {  # Those that lie in memory as they are written, and nearly all that a game holds.
    one: np.dtype(one).newbyteorder("<").str for one in (
        np.bool_, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64, np.float32, np.float64,
    ) if sys.byteorder == "little"
}  # fmt: skip
_DTYPE_TEXT = re.compile(r"[<>|=][biufcSUmMOV]\d{0,9}(\[\w{1,20}\])?")  # NumPy itself would parse far more.
DEPTH_MAX = 200  # Tuples inside tuples: Python itself gives up at 1,000.


def _pack_large(value: Any) -> msgpack.ExtType:
    if type(value) is not int:
        raise TypeError(f"expected plain data, got {type(value).__name__}")
    return msgpack.ExtType(_LARGE_INT, value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True))


def _unpack_large(kind: int, content: bytes) -> int:
    if kind != _LARGE_INT:
        raise ValueError(f"expected an integer, got an extension {kind}")
    return int.from_bytes(content, "little", signed=True)


_SURROGATES = "surrogatepass"  # Python's texts may hold lone ones.
pack: Callable[[Any], bytes] = msgpack.Packer(
    use_bin_type=True, autoreset=True, default=_pack_large, unicode_errors=_SURROGATES
).pack


def unpack(content: bytes) -> Any:
    """The plain data of pack. Raises ValueError for other bytes."""
    return msgpack.unpackb(content, raw=False, strict_map_key=False, ext_hook=_unpack_large, unicode_errors=_SURROGATES)


def marked_in(tree: Any, letter: str) -> tuple[Any, ...]:
    """The numbers of the nodes (letter "r"), or the names of objects saved elsewhere ("k"), in order."""
    if type(tree) is not list or not tree or tree[0] in ("x", "a", "d"):
        return ()
    if tree[0] == letter:
        return (tree[1],)
    return tuple([found for part in tree[1:] for found in marked_in(part, letter)])


class Numbers(Protocol):
    """The numbers of nodes."""

    def number_of(self, value: Any) -> int:
        """The number of a mutable object; a new one if it was not met before. Raises UnsavableError."""

    def node_at(self, address: int) -> tuple[int, Any] | None:
        """The number and the object of a node, by its identity; None for anything else."""


class TreeEncoder:
    """Encodes values of one graph.

    Attributes:
        known: the names of objects that are saved elsewhere, by identity.
        used: those of these names that were met.
    """

    def __init__(self, numbers: Numbers, finder: ClassFinder) -> None:
        self._numbers, self._finder = numbers, finder
        self.known: Mapping[int, str] = {}
        self.used: set[str] = set()
        self._node_kinds: set[type] = {list, dict, set, functools.partial}

    def node_at(self, address: int) -> tuple[int, Any] | None:
        """The number and the object of a node, by its identity; None for anything else."""
        return self._numbers.node_at(address)

    def by_name(self, value: Any) -> Any:
        """The plain data of a value in which there is no node, such as a class or a function. Raises UnsavableError."""
        if type(value) is types.FunctionType and LOCALS in value.__qualname__:
            return ["L", *name_in_function(value, self._finder)]
        edges: list[int] = []
        tree = self._factory(value, edges) if callable(value) or value is None else None
        if edges or (tree is None and value is not None):
            raise UnsavableError("it cannot be found again by a name", "use a class or a function of a module", value)
        return tree

    def _factory(self, value: Any, edges: list[int]) -> Any:
        """As tree, with a partial as a value: the factory of a defaultdict has no identity of its own."""
        if type(value) is not functools.partial or vars(value):
            return self.tree(value, edges)
        bound = [self._factory(one, edges) for one in value.args]
        named = [["t", key, self._factory(one, edges)] for key, one in value.keywords.items()]
        return ["p", self._factory(value.func, edges), ["t", *bound], ["t", *named]]

    def tree(self, value: Any, edges: list[int], depth: int = 0) -> Any:
        """The plain data of a value; appends the numbers of the nodes in it to edges. Raises UnsavableError."""
        kind = type(value)
        if kind in _ATOMS:
            return value
        if depth > DEPTH_MAX:
            raise UnsavableError("tuples are nested too deeply", "keep the values in a list", value)
        if kind is tuple:
            return ["t", *[self.tree(item, edges, depth + 1) for item in value]]
        named = self.known.get(id(value))
        if named is not None:
            self.used.add(named)
            return ["k", named]
        if kind in _SCALARS:
            return ["n", _SCALARS[kind], value.tobytes()]
        made = self._of_python(value, kind, edges, depth)
        if made is None:
            made = self._of_types(value, kind, edges, depth)
        if made is None:
            number = self._numbers.number_of(value)
            edges.append(number)
            made = ["r", number]
            if kind not in self._node_kinds and _is_always_a_node(value):
                self._node_kinds.add(kind)
        return made

    def is_node(self, value: Any) -> bool:
        """Return True for an object of a kind that was met, and of which each one is a node."""
        return type(value) in self._node_kinds and id(value) not in self.known and id(value) not in NAMES

    def _of_python(self, value: Any, kind: type, edges: list[int], depth: int) -> list[Any] | None:
        """Numbers and containers that cannot change; None for others."""
        if kind is frozenset:
            return self._of_frozenset(value, edges, depth)
        if isinstance(value, enum.Enum):
            name = self._finder.name_of(kind)
            if value.name in kind.__members__:  # type: ignore[attr-defined]
                return ["e", name, value.name]
            return ["E", name, self.tree(value.value, edges, depth + 1)]
        if kind is complex:
            return ["c", value.real, value.imag]
        if isinstance(value, np.generic) and value.dtype.kind in _NUMBERS and type(value) is value.dtype.type:
            little = value.dtype.newbyteorder("<")
            return ["n", little.str, value.astype(little).tobytes()]
        if isinstance(value, tuple) and not getattr(value, "__dict__", None):
            if hasattr(kind, "n_sequence_fields"):
                raise UnsavableError("a tuple with names of C code", "keep tuple(...) of it in its place", value)
            name = self._finder.name_of(kind)
            return ["T", name, *[self.tree(item, edges, depth + 1) for item in tuple.__iter__(value)]]
        base = next((base for base in _BASES if isinstance(value, base)), None)
        if base is not None and not getattr(value, "__dict__", None):
            return ["s", self._finder.name_of(kind), self.tree(base.__new__(base, value), edges, depth + 1)]
        plain = encode_immutable(value)
        return None if plain is None else ["x", plain]

    def _of_frozenset(self, value: frozenset[Any], edges: list[int], depth: int) -> list[Any]:
        """Elements in their order, where it is the same in every process; sorted otherwise."""
        refuse_found_by_identity(value)
        if not all(map(hashes_alike, value)):
            found: list[int] = []
            trees = [self.tree(item, found, depth + 1) for item in canonical_order(value, self.node_at)]
            edges.extend(found)
            return ["S", *sorted(trees, key=pack)]
        try:
            table = table_of(value)
            made = frozen(list(value), table)
        except ValueError:
            made = None
        if made is None or list(map(id, made)) != list(map(id, value)):
            raise UnsavableError("the order of this frozenset cannot be made again", "keep a tuple in its place", value)
        return ["f", table.to_plain(), *[self.tree(item, edges, depth + 1) for item in value]]

    def _of_types(self, value: Any, kind: type, edges: list[int], depth: int) -> list[Any] | None:
        """Classes, functions, modules and bound methods; None for others."""
        finder = self._finder
        if id(value) in NAMES:
            return ["N", NAMES[id(value)]]
        if isinstance(value, type):
            return ["C", finder.name_of(value)]
        if kind is types.FunctionType:
            return ["F", finder.name_of_function(value)]
        if issubclass(kind, types.ModuleType):
            return ["M", finder.name_of_module(value)]
        if kind is types.MethodType:
            # By the function, not by the class of the object, which may be replaced while the method is held.
            return ["B", self.tree(value.__func__, edges, depth + 1), self.tree(value.__self__, edges, depth + 1)]
        if kind is types.BuiltinFunctionType:
            if issubclass(type(value.__self__), types.ModuleType):
                raise UnsavableError(
                    "a function of C code that is not among the known ones", "call it in a method of your own", value
                )
            owner = value.__self__ if isinstance(value.__self__, type) else type(value.__self__)
            if inspect.getattr_static(owner, value.__name__, None) is None:
                raise UnsavableError("a method that its class does not have", "name it in ignore=[...]", value)
            return ["m", self.tree(value.__self__, edges, depth + 1), value.__name__]
        name = logger_name(value, finder.own_module)
        if name is not None:
            return ["l", name]
        if isinstance(value, np.dtype):
            return ["d", array_type_to_plain(value)]
        if is_foreign_constant(value):
            return ["a", encode_foreign(value)]
        return None


class TreeDecoder:
    """Makes values from plain data."""

    def __init__(
        self,
        finder: ClassFinder,
        known: Mapping[str, Any],
        node: Callable[[int], Any],
        complete: Callable[[Iterable[int]], object] = list,
    ) -> None:
        """known: objects that are saved elsewhere, by name. node: the object of a number; raises ValueError.

        complete: sets the attributes of the objects of these numbers, by which they may hash. By default it does not.
        """
        self._finder, self._known, self._node, self._complete = finder, known, node, complete

    def forget(self) -> None:
        """Keep nothing alive."""
        self._known, self._node, self._complete = {}, int, list

    def value(self, content: bytes) -> Any:
        """The value of these bytes. Raises ValueError, LookupError."""
        return self.of(unpack(content))

    def of(self, tree: Any) -> Any:
        """The value of plain data. Raises ValueError, LookupError, TypeError."""
        if type(tree) is not list:
            return tree
        match tree:
            case ["r", int(number)]:
                return self._node(number)
            case ["t", *items]:
                return tuple(map(self.of, items))
            case ["k", str(name)]:
                if name not in self._known:
                    raise NotFoundError(
                        f"the state refers to {name}, which was left out, and does not hold it: an attribute that was not "
                        "left out held the same object; record it again"
                    )
                return self._known[name]
            case ["c", float(real), float(imaginary)]:
                return complex(real, imaginary)
            case ["n", str(dtype), bytes(content)] if _DTYPE_TEXT.fullmatch(dtype):
                return np.frombuffer(content, dtype)[0]
            case ["f", table, *items]:
                self._complete(marked_in(tree, "r"))
                return frozen([self.of(item) for item in items], SetTable.from_plain(table))
            case ["S", *items]:
                self._complete(marked_in(tree, "r"))
                return frozenset(map(self.of, items))
            case ["x", plain]:
                return decode_immutable(plain)
            case ["a", plain]:
                return decode_foreign(plain)
            case ["d", plain]:
                return array_type_from_plain(plain)
        return self._of_class(tree)

    def _of_class(self, tree: list[Any]) -> Any:
        match tree:
            case ["e", str(name), str(member)]:
                return self._class(name, enum.Enum).__members__[member]
            case ["E", str(name), value]:
                return self._class(name, enum.Flag)(self.of(value))
            case ["T", str(name), *items]:
                return tuple.__new__(self._class(name, tuple), map(self.of, items))
            case ["s", str(name), value]:
                plain = self.of(value)
                return type(plain).__new__(self._class(name, type(plain)), plain)
            case ["D", str(name), list(names), *items] if all(isinstance(one, str) for one in names):
                # A frozen dataclass, of which tapes hold one for all that were equal; now each is a node.
                made = make_shell(self._class(name, object))
                set_attributes(made, names, [self.of(item) for item in items])
                return made
            case ["C", str(name)]:
                return self._finder.find(name)
            case ["F" | "M" as letter, str(name)]:
                return self._finder.find_function(name) if letter == "F" else self._finder.find_module(name)
            case ["L", str(name), int(index)]:
                return function_in(name, index, self._finder)
            case ["N" | "l" as letter, str(name)]:
                return NAMED[name] if letter == "N" else logger_named(name, self._finder.own_module)
            case ["m", owner, str(name)]:
                return _method(self.of(owner), name)
            case ["B", function, owner]:
                return _bound(self.of(function), self.of(owner))
            case ["p", func, args, keywords]:  # Of a defaultdict. Tapes hold others, too; now each is a node.
                return functools.partial(self.of(func), *self.of(args), **dict(self.of(keywords)))
        raise ValueError(f"expected a value of a graph of objects, got {str(tree)[:40]}")

    def _class(self, name: str, base: type) -> Any:
        found = self._finder.find(name)
        if not issubclass(found, base):
            raise TypeError(f"expected a class derived from {base.__name__}, got {name}")
        return found


def _is_always_a_node(value: Any) -> bool:
    """Return True if no object of this class has a value that counts instead of its identity."""
    cls: Any = type(value)  # Any: mypy takes no class for hashable.
    if is_immutable_kind(cls) or is_foreign_array(value) or issubclass(cls, logging.Logger):
        return False
    return type(cls) is type and base_of(cls) is object


def _bound(function: Any, owner: Any) -> Any:
    if not isinstance(function, types.FunctionType):
        raise TypeError(f"expected a function to bind, got {type(function).__name__}")
    return types.MethodType(function, owner)


def _method(owner: Any, name: str) -> Any:
    """The method of this name, bound to the object; no attribute of the object itself is looked at."""
    cls = owner if isinstance(owner, type) else type(owner)
    found = inspect.getattr_static(cls, name)
    if not isinstance(
        found, types.FunctionType | types.MethodDescriptorType | types.ClassMethodDescriptorType | classmethod
    ):
        raise TypeError(f"expected a method {name} of {cls.__qualname__}, got {type(found).__name__}")
    return found.__get__(None if isinstance(owner, type) else owner, cls)
