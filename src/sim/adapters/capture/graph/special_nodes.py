"""Nodes of C types: sets, arrays, generators of random numbers, iterators, weak references; looked at in each step.

What each holds is written as bytes: its kind, plain data, and the values that it refers to. The memory of arrays follows
in a table of its own, which is written in place.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from itertools import accumulate
from typing import Any

import numpy as np

from sim.adapters.capture.graph.hidden_bases import HiddenBases
from sim.adapters.capture.graph.kinds.array_kind import is_array, layout_seal, memory_of
from sim.adapters.capture.graph.kinds.kind_protocol import SpecialKind
from sim.adapters.capture.graph.kinds.partial_kind import PartialKind
from sim.adapters.capture.graph.kinds.refusals import refusal, refusal_of_unknown
from sim.adapters.capture.graph.kinds.set_kind import SetKind
from sim.adapters.capture.graph.kinds.special_kinds import KINDS, learn_kind
from sim.adapters.capture.graph.sets.seen_elements import SeenElements
from sim.adapters.capture.graph.storage import Storage
from sim.adapters.capture.graph.unsavable import UnsavableError
from sim.adapters.capture.graph.values.canonical_order import canonical_order
from sim.adapters.capture.graph.values.foreign_values import (
    Memory,
    encode_foreign,
    ensure_in_memory,
    memories_of_array,
    overlap,
    shared_memory,
)
from sim.adapters.capture.graph.values.names_elsewhere import left_out_of
from sim.adapters.capture.graph.values.node_names import NodeNames, NodesByName
from sim.adapters.capture.graph.values.trees import TreeEncoder, marked_in, pack, unpack
from sim.adapters.interface.adapter_registry import NotCapturedError
from sim.kernel.foreign_arrays import is_foreign_array
from sim.kernel.schema import Field, Table
from sim.kernel.state import Snapshot

SPECIAL, SPECIAL_BYTES = "graph.special", "graph.special_bytes"
ARRAYS, ARRAY_BYTES = "graph.arrays", "graph.array_bytes"
WEAK_SET = "weakref.WeakSet"
ARRAY_LETTER, PICKLED, FOREIGN = "ndarray", "pickled", "foreign array"
TABLES = (
    Table(SPECIAL, Field("node", "i8"), Field("size", "i8"), capacity=16),
    Table(SPECIAL_BYTES, Field("byte", "u1"), capacity=256),
    Table(ARRAYS, Field("node", "i8"), Field("size", "i8"), capacity=16),
    Table(ARRAY_BYTES, Field("byte", "u1"), capacity=256),
)
_SET, _PARTIAL = SetKind(), PartialKind()


class SpecialNodes:
    """The nodes of C types of one graph.

    Attributes:
        objects: by number.
        contents: the bytes of each, by number.
        edges: the nodes that each refers to, by number, without those that refer to none; weak references have none.
        count: changes with each change.
        seen: the elements that were seen in sets; another graph of the same objects continues it.
        known_sets: the numbers of sets with an element that is saved elsewhere.
        foreign_memories: of arrays of other libraries that can be written to, by number.
        bases: which array stands for a hidden base; another graph of the same objects has the same ones.
    """

    def __init__(self, storage: Storage, encoder: TreeEncoder, pickler: Any) -> None:
        """pickler: for C types that are not known; None without the user's trust."""
        self._storage, self._encoder, self._pickler = storage, encoder, pickler
        self.objects: dict[int, Any] = {}
        self.contents: dict[int, bytes] = {}
        self.edges: dict[int, tuple[int, ...]] = {}
        self.seen = SeenElements()
        self.known_sets: set[int] = set()
        # What was seen of a set, a partial, or the layout of an array: unchanged means that nothing has to be encoded.
        self._seals: dict[int, Any] = {}
        self._arrays: dict[int, Any] = {}
        self._owning: dict[int, Any] | None = None  # The arrays with memory of their own, in order.
        self._places: dict[int, slice] = {}  # Of these in _memory.
        self._arena: Any = None  # That _memory is of.
        self._memory: Any = None
        self._is_changed = False
        self.count = 0
        self.foreign_memories: dict[int, Memory] = {}
        self.bases = HiddenBases()

    def takes(self, value: Any) -> bool:
        """Return True for an object of a known C type, or of any if the user trusts pickle. Raises UnsavableError."""
        if type(value) in KINDS or type(value) is set or is_array(value) or learn_kind(type(value)):
            return True
        if is_foreign_array(value):
            ensure_in_memory(value)
            return True
        reason = refusal(value)
        if reason is not None:
            raise UnsavableError("it cannot be saved", reason, value)
        if self._pickler is None:
            raise UnsavableError(*refusal_of_unknown(value), value)
        return True

    def add(self, number: int, value: Any) -> None:
        """Add a node; look is called for it before the arena is written."""
        self.objects[number] = value
        self._is_changed = True
        if is_array(value):
            self._arrays[number] = value
            self._owning = None

    def is_weak(self, number: int) -> bool:
        """Return True for a weak reference, or a container of them: it does not keep its objects alive."""
        handler = KINDS.get(type(self.objects[number]))
        return handler is not None and handler.is_weak

    def weak(self) -> list[int]:
        """The weak nodes, in order: they are looked at when it is known which objects are nodes."""
        return [number for number in sorted(self.objects) if self.is_weak(number)]

    def clear(self) -> None:
        """Forget all nodes."""
        for held in (self.objects, self.contents, self.edges, self._seals, self._arrays, self.foreign_memories):
            held.clear()
        self.known_sets.clear()
        self._owning, self._is_changed = None, True

    def adopt(self, number: int, value: Any, content: bytes, edges: tuple[int, ...]) -> None:
        """Take over a node that was made from the arena. edges: the nodes that it keeps alive."""
        if type(value) not in KINDS:
            learn_kind(type(value))
        self.objects[number], self.contents[number] = value, content
        if type(value) is set:
            self.seen.note(value, unpack(content)[1])
            self._note_known(number, unpack(content)[2])
        self._set_edges(number, edges)
        if is_array(value):
            self._arrays[number] = value

    def _note_known(self, number: int, trees: list[Any]) -> None:
        if any(marked_in(tree, "k") for tree in trees if type(tree) is list):
            self.known_sets.add(number)
        else:
            self.known_sets.discard(number)

    def forget(self, number: int) -> None:
        """Have a node encoded again at the next look."""
        self._seals.pop(number, None)

    def remove(self, number: int) -> None:
        """Remove a node."""
        del self.objects[number]
        self.known_sets.discard(number)
        for held in (self.contents, self.edges, self._seals, self.foreign_memories):
            held.pop(number, None)
        if self._arrays.pop(number, None) is not None:
            self._owning = None
        self._is_changed = True

    def unsettled(self) -> list[int]:
        """The nodes that may hold something else than at the last look, in order: arrays with their layout do not."""
        seals, objects = self._seals, self.objects
        settled = {
            number
            for number, array in self._arrays.items()
            if (seal := seals.get(number)) is not None and seal == layout_seal(array)
        }
        return sorted(objects.keys() - settled) if settled else sorted(objects)

    def look(self, number: int) -> tuple[int, ...]:
        """Look at a node again, and return the nodes that it referred to and no longer does. Raises UnsavableError."""
        value = self.objects[number]
        self._keep_apart(number, value)
        if (seal := self._seals.get(number)) is not None and seal == _seal_of(value):
            return ()
        if type(value) is set:
            name, (plain, parts) = _SET.name, _SET.take(value, self.seen.of(value))
            if plain is None:
                parts = tuple(canonical_order(parts, self._encoder.node_at))
        else:
            name, plain, parts = self._taken(value)
        edges: list[int] = []
        trees = [self._encoder.tree(part, edges) for part in parts]
        if type(value) is set and plain is None:
            trees.sort(key=pack)  # By their numbers, which new elements have only now.
        content = pack([name, plain, trees])
        # An array for whose memory another one stands is looked at each time, so that this is not forgotten.
        self._seals[number] = _seal_of(value) if type(value) is not np.ndarray or self.bases.has_memory(value) else None
        if type(value) is set:
            self.seen.note(value, plain)
            self._note_known(number, trees)
        return self._put(number, content, tuple(edges))

    def is_as_before(self, number: int, probe: TreeEncoder) -> bool:
        """Return True if a node holds what it held at the last look; nothing is written.

        probe: an encoder that raises UnsavableError for a new node.
        """
        value = self.objects[number]
        if type(value) is set and number in self._seals:
            return bool(self._seals[number] == _SET.seal(value))
        is_written = self._owning is not None and number in self._owning
        if is_written and self._memory[self._places[number]].tobytes() != memory_of(value).tobytes():
            return False
        if type(value) is set:
            return True  # Restored, and not looked at since.
        self.bases.begin()
        name, plain, parts = self._taken(value)
        return pack([name, plain, [probe.tree(part, []) for part in parts]]) == self.contents.get(number)

    def _keep_apart(self, number: int, value: Any) -> None:
        """Raise UnsavableError if an array of another library shares memory with another array, which a restore loses."""
        memories = self.foreign_memories
        if not is_foreign_array(value) and not (memories and number in self._arrays and number not in self.contents):
            return
        own = memories_of_array(value)
        if is_foreign_array(value):
            if not own or memories.get(number) == own[0]:
                return
            memories[number] = own[0]
        arrays = {one: memories_of_array(array) for one, array in self._arrays.items() if is_foreign_array(value)}
        others = [*arrays.items(), *((one, [memory]) for one, memory in memories.items())]
        if any(one != number and overlap(own, other) for one, other in others):
            raise shared_memory(value, "another array")

    def look_at_strong_parts(self, number: int) -> tuple[int, ...]:
        """As look, for a weak node: only for what it keeps alive. Its content waits until all nodes are known."""
        handler = KINDS[type(self.objects[number])]
        edges: list[int] = []
        for part in handler.strong_parts(*handler.take(self.objects[number])):
            self._encoder.tree(part, edges)
        before = self._set_edges(number, tuple(edges))
        return tuple(one for one in before if one not in edges)

    def look_at_weak_parts(self, number: int) -> None:
        """Write the content of a weak node: objects that nothing else refers to count as dead."""
        handler = KINDS[type(self.objects[number])]
        plain, parts = living(handler, *handler.take(self.objects[number]), self._is_saved)
        if plain == [None]:  # A set without its table: its order is that of addresses.
            parts = canonical_order(parts, self._encoder.node_at)
        trees = [self._encoder.tree(part, []) for part in parts]
        self._put(number, pack([handler.name, plain, trees]), self.edges.get(number, ()))

    def _is_saved(self, value: Any) -> bool:
        is_saved = self._encoder.node_at(id(value)) is not None or id(value) in self._encoder.known
        if not is_saved and id(value) in left_out_of(self._encoder.known):
            raise UnsavableError(
                "a weak reference to it is saved, but the attribute that holds it is left out",
                "leave out the weak reference as well, or neither",
                value,
            )
        return is_saved

    def _put(self, number: int, content: bytes, edges: tuple[int, ...]) -> tuple[int, ...]:
        if self.contents.get(number) == content:
            return ()
        if number in self._arrays:
            self._owning = None
        self.contents[number] = content
        before = self._set_edges(number, edges)
        self._is_changed = True
        return tuple(one for one in before if one not in edges)

    def _set_edges(self, number: int, edges: tuple[int, ...]) -> tuple[int, ...]:
        """Note the nodes that a node refers to, and return those before. Most arrays have none, and no entry."""
        before = self.edges.pop(number, ())
        if edges:
            self.edges[number] = edges
        return before

    def _taken(self, value: Any) -> tuple[str, Any, tuple[Any, ...]]:
        kind = type(value)
        if is_array(value):
            return ARRAY_LETTER, *self.bases.layout_of(value, self._is_known)
        if is_foreign_array(value):
            return FOREIGN, encode_foreign(value), ()
        handler: SpecialKind | None = KINDS.get(kind)
        if handler is not None:
            return (handler.name, *handler.take(value))
        names = NodeNames(self._encoder, id(value))
        try:
            content = self._pickler.dump({"": value}, names)
        except NotCapturedError as error:  # Only the graph knows the path to the value.
            reason = str(error).strip(": ").removeprefix(f"({kind.__qualname__}) ")
            raise UnsavableError(reason, "keep what you need of it in attributes", value) from None
        return PICKLED, content, tuple(names.met.values())

    def _is_known(self, address: int) -> bool:
        return address in self._encoder.known or self._encoder.node_at(address) is not None

    def unpickled(self, content: bytes, node: Callable[[int], Any]) -> Any:
        """An object that was pickled. node: the object of a number. Raises NotCapturedError without the user's trust."""
        if self._pickler is None:
            raise NotCapturedError(
                "a part of the state was saved by pickle, which may run any code: if you trust the tape, make the "
                "simulation with adapt(..., trust=True)"
            )
        return self._pickler.load(content, NodesByName(node))[""]

    def write(self) -> None:
        """Write everything that has changed into the arena."""
        storage = self._storage
        if self._is_changed:
            self._is_changed = False
            self.count += 1
            numbers = sorted(self.objects)
            contents = [self.contents[number] for number in numbers]
            storage.resize(SPECIAL, len(numbers))
            storage.state[f"{SPECIAL}.node"][...] = numbers
            storage.state[f"{SPECIAL}.size"][...] = list(map(len, contents))
            joined = b"".join(contents)
            storage.resize(SPECIAL_BYTES, len(joined))
            storage.state[f"{SPECIAL_BYTES}.byte"][...] = np.frombuffer(joined, np.uint8)
        if self._arrays or self._owning:
            self._write_arrays()
        self.bases.end()

    def _write_arrays(self) -> None:
        storage = self._storage
        if self._owning is None or self._arena is not storage.state.arena:
            owning = {number: array for number, array in sorted(self._arrays.items()) if self.bases.has_memory(array)}
            sizes = [array.nbytes for array in owning.values()]
            storage.resize(ARRAYS, len(owning))
            storage.resize(ARRAY_BYTES, sum(sizes))
            storage.state[f"{ARRAYS}.node"][...] = list(owning)
            storage.state[f"{ARRAYS}.size"][...] = sizes
            ends = list(accumulate(sizes))
            self._places = dict(zip(owning, map(slice, [0, *ends], ends), strict=True))
            self._owning, self._arena = owning, storage.state.arena
            self._memory = storage.state[f"{ARRAY_BYTES}.byte"]
        if self._owning:
            np.concatenate([memory_of(array) for array in self._owning.values()], out=self._memory)


def _seal_of(value: Any) -> Any:
    """What is the same as long as a set, a partial or the layout of an array is; None for what is encoded at each look."""
    if type(value) is set:
        return _SET.seal(value)
    if type(value) is np.ndarray:
        return layout_seal(value)
    return _PARTIAL.seal(value) if type(value) is functools.partial else None


def living(handler: SpecialKind, plain: Any, parts: tuple[Any, ...], is_saved: Callable[[Any], bool]) -> Any:
    """What a weak object holds, without the objects that only weak references lead to."""
    strong = len(handler.strong_parts(plain, parts))
    kept = [index for index in range(strong, len(parts)) if is_saved(parts[index])]
    if strong + len(kept) == len(parts):
        return plain, parts
    if strong:  # A dict: its strong halves come first.
        return [len(kept)], (*(parts[index - strong] for index in kept), *(parts[index] for index in kept))
    # A set without its table; a reference that is dead.
    return (([None] if handler.name == WEAK_SET else []), tuple(parts[index] for index in kept))


def contents_in(state: Snapshot) -> dict[int, bytes]:
    """What each special node holds, with the memory of arrays, by number."""
    found: dict[int, bytes] = {}
    for table, memory in ((SPECIAL, SPECIAL_BYTES), (ARRAYS, ARRAY_BYTES)):
        content, start = state[f"{memory}.byte"].tobytes(), 0
        for node, size in zip(state[f"{table}.node"].tolist(), state[f"{table}.size"].tolist(), strict=True):
            found[node] = found.get(node, b"") + content[start : start + size]
            start += size
    return found
