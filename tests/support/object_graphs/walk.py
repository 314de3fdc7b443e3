"""The canonical form of an object graph: its values, types, orders and shared references as plain data.

Written without the code that captures, and without copies: the truth of the tests. Numbers are given to objects in the
order of a breadth-first walk, so that equal forms mean equal graphs, aliasing included.

Seen: each value's exact type, the sign of zeros, the bits of nan, the order of dicts, sets and frozensets of numbers
(of sets of objects that are hashed by identity: the members), unset slots, memory that arrays share, the states of
random generators, the positions of iterators. What an iterator of itertools.cycle gives next, and how the table of a
set continues, is seen by probe().
"""

from __future__ import annotations

import copy
import datetime as dt
import enum
import hashlib
import itertools
import random
import struct
import types
import weakref
from collections import Counter, OrderedDict, defaultdict, deque
from decimal import Decimal
from fractions import Fraction
from pathlib import PurePath
from typing import Any

import attrs
import numpy as np

from sim.kernel.sets.set_layout import table_of

from object_graphs.classes import SINGLETONS, Team

NAMED = (type, types.FunctionType, types.BuiltinFunctionType)
BY_TEXT = (Decimal, Fraction, PurePath, dt.date, dt.time, dt.timedelta, range, slice)
LIST_ITERATORS = (type(iter([])), type(reversed([])))
COPIED_ITERATORS = (type(iter(())), type(iter(range(0))), type(iter("")), type(iter(b"")), type(iter({})))
ITERATORS = (*LIST_ITERATORS, *COPIED_ITERATORS, itertools.count, itertools.repeat, itertools.cycle)
PROBES = 60  # Operations on a set; a table with other free places continues differently within some dozens.


@attrs.frozen(eq=False)
class Walk:
    """records: one for each mutable object, plain data; nodes: those objects, in the same order."""

    records: list[Any]
    nodes: list[Any]


def walk(root: Any) -> Walk:
    """Walk everything that the root reaches."""
    walker = _Walker()
    walker.value(root)
    records = []
    while len(records) < len(walker.nodes):
        records.append(walker.record(walker.nodes[len(records)]))
    for entry, target in walker.weak:
        entry.append("dead" if target is None else walker.numbers.get(id(target), "alive, held elsewhere"))
    return Walk(records, walker.nodes)


def canonical(root: Any) -> list[Any]:
    """The records of a walk alone."""
    return walk(root).records


def difference(actual: list[Any], expected: list[Any]) -> str | None:
    """The first record that differs, in one line each; None if all are equal."""
    for number, (one, other) in enumerate(itertools.zip_longest(actual, expected)):
        if one != other:
            return f"object {number} of the walk is\n    {one!r}\nexpected\n    {other!r}"
    return None


def is_hashed_by_identity(value: Any) -> bool:
    """Return True for an object whose place in a set differs from run to run."""
    return type(value).__hash__ is object.__hash__


class _Walker:
    def __init__(self) -> None:
        self.numbers: dict[int, int] = {}
        self.nodes: list[Any] = []
        self.weak: list[tuple[list[Any], Any]] = []
        self.memories: dict[int, tuple[int, int]] = {}  # By the array that owns it: its number, the first address seen.

    def value(self, v: Any) -> Any:
        """A value where it stands: unchangeable ones as they are, others by number."""
        for name, one in SINGLETONS.items():
            if v is one:
                return ("global", name)
        shown = _number_or_text(v) or self.compound(v)
        if shown is not None:
            return shown
        number = self.numbers.get(id(v))
        if number is None:
            number = self.numbers[id(v)] = len(self.nodes)
            self.nodes.append(v)
        return ("object", number)

    def compound(self, v: Any) -> Any:
        """An unchangeable value that holds others; None for any other kind."""
        kind = type(v)
        if isinstance(v, tuple):
            return (kind.__qualname__, [self.value(one) for one in v])
        if kind is frozenset:
            shown = [self.value(one) for one in v]
            return ("frozenset", shown if all(type(one) is int for one in v) else sorted(shown, key=repr))
        if kind is types.MethodType:
            return ("method", v.__func__.__qualname__, self.value(v.__self__))
        if kind is weakref.ref:
            entry: list[Any] = ["weak"]
            self.weak.append((entry, v()))
            return entry
        return None

    def record(self, v: Any) -> Any:
        """The content of a mutable object."""
        kind = type(v)
        if kind in (dict, OrderedDict, Counter, defaultdict):
            factory = self.value(v.default_factory) if kind is defaultdict else None
            return (kind.__name__, factory, [(self.value(key), self.value(one)) for key, one in v.items()])
        if kind in (list, deque):
            return (kind.__name__, v.maxlen if kind is deque else None, [self.value(one) for one in v])
        if kind is set:
            if any(map(is_hashed_by_identity, v)):
                return ("set by identity", [self.value(one) for one in sorted(v, key=lambda one: one.uid)])
            return ("set", [self.value(one) for one in v])
        if kind is bytearray:
            return ("bytearray", bytes(v))
        if kind is np.ndarray:
            return self.array(v)
        if isinstance(v, ITERATORS):
            return self.iterator(v)
        if kind is random.Random:
            version, words, gauss = v.getstate()
            return ("Random", version, _digest(np.array(words, np.uint32).tobytes()), gauss)
        if kind is np.random.Generator:
            return ("Generator", self.value(v.bit_generator))
        if kind is np.random.RandomState:
            return ("RandomState", _digest(_text(v.get_state(legacy=False)).encode()))
        if isinstance(v, np.random.BitGenerator):
            return (kind.__name__, _digest(_text(v.state).encode()), self.value(v._seed_seq))
        if kind is np.random.SeedSequence:
            return ("SeedSequence", str(v.entropy), v.spawn_key, v.pool_size, v.n_children_spawned)
        return self.attributes(v)

    def attributes(self, v: Any) -> Any:
        in_dict = [(name, self.value(one)) for name, one in sorted(vars(v).items())] if hasattr(v, "__dict__") else None
        slots = [name for cls in type(v).__mro__ for name in _as_tuple(vars(cls).get("__slots__", ()))]
        in_slots = [
            (name, self.value(getattr(v, name)))
            for name in slots
            if name not in ("__dict__", "__weakref__") and hasattr(v, name)
        ]
        return (type(v).__qualname__, in_dict, in_slots)

    def array(self, v: Any) -> Any:
        owner = v
        while type(owner.base) is np.ndarray:
            owner = owner.base
        address = v.__array_interface__["data"][0]
        number, first = self.memories.setdefault(id(owner), (len(self.memories), address))
        strides = [stride for stride, length in zip(v.strides, v.shape, strict=True) if length > 1]
        where = (number, address - first, strides) if v.size else None
        return ("array", v.dtype.str, v.shape, v.flags.writeable, v.tobytes(), where)

    def iterator(self, v: Any) -> Any:
        name = type(v).__name__
        if isinstance(v, LIST_ITERATORS):
            _, (target,), *place = v.__reduce__()
            return (name, self.value(target), place) if place and place != [-1] else (name, "used up")
        if isinstance(v, COPIED_ITERATORS):
            return (name, [self.value(one) for one in list(copy.copy(v))])
        if isinstance(v, itertools.cycle):
            return (name,)
        return (name, repr(v))


def _number_or_text(v: Any) -> Any:
    """A value that holds no other; None for any other kind."""
    kind = type(v)
    if v is None or v is Ellipsis or v is NotImplemented or kind in (str, bytes, bool):
        return (kind.__name__, v)
    if kind is int:
        return ("int", hex(v))
    if kind is float:
        return ("float", struct.pack("<d", v))
    if kind is complex:
        return ("complex", struct.pack("<dd", v.real, v.imag))
    if isinstance(v, enum.Enum):
        return ("member", kind.__qualname__, v.name, v is kind[v.name] if v.name in kind.__members__ else v.value)
    if isinstance(v, np.generic):
        return ("number", v.dtype.str, v.tobytes())
    if isinstance(v, np.dtype):
        return ("dtype", v.str)
    if isinstance(v, NAMED):
        return (kind.__name__, v.__module__, v.__qualname__)
    return (kind.__name__, repr(v)) if isinstance(v, BY_TEXT) else None


def probe(actual: Any, expected: Any, recorded: Any) -> None:
    """Continue each set, iterator and generator of two equal graphs alike; fail where they differ. Changes all three.

    recorded: the graph that was captured. A set of it that was found empty may have begun again (docs/adapt.md): it then
    pops elements in another order than the one that was never captured, and so must the restored one.
    """
    nodes = list(zip(*(walk(graph).nodes for graph in (actual, expected, recorded)), strict=True))
    in_order_of_addresses = {id(one.members) for one, *_ in nodes if isinstance(one, Team)}  # Also when they are empty.
    for number, (one, never_captured, captured) in enumerate(nodes):
        other = never_captured
        if type(one) is set and table_of(captured) != table_of(never_captured):
            other = captured
        assert type(one) is type(other)
        if id(one) in in_order_of_addresses:
            continue
        if type(one) is set and not any(map(is_hashed_by_identity, other)):
            _probe_sets(one, other, number)
        elif isinstance(one, ITERATORS):
            got, wanted = ([next(it, None) for _ in range(12)] for it in (one, other))
            assert canonical(got) == canonical(wanted), f"object {number} of the walk, a {type(one).__name__}"
        elif isinstance(one, random.Random | np.random.RandomState):
            assert (
                one.gauss(0, 1) == other.gauss(0, 1) if isinstance(one, random.Random) else one.rand() == other.rand()
            )
        elif isinstance(one, np.random.Generator):
            assert one.integers(0, 9, dtype=np.uint32) == other.integers(0, 9, dtype=np.uint32)
            assert one.random() == other.random(), f"object {number} of the walk, a generator"


def _probe_sets(one: set[Any], other: set[Any], seed: int) -> None:
    rng = random.Random(seed)
    for count in range(PROBES):
        what, key = (
            rng.random(),
            rng.choice((rng.randrange(64), rng.randrange(40) * 1024, (count % 7, rng.randrange(7)))),
        )
        if what < 0.35:
            popped = [member.pop() if member else None for member in (one, other)]
            assert popped[0] == popped[1], (
                f"object {seed} of the walk: pop() gave {popped[0]!r}, expected {popped[1]!r}"
            )
        for member in (one, other):
            member.add(key) if what > 0.45 else member.discard(key)
        assert list(map(repr, one)) == list(map(repr, other)), f"object {seed} of the walk: a set in another order"


def _as_tuple(slots: Any) -> tuple[str, ...]:
    return (slots,) if isinstance(slots, str) else tuple(slots)


def _digest(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=8).hexdigest()


def _text(value: Any) -> str:
    """A value as text, without addresses."""
    if isinstance(value, dict):
        return str({key: _text(one) for key, one in value.items()})
    if isinstance(value, np.ndarray):
        return str(value.tolist())
    return repr(value) if type(value).__repr__ is not object.__repr__ else type(value).__name__
