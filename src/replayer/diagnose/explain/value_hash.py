"""Identify any value of a step by 64 bits: two processes can compare their values by these digests.

Equal values give equal digests in every process: no memory address and no hash of Python goes into them. The order of a
set does not count, since only iterating it shows one; that of a dict and a list does. A value that cannot be read (a
file, an object of an extension) counts by its type alone.
"""

from __future__ import annotations

import datetime as dt
import struct
import uuid
import weakref
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar
from decimal import Decimal
from fractions import Fraction
from functools import cache, partial
from pathlib import PosixPath, PurePosixPath, PureWindowsPath, WindowsPath
from types import BuiltinFunctionType, CoroutineType, FunctionType, GeneratorType, MethodType, ModuleType
from typing import Any

import numpy as np
import xxhash

from recorder.ambient.c_memory import is_memory, memory_of
from recorder.ambient.iterators import ITERATOR_TYPES, IteratorParts, parts_of
from recorder.ambient.roots import is_users
from replayer.diagnose.explain.held.generator_variables import frame_of, variables_of
from replayer.diagnose.explain.held.instance_objects import InstanceObjects
from replayer.diagnose.explain.held.random_states import generator_state
from replayer.playback.work_tree import without_tree_name
from sim.enum_members import without_places
from sim.kernel.class_names import module_of
from sim.kernel.state import Snapshot, State

PARTS_MAX = 20_000  # Of one value; of a larger one, the first parts and the size count.
PART_BYTES = 1600  # Reading one part takes as long as hashing this many bytes.
LEVELS_MAX = 12  # Nested containers and objects deeper than this count by their type.
MEMBER_LEVELS = 2  # Of a member of a set.
MEMBER_PARTS_MAX = 200
BITS_MAX = 2048  # An integer of 640 digits: so many may always be turned into text.

_NOTHING_HELD = InstanceObjects()
_DOUBLE = struct.Struct("<d")
PLAIN = (type(None), bool, int, str, bytes, complex, Ellipsis.__class__, range, slice)
_TIMES = (dt.datetime, dt.time)  # They may refer to a time zone of a user's class.
_BY_TEXT = {  # Their texts are their values; attributes show nothing of those that are of C types.
    *(dt.date, dt.timedelta, dt.timezone, uuid.UUID, Decimal, Fraction),
    *(PurePosixPath, PureWindowsPath, PosixPath, WindowsPath),
}
# Threads, loggers and the like change while threads run: they count by their types. A threading.local is of another module.
_OF_THREADS = ("threading", "concurrent", "multiprocessing", "subprocess", "logging")
_BY_NAME = (FunctionType, BuiltinFunctionType, ModuleType, type)


def is_cache(value: Any) -> bool:
    """Return True if value is a function with functools.lru_cache around it."""
    return callable(getattr(type(value), "cache_info", None))


def is_data(value: Any) -> bool:
    """Return True if a step may change value: if it is not a function, a class or a module."""
    is_code = isinstance(value, (*_BY_NAME, staticmethod, classmethod, property)) or callable(value)
    return not is_code or type(value) is weakref.ref or is_memory(type(value))


class Digester:
    """Makes digests, and counts the bytes that were hashed for them."""

    def __init__(
        self, state_offset_of: Callable[[Any], int | None] = lambda _: None, held: InstanceObjects = _NOTHING_HELD
    ) -> None:
        """state_offset_of: the offset of an array in the state's memory, or None; that memory is not hashed.

        held: what methods and the like lead to counts by its place there, and not only by its content.
        """
        self._state_offset_of = state_offset_of
        self.held = held
        self.hashed_bytes = 0
        self.parts = 0  # Of the last value.
        self._made: list[Any] = []

    def digest(self, value: Any) -> int:
        """64 bits that identify value."""
        hasher, left, made = xxhash.xxh3_64(), [PARTS_MAX], len(self._made)
        self._feed(hasher, value, 0, {}, left)
        del self._made[made:]
        self.parts = PARTS_MAX - left[0]
        self.hashed_bytes += self.parts * PART_BYTES
        return hasher.intdigest()

    def _feed(self, hasher: Any, value: Any, level: int, seen: dict[int, int], left: list[int]) -> None:
        left[0] -= 1
        kind = type(value)
        if kind in PLAIN:  # Most values, and so first.
            hasher.update(f"{kind.__name__}:{plain_text(value)}".encode("utf-8", "surrogatepass"))
            return
        if kind is float:
            hasher.update(b"float:" + _DOUBLE.pack(value))  # By bytes: -0.0 is not 0.0, and a NaN is itself.
            return
        if isinstance(value, np.ndarray) and not value.ndim and self._is_outside_state(value):
            value = np.asarray(value)[()]  # Arithmetic turns such arrays into scalars, which a load then restores.
            kind = type(value)
        text = "" if isinstance(value, State | Snapshot) else value_text(value)  # Fields are watched one by one.
        if text is not None:
            hasher.update(f"{kind.__name__}:{text}".encode("utf-8", "surrogatepass"))
            return
        hasher.update(b"array:" if isinstance(value, np.ndarray) else f"{kind.__name__}:".encode())
        if isinstance(value, float | np.generic):
            hasher.update(
                _DOUBLE.pack(value) if isinstance(value, float) else value.dtype.str.encode() + value.tobytes()
            )
        elif isinstance(value, np.ndarray):
            self._feed_array(hasher, value, level, seen, left)
        elif isinstance(value, _BY_NAME):
            self._feed_named(hasher, value, level, seen, left)
        elif is_memory(kind):
            hasher.update(memory_of(value) or b"")
        elif is_cache(value):
            hasher.update(str(value.cache_info().currsize).encode())
        elif level >= LEVELS_MAX or left[0] < 0 or kind.__module__.partition(".")[0] in _OF_THREADS:
            hasher.update(str(len(value)).encode() if isinstance(value, list | tuple | dict | set) else b"")
        elif id(value) in seen:
            hasher.update(f"again {seen[id(value)]}".encode())
        else:
            seen[id(value)] = len(seen)
            self._feed_parts(hasher, value, level + 1, seen, left)

    def _feed_named(self, hasher: Any, value: Any, level: int, seen: dict[int, int], left: list[int]) -> None:
        """A module, a class or a function by its name, a function with the values that its closure keeps.

        Not by its code: of two versions of that, the edited line says more.
        """
        if not isinstance(value, FunctionType):
            hasher.update(f"{value.__module__ if not isinstance(value, ModuleType) else ''}.{value.__name__}".encode())
            return
        hasher.update(f"{value.__module__}.{value.__qualname__}".encode())
        if value.__closure__ and level < LEVELS_MAX and id(value) not in seen:
            seen[id(value)] = len(seen)
            kept = self._kept_alive(_closure_data(value))
            self._feed(hasher, kept, level + 1, seen, left)
            hasher.update(self._places(kept.values()))

    def order_of(self, values: set[Any] | frozenset[Any]) -> tuple[int, int]:
        """64 bits for the members of a set, and 64 for the order in which it gives them."""
        members = [self._member(value, 1) for value in values]
        hashes = [xxhash.xxh3_64_intdigest(",".join(map(str, one)).encode()) for one in (sorted(members), members)]
        self.hashed_bytes += PART_BYTES * len(members)
        return hashes[0], hashes[1]

    def _member(self, value: Any, level: int) -> int:
        """The digest of a member of a set, which is the same in any order: with its own numbers and its own limit.

        Its values count, what they lead to does not: members refer to each other, and to what holds the set.
        """
        hasher = xxhash.xxh3_64()
        self._feed(hasher, value, max(level, LEVELS_MAX - MEMBER_LEVELS), {}, [MEMBER_PARTS_MAX])
        return hasher.intdigest()

    def _kept_alive(self, made: Any) -> Any:
        """A value that was made for the digest: as long as it lives, no other one gets its id."""
        self._made.append(made)
        return made

    def _places(self, values: Iterable[Any]) -> bytes:
        """Where objects are that something leads to; empty as long as nothing is held."""
        owners = (one.__self__ if isinstance(one, MethodType) else one for one in values)
        return "".join(map(self.held.text_of_place, owners)).encode()

    def _is_outside_state(self, array: Any) -> bool:
        """Return True if an array holds plain values outside the state's memory."""
        plain = np.asarray(array)
        return not plain.dtype.hasobject and self._state_offset_of(plain) is None

    def _feed_array(self, hasher: Any, value: Any, level: int, seen: dict[int, int], left: list[int]) -> None:
        plain = np.asarray(value)
        hasher.update(f"{plain.dtype.str}{plain.shape}".encode())
        offset = self._state_offset_of(plain)
        if offset is not None:
            hasher.update(f"state {offset} {plain.strides}".encode())
        elif plain.dtype.hasobject:
            self._feed(hasher, plain.tolist(), level + 1, seen, left)
        else:
            self.hashed_bytes += plain.nbytes
            hasher.update(np.ascontiguousarray(plain).view(np.uint8).data if plain.ndim else plain.tobytes())

    def _feed_parts(self, hasher: Any, value: Any, level: int, seen: dict[int, int], left: list[int]) -> None:
        match value:
            case list() | tuple() | deque():
                hasher.update(f"{len(value)}{rule_of(value)}".encode())
                for part in value:
                    if left[0] < 0:
                        break
                    self._feed(hasher, part, level, seen, left)
            case set() | frozenset():
                members = sorted(self._member(part, level) for part in value)
                left[0] -= len(members)
                hasher.update(",".join(map(str, members)).encode())
            case Mapping() if isinstance(value, dict):
                hasher.update(rule_of(value).encode())
                for key, part in value.items():
                    if left[0] < 0:
                        break
                    self._feed(hasher, key, level, seen, left)
                    self._feed(hasher, part, level, seen, left)
            case MethodType():
                hasher.update(f"{value.__func__.__qualname__}{self.held.text_of_place(value.__self__)}".encode())
            case GeneratorType() | CoroutineType() | weakref.ref() | ContextVar() | partial():
                self._feed(hasher, self._kept_alive(_reached(value)), level, seen, left)
                hasher.update(self._places(_led_to(value)))
            case _ if type(value) in ITERATOR_TYPES:
                self._feed(hasher, self._kept_alive(_held(parts_of(value))), level, seen, left)
            case _:
                for name, part in (generator_state(value) or _numbers_of(value) or attributes_of(value)).items():
                    hasher.update(name.encode())
                    self._feed(hasher, part, level, seen, left)


def _numbers_of(value: Any) -> dict[str, Any]:
    """The numbers of an array of another library, such as a tensor of PyTorch, as they lie in memory; empty for any other value.

    Empty also where these numbers cannot be read, such as on a graphics card, and of a class of the user's: it counts by its
    type, or its attributes, then.
    """
    kind = type(value)
    if not callable(getattr(kind, "__dlpack__", None)) or is_users(module_of(kind)):  # None of the user's code is run.
        return {}
    try:
        return {"numbers": np.from_dlpack(value.detach() if callable(getattr(kind, "detach", None)) else value)}
    except Exception:  # noqa: BLE001 - the code of another library may raise anything
        return {}


def rule_of(value: Any) -> str:
    """What a container does by itself: the maximum length of a deque, what a defaultdict makes; empty if nothing."""
    if isinstance(value, deque):
        return "" if value.maxlen is None else f"at most {value.maxlen}"
    if not isinstance(value, defaultdict) or value.default_factory is None:
        return ""
    made = value.default_factory
    code = getattr(made, "__code__", None)
    name = getattr(made, "__qualname__", type(made).__qualname__)
    return f"default {name}" + ("" if code is None else f" at line {code.co_firstlineno}")


def plain_text(value: Any) -> str:
    """The text of a plain value; of an integer with more digits than Python turns into text here, its hexadecimal digits."""
    return hex(value) if type(value) is int and value.bit_length() > BITS_MAX else without_tree_name(repr(value))


def _closure_data(function: FunctionType) -> dict[str, Any]:
    """The variables of a closure that a step may change, by name; of functions and classes in containers, their names."""
    found: dict[str, Any] = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            value = cell.cell_contents
        except ValueError:  # Never assigned.
            continue
        if isinstance(value, Mapping) and not isinstance(value, dict):
            continue  # Such as a memo by weak references.
        if is_data(value) or (isinstance(value, FunctionType) and value.__closure__):
            found[name] = value
    return found


def value_text(value: Any) -> str | None:
    """The text of a number, a time, a path and so on, which shows its whole value; None for other kinds of values."""
    if (kind := type(value)) in _BY_TEXT:
        return without_tree_name(str(value))
    if kind in _TIMES:
        zone = value.tzinfo
        zone_text = "" if zone is None else f" {zone if type(zone) is dt.timezone else type(zone).__name__}"
        return f"{value.replace(tzinfo=None)}{' fold' if value.fold else ''}{zone_text}"
    return None


def _reached(value: Any) -> Any:
    """The place that a generator has reached, with its variables, or the referent of a weak reference by its plain values.

    What is referred to weakly may refer back. Of a context variable: its value. Of a partial function: that, and the arguments.
    """
    if isinstance(value, ContextVar):
        return current(value)
    if isinstance(value, partial):
        return [value.func, value.args, value.keywords]
    if isinstance(value, weakref.ref):
        referent = value()
        return None if referent is None else [type(referent).__qualname__, _plain_of(attributes_of(referent))]
    frame = frame_of(value)
    return None if frame is None else [frame.f_lineno, frame.f_lasti, variables_of(value, is_whole_text)]


def _led_to(value: Any) -> Iterable[Any]:
    """The objects that a weak reference or the arguments of a partial function lead to."""
    if isinstance(value, partial):
        return (*value.args, *value.keywords.values())
    return (value(),) if isinstance(value, weakref.ref) else ()


def current(variable: ContextVar[Any]) -> tuple[Any, ...]:
    """The value of a variable in this context; nothing if it has none."""
    try:
        return (variable.get(),)
    except LookupError:
        return ()


def is_whole_text(value: Any) -> bool:
    """Return True for a number, a text, a time and the like, whose text is all of it."""
    return type(value) in (*PLAIN, float) or value_text(value) is not None


def _plain_of(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: one for name, one in values.items() if type(one) in (*PLAIN, float)}


def _held(parts: IteratorParts | None) -> tuple[Any, ...]:
    return () if parts is None else parts.held


@cache
def _slots_of(kind: type) -> list[tuple[str, Any]]:
    """Names and members of the slots of a class."""
    members = []
    for cls in kind.__mro__:
        slots = cls.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            member = cls.__dict__.get(name)
            if name not in {"__weakref__", "__dict__"} and member is not None:
                members.append((name, member))
    return members


def attributes_of(value: Any) -> dict[str, Any]:
    """The values in an object's dictionary and slots; no property and no __getattr__ is run."""
    attributes: dict[str, Any] = {}
    for name, member in _slots_of(type(value)):  # type: ignore[arg-type] # A class is hashable.
        try:
            attributes[name] = member.__get__(value)
        except AttributeError:
            continue  # An empty slot.
    own = getattr(value, "__dict__", None)
    return attributes | without_places(value, own) if isinstance(own, dict) else attributes
