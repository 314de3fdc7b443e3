"""Encode Python values as bytes without pickle, and decode them: numbers, texts, arrays, generators, containers.

Shared objects stay shared: an object that occurs twice is written once, and so is the memory of a view of an array.
Types are restored exactly: a tuple stays a tuple, an np.int64 stays an np.int64, -0.0 keeps its sign.

Layout: MessagePack. None, bool, int (64 bits), float, str and bytes are written as they are. Everything else is an
array whose first element is a letter (see the methods of ValueEncoder and the matches in ValueDecoder).

Invariants:
    1. Equal values give equal bytes, in every process: sets are written in the order of their encoded elements.
    2. Decoding calls only the constructors that are named here.
"""

from __future__ import annotations

import re
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import msgpack
import numpy as np

from sim.adapters.capture.rng_state import bits_of, generator_from_plain, generator_to_plain, is_generator
from sim.kernel.class_names import module_of
from sim.kernel.foreign_arrays import (
    ForeignArrayError,
    array_kind_from_plain,
    is_foreign_array,
    is_immutable_array,
    kind_of,
    like,
    to_numpy,
)
from sim.kernel.plain_data import DECODE_ERRORS
from sim.kernel.schema import schema_from_plain, schema_to_plain
from sim.kernel.state import State

DEPTH_MAX = 100  # Values nested more deeply are objects in disguise; Python itself gives up at 1,000.
_PLAIN = (bool, int, float, str, bytes)
_ATOMS = frozenset((type(None), *_PLAIN))
_INT_MIN, _INT_MAX = -(1 << 63), (1 << 64) - 1
_DTYPE_TEXT = re.compile(r"([<|][biufc]\d{1,2}|\|S\d{1,9}|<U\d{1,9})")  # NumPy itself would parse far more.
_FACTORIES: dict[str, Callable[[], Any]] = {"int": int, "float": float, "list": list, "dict": dict, "set": set}
_NAMES = {factory: name for name, factory in _FACTORIES.items()}

_pack = msgpack.Packer(use_bin_type=True, autoreset=True).pack


class NotPlainError(TypeError):
    """A value that cannot be encoded without pickle.

    Attributes:
        path: the path to the value from the outermost one.
        value: the value.
        why: the reason and what to do instead, if more is known than that; otherwise empty.
    """

    def __init__(self, path: str, value: Any, why: str = "") -> None:
        """why: what is known of the reason."""
        super().__init__(path, value)
        self.path = path
        self.value = value
        self.why = why

    def __str__(self) -> str:
        return f"{self.path} is {module_of(type(self.value))}.{type(self.value).__qualname__}"


class OtherValues(Protocol):
    """Writes and makes values that are not among those of this module, such as objects of the user's classes."""

    def place(self, value: Any, path: str, encoder: ValueEncoder, depth: int) -> Any:
        """The form of a mutable value that is found again where it is; None for any other."""

    def elements(self, value: Any, path: str, encoder: ValueEncoder, depth: int) -> Any:
        """The form of a set or frozenset whose elements or whose order need one of their own; None for any other."""

    def tree(self, value: Any, path: str, encoder: ValueEncoder, depth: int) -> Any:
        """The form of a value for MessagePack: a list that begins with one of LETTERS. Raises NotPlainError."""

    def value(self, tree: list[Any], decoder: ValueDecoder) -> Any:
        """The value of such a form. Raises ValueError, TypeError, LookupError."""


LETTERS = "FGHNOPTU"  # Of the forms that OtherValues writes.


def encode_value(value: Any, known: Mapping[int, str] | None = None, others: OtherValues | None = None) -> bytes:
    """Encode value as bytes. known: names of arrays and generators that are kept elsewhere, by id.

    others: writes what this module does not. Raises NotPlainError for any other value, and for one that is nested too deeply.
    """
    encoded: bytes = _pack(ValueEncoder(known or {}, others).tree(value, "value", 0))
    return encoded


def decode_value(data: bytes, known: Mapping[str, Any] | None = None, others: OtherValues | None = None) -> Any:
    """Decode a value of encode_value. known: objects kept elsewhere, by name. Raises ValueError for other bytes."""
    try:
        tree = msgpack.unpackb(data, raw=False, strict_map_key=False)
        return ValueDecoder(known or {}, others).whole(tree)
    except (*DECODE_ERRORS, AttributeError, LookupError, OverflowError) as error:
        raise ValueError(f"not a captured value: {error}") from None


def encode_state(state: State) -> bytes:
    """A whole state, with its schema, as bytes."""
    return encode_value([schema_to_plain(state.layout.schema), dict(state.layout.capacities), state.arena.tobytes()])


def decode_state(content: bytes) -> State:
    """The state that encode_state wrote. Raises ValueError for other bytes."""
    plain, capacities, arena = decode_value(content)
    state = State(schema_from_plain(plain), capacities)
    if state.layout.size_bytes != len(arena):
        raise ValueError("expected a captured state, got bytes of another size")
    state.arena[:] = np.frombuffer(arena, np.uint8)
    return state


def is_array(value: Any) -> bool:
    """Return True for an array of numbers, booleans or texts of fixed length."""
    return type(value) is np.ndarray and _DTYPE_TEXT.fullmatch(value.dtype.newbyteorder("<").str) is not None


def is_immutable(value: Any) -> bool:
    """Return True for an immutable value that can be encoded: a number, a text, or a tuple or frozenset of these."""
    kind = type(value)
    if kind in _ATOMS or kind is complex:
        return True
    if kind is tuple or kind is frozenset:
        return all(map(is_immutable, value))
    return isinstance(value, np.generic) and _DTYPE_TEXT.fullmatch(value.dtype.newbyteorder("<").str) is not None


class ValueEncoder:
    """One walk through a value. Shared objects are numbered in the order in which they occur."""

    def __init__(self, known: Mapping[int, str], others: OtherValues | None) -> None:
        self._known, self._others = known, others
        self._numbers: dict[int, int] = {}
        # By the identity of a bit generator, the number of the first generator over it.
        self._over_bits: dict[int, int] = {}
        self._alive: list[Any] = []  # References, so that no id is used twice.

    def tree(self, value: Any, path: str, depth: int) -> Any:
        """The form of value for MessagePack. Raises NotPlainError."""
        kind = type(value)
        if kind in _ATOMS:
            if kind is int and not _INT_MIN <= value <= _INT_MAX:
                return ["i", str(value)]
            return value
        if kind is tuple:
            if depth > DEPTH_MAX:
                raise NotPlainError(path, value)
            return ["t", *(self.tree(item, f"{path}[{index}]", depth + 1) for index, item in enumerate(value))]
        if kind is complex:
            return ["c", value.real, value.imag]
        if isinstance(value, np.generic) and _DTYPE_TEXT.fullmatch(value.dtype.newbyteorder("<").str):
            return ["n", *_array_parts(np.asarray(value))]
        if kind is frozenset:
            placed = None if self._others is None else self._others.elements(value, path, self, depth)
            return placed if placed is not None else ["f", *self._sorted(value, path, depth)]
        if id(value) in self._known:
            return ["k", self._known[id(value)]]
        if id(value) in self._numbers:
            return ["r", self._numbers[id(value)]]
        if depth > DEPTH_MAX:
            raise NotPlainError(path, value)
        placed = None if self._others is None else self._others.place(value, path, self, depth)
        if placed is not None:
            return placed
        if is_array(value):
            form = self._array(value, path)
            return form if value.flags.writeable else ["w", form]
        return self._shared(value, path, depth)

    def enter(self, value: Any) -> None:
        """Give a shared object the next number, before what is in it has one."""
        self._numbers[id(value)] = len(self._numbers)
        self._alive.append(value)

    def _shared(self, value: Any, path: str, depth: int) -> Any:
        kind = type(value)
        if kind is list or kind is deque:
            self.enter(value)
            items = [self.tree(item, f"{path}[{index}]", depth + 1) for index, item in enumerate(value)]
            return ["l", *items] if kind is list else ["q", value.maxlen, *items]
        if kind is dict or kind is OrderedDict:
            self.enter(value)
            return ["d" if kind is dict else "o", *self.pairs(value, path, depth)]
        if kind is defaultdict and (value.default_factory in _NAMES or value.default_factory is None):
            self.enter(value)
            return ["e", _NAMES.get(value.default_factory), *self.pairs(value, path, depth)]
        if kind is set:
            self.enter(value)
            placed = None if self._others is None else self._others.elements(value, path, self, depth)
            return placed if placed is not None else ["s", *self._sorted(value, path, depth)]
        if kind is bytearray:
            self.enter(value)
            return ["b", bytes(value)]
        if is_generator(value):
            return self._generator(value, path, depth)
        if is_foreign_array(value) and is_immutable_array(value):
            return self._foreign(value, path)
        if self._others is None:
            raise NotPlainError(path, value)
        return self._others.tree(value, path, self, depth)

    def _generator(self, value: Any, path: str, depth: int) -> Any:
        bits = bits_of(value)
        first = None if bits is None else self._over_bits.setdefault(id(bits), len(self._numbers))
        is_second = first is not None and first != len(self._numbers)
        self.enter(value)
        plain = self.tree(generator_to_plain(value), path, depth + 1)
        return ["g", plain, first] if is_second else ["g", plain]

    def _foreign(self, value: Any, path: str) -> Any:
        try:
            kind, bits = kind_of(value), to_numpy(value)
        except ForeignArrayError:
            raise NotPlainError(path, value) from None
        self.enter(value)
        return ["x", kind.to_plain(), *_array_parts(bits)]

    def pairs(self, value: Mapping[Any, Any], path: str, depth: int) -> list[Any]:
        """The forms of the keys and values of a dict, in turns."""
        pairs = []
        for key, item in value.items():
            pairs.append(self.tree(key, f"a key of {path}", depth + 1))
            pairs.append(self.tree(item, f"{path}[{key!r}]", depth + 1))
        return pairs

    def _sorted(self, value: Any, path: str, depth: int) -> list[Any]:
        return sorted((self.tree(item, f"an element of {path}", depth + 1) for item in value), key=_pack)

    def _array(self, value: Any, path: str) -> Any:
        base = value
        while isinstance(base.base, np.ndarray):
            base = base.base
        if base is value or not is_array(base):
            self.enter(value)
            return ["a", *_array_parts(value)]
        owner = self.tree(base, path, 0)
        self.enter(value)
        offset = value.__array_interface__["data"][0] - base.__array_interface__["data"][0]
        return ["v", owner, value.dtype.newbyteorder("<").str, list(value.shape), list(value.strides), offset]


def _array_parts(array: np.ndarray[Any, Any]) -> list[Any]:
    little = array.astype(array.dtype.newbyteorder("<"), copy=False)
    return [little.dtype.str, list(little.shape), "F" if _is_fortran(little) else "C", little.tobytes("A")]


def _is_fortran(array: np.ndarray[Any, Any]) -> bool:
    return bool(array.flags.f_contiguous and not array.flags.c_contiguous)


class ValueDecoder:
    """One walk through a decoded MessagePack value."""

    def __init__(self, known: Mapping[str, Any], others: OtherValues | None) -> None:
        self._known, self._others = known, others
        self._made: list[Any] = []
        self._later: list[Callable[[], object]] = []

    def whole(self, tree: Any) -> Any:
        """The outermost value, when all that is in it is made. Raises as value does."""
        made = self.value(tree)
        for work in self._later:
            work()
        return made

    def later(self, work: Callable[[], object]) -> None:
        """Do this when all objects have their attributes: by these they may hash."""
        self._later.append(work)

    def value(self, tree: Any) -> Any:
        """The value. Raises ValueError, TypeError, LookupError."""
        if type(tree) is not list:
            return tree
        match tree:
            case ["l", *items]:
                return self._fill([], items)
            case ["t", *items]:
                return tuple(map(self.value, items))
            case ["d", *pairs]:
                return self.fill_pairs({}, pairs)
            case ["n", *parts]:
                return _array_from(parts)[()]
            case ["a", *parts]:
                return self.enter(_array_from(parts))
            case ["v", owner, str(dtype), list(shape), list(strides), int(offset)] if _DTYPE_TEXT.fullmatch(dtype):
                base = self.value(owner)
                return self.enter(np.ndarray(tuple(shape), dtype, base, offset, tuple(strides)))
            case ["r", int(number)] if 0 <= number < len(self._made):
                return self._made[number]
            case ["k", str(name)]:
                return self._known[name]
            case ["i", str(digits)]:
                return int(digits)
            case ["c", float(real), float(imaginary)]:
                return complex(real, imaginary)
        return self._rare(tree)

    def _rare(self, tree: list[Any]) -> Any:
        match tree:
            case ["w", form]:
                array = self.value(form)
                self.later(lambda: array.setflags(write=False))  # A view may be writeable where its base is not.
                return array
            case ["g", plain, *first] if len(first) < 2:
                self.enter(None)
                number = len(self._made) - 1
                over = bits_of(self._made[first[0]]) if first else None
                made = self._made[number] = generator_from_plain(self.value(plain), over=over)
                return made
            case ["s", *items]:
                made, elements = self.enter(set()), list(map(self.value, items))
                self.later(lambda: made.update(elements))
                return made
            case ["f", *items]:
                return frozenset(map(self.value, items))
            case ["q", int() | None as length, *items]:
                made = self.enter(deque(maxlen=length))
                made.extend(map(self.value, items))
                return made
            case ["o", *pairs]:
                return self.fill_pairs(OrderedDict(), pairs)
            case ["e", str() | None as factory, *pairs]:
                return self.fill_pairs(defaultdict(None if factory is None else _FACTORIES[factory]), pairs)
            case ["b", bytes(content)]:
                return self.enter(bytearray(content))
            case ["x", list(kind), *parts]:
                return self.enter(like(None, _array_from(parts), array_kind_from_plain(kind)))
        if self._others is not None and tree and tree[0] in LETTERS:
            return self._others.value(tree, self)
        raise ValueError(f"expected a captured value, got {str(tree)[:40]}")

    def enter(self, made: Any) -> Any:
        """Give a shared object the next number, before what is in it is made; return it."""
        self._made.append(made)
        return made

    def _fill(self, made: list[Any], items: list[Any]) -> list[Any]:
        self.enter(made)
        made.extend(map(self.value, items))
        return made

    def fill_pairs(self, made: dict[Any, Any], pairs: list[Any]) -> dict[Any, Any]:
        """Put keys and values, in turns, into a new dict, which has the next number; return it."""
        self.enter(made)
        items = [(self.value(key), self.value(item)) for key, item in zip(pairs[::2], pairs[1::2], strict=True)]
        if all(type(key) in _ATOMS for key, _ in items):
            _put(made, items)
        else:
            self.later(lambda: _put(made, items))
        return made


def _put(made: dict[Any, Any], items: list[tuple[Any, Any]]) -> None:
    for key, item in items:  # The update of a Counter would count.
        made[key] = item  # noqa: PERF403 - see above


def _array_from(parts: list[Any]) -> np.ndarray[Any, Any]:
    match parts:
        case [str(dtype), list(shape), ("C" | "F") as order, bytes(content)] if _DTYPE_TEXT.fullmatch(dtype):
            if dtype.startswith("<U"):
                content.decode("utf-32-le")  # NumPy accepts invalid code points, and fails when they are read.
            flat = np.frombuffer(content, dtype) if content else np.zeros(0, dtype)
            return flat.reshape(tuple(shape), order=order).copy(order)
    raise ValueError("expected an array")
