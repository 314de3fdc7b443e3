"""Capture everything outside the state that a step can read or change, with a path to each value.

The walk covers the values that the simulation's objects store (through plain containers, arrays, generators and
objects, to a bounded depth and count), the globals and class attributes of its modules, the closures, default arguments
and attributes of its functions, its caches, the global random generators, the environment and the current folder.

Invariants:
    1. Capturing an ambient changes nothing and runs none of the user's code.
    2. Every object is walked once, at the shortest path to it; paths through data come before those through functions.
       Further paths to it are aliases of that one.
"""

from __future__ import annotations

from abc import ABCMeta
from collections import deque
from collections.abc import Callable
from types import CoroutineType, FunctionType
from typing import Any

import numpy as np

from recorder.ambient.ambient import INSTANCE, MAXLEN, OWN, Ambient, DefinedAt, names_of
from recorder.ambient.c_memory import Memory
from recorder.ambient.caches.cached_results import results_of
from recorder.ambient.iterators import parts_of, position_of
from recorder.ambient.leaf_text import name_of
from recorder.ambient.members import WEAK_KEYS, Members, NamedKeys, SetContent
from recorder.ambient.process_values import add_process_values
from recorder.ambient.process_wide import registered_classes
from recorder.ambient.replacement.named_values import DEFAULTS, Path, defaults_of, kept_defaults
from recorder.ambient.roots import Roots, functions_of, is_our_own
from recorder.ambient.shared_memory import memory_of, shared_memory
from recorder.ambient.value_kinds import (
    CONTAINERS,
    KEPT_LIBRARY,
    NOT_SET,
    attributes_of,
    content_of,
    content_of_array,
    generator_state,
    is_builtin_method,
    is_plain,
    keeps_values,
    kind_of,
    own_attributes,
    plain_key,
    shown_key,
)
from sim.kernel.class_names import package_of
from sim.kernel.simulation import ArenaOfSaved, Simulation, inner_of
from sim.kernel.state import State

NODES_MAX = 20_000  # Values of one ambient; further ones are not inspected, which the report notes.
DEPTH_MAX = 60  # Steps of a path.

_HELD = {"builtin method": ("__self__",), "method": ("__self__", "__func__"), "partial": ("func", "args", "keywords")}
_MAY_KEEP = {"function": keeps_values, "builtin method": is_builtin_method}  # Others of these kinds keep nothing.
_THROUGH_FUNCTIONS = {"function", "method", "builtin method", "partial", "cell", "coroutine"}


def take_ambient(roots: Roots, simulation: Simulation | None) -> Ambient:
    """Capture a simulation's surroundings and the values that it stores itself; None: the surroundings only."""
    walk = _Walk(roots, simulation)
    walk.surroundings()
    if simulation is not None:
        walk.instance(simulation)
    return walk.ended()


def take_instance(simulation: Simulation) -> Ambient:
    """Capture only the values that a simulation stores itself, which is much faster."""
    walk = _Walk(Roots(type(None)), simulation)
    walk.instance(simulation)
    return walk.named()


class _Walk:
    """One walk over an ambient."""

    def __init__(self, roots: Roots, simulation: Simulation | None) -> None:
        self.ambient = Ambient()
        self._roots = roots
        self._seen: dict[int, Path] = {}
        self._arrays: list[tuple[int, int, Path]] = []
        self._arena = (0, 0)
        self._own_class = type(inner_of(simulation)) if simulation is not None else None
        self._in_instance = False
        self._subjects: set[Path] = set()
        self._next: deque[tuple[Path, str, Any]] = deque()
        self._later: deque[tuple[Path, str, Any]] = deque()
        self._holders: deque[tuple[Path, str, Any]] = deque()  # Of members, which are named by other paths to them.
        self._keyed: deque[tuple[Path, str, Any]] = deque()

    # --- roots

    def surroundings(self) -> None:
        """Walk modules, classes and functions, and the values that a process has once."""
        ambient, roots = self.ambient, self._roots
        for name, module in roots.modules.items():
            self._namespace((("module", name),), "global", module)
        for kind in roots.classes:
            self._namespace((("class of", roots.classes[kind]),), "class", kind)
        for function, name in roots.functions.items():
            self.walk_function((("function", name),), function)
        self.walk_on()
        add_process_values(ambient)

    def instance(self, simulation: Simulation) -> None:
        """Walk the values that the simulation's own objects store, except its state."""
        inner = inner_of(simulation)
        path: Path = ((INSTANCE, type(inner).__qualname__.rpartition(".")[2]),)
        if not isinstance(simulation, ArenaOfSaved):  # The arena of that one is a copy, which nothing else refers to.
            arena = simulation.state.arena
            start = arena.__array_interface__["data"][0]
            self._arena = (start, start + arena.nbytes)
            self._seen[id(simulation.state)] = (*path, ("attribute", "state"))
            self.ambient.objects[(*path, ("attribute", "state"))] = simulation.state
        self._in_instance = True
        self._value(path, inner)
        self.walk_on()

    def _namespace(self, path: Path, kind: str, holder: Any) -> None:
        names = names_of(kind, holder)
        self.ambient.objects[path] = holder
        self.ambient.contents[path] = (kind, names)
        for name, value in names.items():
            if type(value) is FunctionType:  # Another one may be put in its place.
                self.ambient.leaves[(*path, (kind, name))] = DefinedAt.of(value)
            self._value((*path, (kind, name)), value)
        if isinstance(holder, ABCMeta):
            own = (*path, ("class", "register()"))
            registered = registered_classes(holder)
            self.ambient.leaves[own] = tuple(one.__qualname__ for one in registered)
            self.ambient.objects[own], self.ambient.contents[own] = holder, ("registered", registered)

    def _value(self, path: Path, value: Any) -> None:
        kind = kind_of(type(value))
        ambient = self.ambient
        if kind == "atom":
            ambient.leaves[path] = value
            return
        if kind == "still" or (kind in _MAY_KEEP and not _MAY_KEEP[kind](value)):
            return
        if kind in _THROUGH_FUNCTIONS:
            self._later.append((path, kind, value))
        elif id(value) in self._seen:
            ambient.aliases[path] = self._seen[id(value)]
        else:
            self._seen[id(value)] = path
            self._next.append((path, kind, value))

    def walk_on(self) -> None:
        """Walk all queued values, and then the sets and weak references to them."""
        self._walk_queued()
        while self._holders:
            path, kind, content = self._holders.popleft()
            members = Members.of(kind, path, content, lambda one: self._seen.get(id(one)), is_plain)
            self.ambient.leaves[path], self.ambient.members[path] = members.leaf, members.paths
            for name, one in members.unnamed:
                self._value((*path, ("item", name)), one)
            self._walk_queued()

    def _walk_queued(self) -> None:
        ambient = self.ambient
        while self._next or self._later:
            path, kind, value = (self._next or self._later).popleft()
            if self._seen.setdefault(id(value), path) is not path:
                ambient.aliases[path] = self._seen[id(value)]
                continue
            if len(ambient.leaves) + len(ambient.objects) > NODES_MAX or len(path) > DEPTH_MAX:
                ambient.is_complete = False
                continue
            ambient.objects[path] = value
            walk = _WALKS.get(kind)
            if walk is None:
                ambient.leaves[path] = type(value).__qualname__
            else:
                walk(self, path, value)

    def _keep(self, kind: str, path: Path, value: Any) -> Any:
        content = content_of(kind, value)
        self.ambient.contents[path] = (kind, content)
        if kind in CONTAINERS and (own := own_attributes(value)) is not None:
            self.ambient.contents[(*path, OWN)] = ("object", own)
            for name, one in own.items():
                self._value((*path, ("attribute", name)), one)
        return content

    def walk_dict(self, path: Path, value: dict[Any, Any]) -> None:
        content = self._keep("dict", path, value)
        keys = tuple(map(shown_key, content))
        if all(kind_of(type_) == "atom" for type_ in set(map(type, content.values()))):
            self.ambient.leaves[path] = ("dict", keys, tuple(content.values()))
            return
        self.ambient.leaves[path] = ("dict", keys)
        for index, (key, one) in enumerate(content.items()):
            shown = key if keys[index] is key else plain_key(key) or f"{type(key).__qualname__} no. {index}"
            self._value((*path, ("item", shown)), one)

    def walk_sequence(self, path: Path, value: Any) -> None:
        kind = kind_of(type(value))
        content = list(tuple.__iter__(value)) if kind == "tuple" else self._keep(kind, path, value)
        if kind == "deque":
            self.ambient.leaves[(*path, MAXLEN)] = value.maxlen
        self._items(path, kind, content)

    def _items(self, path: Path, kind: str, content: list[Any]) -> None:
        if all(kind_of(type_) == "atom" for type_ in set(map(type, content))):
            self.ambient.leaves[path] = (kind, content)  # A shortcut for the most frequent case.
            return
        self.ambient.leaves[path] = (kind, len(content))
        for index, one in enumerate(content):
            self._value((*path, ("item", index)), one)

    def walk_set(self, path: Path, value: Any) -> None:
        content = self._keep("set", path, value) or SetContent.of(value)  # In the order in which a step would iterate.
        if all(map(is_plain, content.elements)):
            self.ambient.leaves[path] = ("set", content.elements, content.table)
        else:
            self._holders.append((path, "set", content))

    def walk_weak(self, path: Path, value: Any) -> None:
        kind = kind_of(type(value))
        waiting = self._holders if self._in_instance and kind != WEAK_KEYS else self._keyed
        waiting.append((path, kind, self._keep(kind, path, value)))

    def walk_iterator(self, path: Path, value: Any) -> None:
        self.ambient.leaves[path] = position_of(value)
        parts = parts_of(value)
        if parts is not None:
            self.ambient.iterators[path] = parts
            for index, one in enumerate(parts.held):
                if not is_plain(one):
                    self._value((*path, ("held", index)), one)

    def walk_memory(self, path: Path, value: Any) -> None:
        self.ambient.leaves[path] = Memory.of(value, self._keep("memory", path, value))

    def walk_content(self, path: Path, value: Any) -> None:
        self.ambient.leaves[path] = self._keep(kind_of(type(value)), path, value)

    def walk_state(self, path: Path, value: State) -> None:
        if not self._in_instance:
            self.ambient.leaves[path] = "State"  # Of some simulation; its own walk, if it has one, covers it.
            return
        self.ambient.leaves[path] = ("state", value.layout.hash_seed)
        for name in value:
            self._value((*path, ("item", name)), value[name])

    def walk_array(self, path: Path, value: np.ndarray[Any, Any]) -> None:
        low, high = memory_of(value)
        self._arrays.append((low, high, path))
        kind = (value.dtype.str, value.shape)
        if self._arena[0] <= low and high <= self._arena[1] and high > low:
            self.ambient.leaves[path] = ("view of the state", *kind, value.strides, low - self._arena[0])
            return
        content = self._keep("array", path, value)
        if value.dtype.hasobject:
            self._items(path, "array", value.reshape(-1).tolist() if value.dtype.names is None else [])
        else:
            self.ambient.leaves[path] = (*kind, content_of_array(value) if content is None else content.tobytes())

    def walk_generator(self, path: Path, value: Any) -> None:
        kind = kind_of(type(value))
        self.ambient.leaves[path] = generator_state(value)
        self._keep(kind, path, value)
        if kind == "generator":
            first = self._seen.setdefault(id(value.bit_generator), path)
            if first is not path:
                self.ambient.aliases[(*path, ("attribute", "bit_generator"))] = first

    def walk_cell(self, path: Path, value: Any) -> None:
        try:
            content = value.cell_contents
        except ValueError:
            return  # An empty cell: its name was never assigned.
        self.ambient.contents[path] = ("cell", content)
        self._value((*path, ("cell", "")), content)

    def walk_context_variable(self, path: Path, value: Any) -> None:
        content = self._keep("context variable", path, value)
        self.ambient.leaves[path] = "not set" if content is NOT_SET else type(content).__qualname__
        if content is not NOT_SET:
            self._value((*path, ("cell", "")), content)

    def walk_function(self, path: Path, value: FunctionType) -> None:
        if path[0][0] == "function" or value.__dict__:
            self._namespace(path, "function attribute", value)
        if not keeps_values(value):
            return
        code = value.__code__
        for name, cell in zip(code.co_freevars, value.__closure__ or (), strict=True):
            if name != "__class__":
                self._value((*path, ("closure", name)), cell)
        for name, one in (defaults := defaults_of(value)).items():
            self._value((*path, ("default", name)), one)
        if defaults:
            self.ambient.objects.setdefault(path, value)
            self.ambient.contents[(*path, DEFAULTS)] = ("defaults", kept_defaults(value))

    def walk_held(self, path: Path, value: Any) -> None:
        for name in _HELD[kind_of(type(value))]:
            self._value((*path, ("attribute", name)), getattr(value, name))

    def walk_cache(self, path: Path, value: Any) -> None:
        self.ambient.leaves[path] = ("cache", value.cache_info().currsize)
        self.ambient.contents[path] = ("cache", results_of(value))

    def walk_coroutine(self, path: Path, value: Any) -> None:
        frame = value.cr_frame if isinstance(value, CoroutineType) else value.gi_frame
        self.ambient.leaves[path] = ("stands at line", frame.f_lineno if frame is not None else None)
        for name, one in (frame.f_locals if frame is not None else {}).items():
            self._value((*path, ("local", name)), one)

    def walk_object(self, path: Path, value: Any) -> None:
        kind = type(value)
        if self._in_instance and is_our_own(kind):
            self._through_ours(value)
            return
        self.ambient.leaves[path] = kind.__qualname__
        is_of_library = not self._roots.has_class(kind) and package_of(kind) not in KEPT_LIBRARY
        if not self._in_instance and (kind is self._own_class or is_of_library):
            return  # A simulation in a global has its own walk; objects of libraries are not walked.
        self.ambient.types.add(kind)
        content = attributes_of(value)
        self.ambient.contents[path] = ("object", content)
        for name, one in content.items():
            if name == "env" and path in self._subjects:
                self._subject(one)  # A wrapper: what it wraps is named by its own class.
            else:
                self._value((*path, ("attribute", name)), one)
        if "<locals>" in kind.__qualname__:
            self._local_class(path, kind)

    def _through_ours(self, value: Any) -> None:
        """Walk the user's objects that an object of this library holds; the library's own values are not suspects."""
        for one in attributes_of(value).values():
            if kind_of(type(one)) == "object" and not is_our_own(type(one)):
                self._subject(one)

    def _subject(self, value: Any) -> None:
        name = type(value).__qualname__.rpartition(".")[2]
        path: Path = ((INSTANCE, name),)
        number = 1
        while path in self._subjects and id(value) not in self._seen:
            number += 1
            path = ((INSTANCE, f"{name} no. {number}"),)
        if id(value) not in self._seen:
            self._subjects.add(path)
            self._value(path, value)

    def _local_class(self, path: Path, kind: type) -> None:
        """Walk a class that was defined in a function: it may have a closure for each instance."""
        for base in kind.__mro__:
            if "<locals>" in base.__qualname__ and id(base) not in self._seen:
                self._seen[id(base)] = own = (*path, ("class of", base.__qualname__.rpartition(".")[2]))
                self._namespace(own, "class", base)
                for index, function in enumerate(functions_of(base)):
                    self.walk_function((*own, ("function", f"{index}:{function.__name__}")), function)

    def named(self) -> Ambient:
        """The ambient, with weak collections by the names of what they hold, which may have been found after them."""
        while self._keyed:
            path, kind, content = self._keyed.popleft()
            if kind == WEAK_KEYS:
                named = NamedKeys.of(content, lambda one: self._seen.get(id(one)), name_of, is_plain)
                self.ambient.leaves[path], self.ambient.members[path] = named.leaf, named.paths
                for name, one in named.others:
                    self._value((*path, ("item", name)), one)
            else:
                self._holders.append((path, kind, content))
            self.walk_on()
        return self.ambient

    def ended(self) -> Ambient:
        """The ambient, with arrays that lie in the memory of a different array, or of the state."""
        self.named().aliases |= shared_memory(self._arrays)
        return self.ambient


_WALKS: dict[str, Callable[[_Walk, Path, Any], None]] = {
    "array": _Walk.walk_array,
    **dict.fromkeys(("bytearray", "random"), _Walk.walk_content),
    "cache": _Walk.walk_cache,
    "cell": _Walk.walk_cell,
    "context variable": _Walk.walk_context_variable,
    "coroutine": _Walk.walk_coroutine,
    "dict": _Walk.walk_dict,
    "function": _Walk.walk_function,
    **dict.fromkeys(("bit generator", "generator"), _Walk.walk_generator),
    "iterator": _Walk.walk_iterator,
    **dict.fromkeys(("list", "tuple", "deque"), _Walk.walk_sequence),
    "memory": _Walk.walk_memory,
    "object": _Walk.walk_object,
    **dict.fromkeys(_HELD, _Walk.walk_held),
    "set": _Walk.walk_set,
    "state": _Walk.walk_state,
    **dict.fromkeys(("weak dict", WEAK_KEYS, "weak reference", "weak set"), _Walk.walk_weak),
}
