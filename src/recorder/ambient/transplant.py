"""Give a restored copy of a simulation the values that the live run kept outside its state, to see their effect.

The values come from the ambient captured at that moment, since the live run has continued. They are put into the copy's
own objects: references to these stay valid. Objects that the copy lacks are created.
"""

from __future__ import annotations

import functools
import operator
import weakref
from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from types import MethodType
from typing import Any

import attrs
import numpy as np

from recorder.ambient.ambient import INSTANCE, MAXLEN, OWN, Ambient
from recorder.ambient.ambient_diff import NEVER_ALIASES, Candidate, find_candidates
from recorder.ambient.caches.cached_results import (
    NOT_COPIED,
    NoCounterpartError,
    copied,
    filled,
    with_counterparts,
)
from recorder.ambient.members import WEAK_KEYS
from recorder.ambient.replacement.bound_methods import bind_to
from recorder.ambient.replacement.instance_keys import InstanceKeys
from recorder.ambient.replacement.named_values import ABSENT, Path, set_child
from recorder.ambient.replacement.replaced import REMADE, Replacements
from recorder.ambient.roots import CACHE_TYPE
from recorder.ambient.value_kinds import (
    CONTAINERS,
    bound_to,
    is_builtin_method,
    is_plain,
    kind_of,
    own_attributes,
    put_attributes,
    put_content,
)
from sim.kernel.state import State

_IN_PLACE = {
    *("dict", "list", "set", "deque", "bytearray", "array", "generator", "bit generator", "random", "object"),
    *("weak set", "weak dict", WEAK_KEYS),
}


def give_values(live: Ambient, copy: Ambient, copy_state: State, candidates: Sequence[Candidate]) -> None:
    """Give a copy, and its surroundings, the values of the live run at the paths of these candidates."""
    paths = [path for candidate in candidates for path in candidate.paths]
    caches = {path for candidate in candidates if candidate.kind == "cache" for path in candidate.paths}
    surroundings = [_holder_of(path) for path in paths if path[0][0] != INSTANCE and path not in caches]
    transplant = Transplant(live, copy, copy_state)
    if surroundings:
        live.put_back(surroundings)
        transplant.give_members(surroundings)
    for candidate in candidates:
        if candidate.kind != "alias":
            for path in candidate.paths:
                if path in caches:
                    transplant.give_cache(path)
                elif path[0][0] == INSTANCE:
                    transplant.give(path)
    for candidate in candidates:
        if candidate.kind == "alias":
            first, *others = candidate.paths
            for path in others:
                transplant.join(first, path)


def not_taken(live: Ambient, copy: Ambient, candidates: Iterable[Candidate]) -> frozenset[str]:
    """The names of those candidates in which a copy still differs from the live run, or in anything inside of them.

    copy: what was captured after it had been given them. Of these, a run of the copy shows nothing.
    """
    still = find_candidates(live, copy)
    names = {one.name for one in still}
    differing = {path[:depth] for one in still for path in one.paths for depth in range(1, len(path) + 1)}
    return frozenset(
        one.name
        for one in candidates
        if one.name in names
        or (
            one.kind != "alias"
            and (not differing.isdisjoint(map(_holder_of, one.paths)) or _holds_of_instance(live, copy, one))
        )
    )


def _holds_of_instance(live: Ambient, copy: Ambient, candidate: Candidate) -> bool:
    """Return True if a value outside the instances holds objects of the live run's, in place of the copy's own.

    As keys or by their addresses, as members or as items: what looks equal then is not the same for a step.
    """
    places = {path for path in map(_holder_of, candidate.paths) if path[0][0] != INSTANCE}
    if not places:
        return False

    def is_inside(path: Path) -> bool:
        return any(path[:depth] in places for depth in range(1, len(path) + 1))

    keys = InstanceKeys({id(one): path for path, one in live.objects.items()}, copy.objects, INSTANCE)
    for path, (kind, content) in live.contents.items():
        if kind == "dict" and path[0][0] != INSTANCE and is_inside(path) and keys.has_strange(content):
            return True
    return any(
        path[0][0] == INSTANCE and is_inside(first) and copy.aliases.get(path) != first
        for path, first in live.aliases.items()
        if type(live.objects.get(first)).__name__ not in NEVER_ALIASES
    )


def _holder_of(path: Path) -> Path:
    """The path to a value that is put in as a whole: the maximum length of a deque is set when it is made."""
    return path[:-1] if path[-1] == MAXLEN else path


class Transplant:
    """From one ambient of the live run to one of a copy."""

    def __init__(self, live: Ambient, copy: Ambient, copy_state: State) -> None:
        self._live = live
        self._copy = copy
        self._state = copy_state
        self._made: dict[Path, Any] = {}
        self._put_in = Replacements(copy.objects, copy.aliases)
        self._paths = {id(one): path for path, one in live.objects.items()}
        self._keys = InstanceKeys(self._paths, copy.objects, INSTANCE)

    def give(self, path: Path) -> None:
        """Give the copy the live run's value at path."""
        live, copy = self._live, self._copy
        path = _holder_of(path)
        step = path[-1]
        if step[0] == "closure" and path in copy.objects:
            set_child(copy.objects[path], ("cell", ""), self._value((*path, ("cell", ""))))
            return
        target = copy.objects.get(path)
        original = live.objects.get(live.aliases.get(path, path))
        if target is not None and type(target) is type(original) and self._fill(path, target):
            return
        holder = copy.objects.get(path[:-1])
        is_one_item = isinstance(holder, list | deque) or (isinstance(holder, dict) and step[1] in holder)
        if (step[0] == "item" and not is_one_item) or (holder is not None and kind_of(type(holder)) in REMADE):
            self.give(path[:-1])  # One item of a tuple or a set cannot be replaced, nor an argument of a partial.
        elif holder is not None:
            set_child(holder, step, self._value(path) if self._has(path) else ABSENT)

    def give_cache(self, path: Path) -> None:
        """Put a cache that keeps the live run's results in place of the copy's, under each of its names."""
        cache = self._copy.objects.get(path)
        made = None if cache is None else self._cache(path, cache)
        if made is None:
            return
        self._put_in.put(path, made)

    def _cache(self, path: Path, cache: Any) -> Any:
        """A new cache like the copy's with the live run's results, as far as the copy has their objects; None if not known."""
        _, results = self._live.contents.get(path, ("", None))
        if results is None or type(cache) is not CACHE_TYPE:
            return None
        return filled(cache, with_counterparts(results, self._counterpart))

    def _counterpart(self, value: Any, content: Any) -> Any:
        """What the copy has in the place of a value of the live run. Raises NoCounterpartError."""
        path = self._paths.get(id(value))
        if is_plain(value) or kind_of(type(value)) == "still":
            return value
        if path is not None:
            return self._value(path)
        if type(value) is tuple and type(content) is tuple:
            return tuple(map(self._counterpart, value, content))
        made = NOT_COPIED if content is NOT_COPIED else copied(content)
        if made is NOT_COPIED:
            raise NoCounterpartError
        return made

    def give_members(self, prefixes: Sequence[Path]) -> None:
        """Let weak collections, at or below these paths, hold the copy's own objects in place of the live run's."""
        for path, (kind, content) in self._live.contents.items():
            if path[0][0] == INSTANCE or not any(path[: len(one)] == one for one in prefixes):
                continue
            holder: Any = self._live.objects.get(path)
            if kind == WEAK_KEYS:
                for key, one in self._keyed(path, content):
                    if not isinstance(key, weakref.ref):
                        holder[key] = one
            elif kind in ("weak set", "weak dict"):
                put_content(kind, holder, self._own_members(path, kind, content))
            elif kind == "dict":
                translated = self._keys.translated(content)
                if any(map(operator.is_not, content, translated)):
                    put_content(kind, holder, translated)

    def _own_members(self, path: Path, kind: str, content: list[Any]) -> list[Any]:
        """The copy's objects at the paths of the members; a reference to one that it does not have."""
        places = self._live.members.get(path, [None] * len(content))
        entries = content if kind == "weak dict" else [(None, one) for one in content]
        own = [
            (key, one if place is None else self._copy.objects.get(place, one))
            for place, (key, one) in zip(places, entries, strict=True)
        ]
        return own if kind == "weak dict" else [one for _, one in own]

    def _keyed(self, path: Path, content: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
        """The values of a dictionary with weak keys, with the copy's own keys; a reference to one that it does not have."""
        places, names = self._live.members[path], self._live.leaves[path][1]
        return [
            (key if place is None else self._copy.objects.get(place, key), self._child((*path, ("item", name)), one))
            for place, name, (key, one) in zip(places, names, content, strict=True)
        ]

    def join(self, first: Path, path: Path) -> None:
        """Make two names of the copy share memory, or have separate memory, as in the live run."""
        live, copy = self._live, self._copy
        holder = copy.objects.get(path[:-1])
        if holder is None:
            return
        base, one, other = live.objects.get(first), live.objects.get(path), copy.objects.get(first)
        if live.aliases.get(path) != first:
            self._made.pop(path, None)
            set_child(holder, path[-1], self._value(path))
        elif isinstance(base, np.ndarray) and isinstance(one, np.ndarray):
            if isinstance(other, np.ndarray) and other.flags.c_contiguous and other.nbytes == base.nbytes:
                offset = one.__array_interface__["data"][0] - base.__array_interface__["data"][0]
                memory = other.reshape(-1).view(np.uint8)
                joined = np.ndarray(one.shape, one.dtype, memory.data, offset, one.strides)
                set_child(holder, path[-1], joined)
        elif first[0][0] == INSTANCE or not bind_to(copy.objects, first, path):
            set_child(holder, path[-1], other)

    def _has(self, path: Path) -> bool:
        live = self._live
        return path in live.leaves or path in live.objects or path in live.aliases

    def _fill(self, path: Path, target: Any) -> bool:
        """Give an object of the copy the content of its counterpart, in place. Return False if that is not possible."""
        kind = kind_of(type(target))
        real = self._live.aliases.get(path, path)
        if kind == "deque" and target.maxlen != self._live.leaves.get((*real, MAXLEN)):
            return False
        if kind not in _IN_PLACE or real not in self._live.contents:
            return False
        self._made[real] = target
        if not put_content(kind, target, self._content(real, kind)):
            del self._made[real]  # It keeps its content, as an array of other elements does: another one is made.
            return False
        self._put_own(real, kind, target)
        return True

    def _put_own(self, path: Path, kind: str, target: Any) -> None:
        """Give a container what the live run's stores besides its items."""
        if kind in CONTAINERS and own_attributes(target) is not None:
            _, own = self._live.contents.get((*path, OWN), ("object", {}))
            put_attributes(target, {name: self._child((*path, ("attribute", name)), one) for name, one in own.items()})

    def _value(self, path: Path) -> Any:
        live = self._live
        real = live.aliases.get(path, path)
        if real in self._made:
            return self._made[real]
        if real not in live.objects:
            return live.leaves[real]
        original, target = live.objects[real], self._copy.objects.get(real)
        if real[0][0] != INSTANCE:
            return original  # The surroundings exist once.
        if len(real) == 1 or isinstance(original, State):
            return target if target is not None else original
        leaf = live.leaves.get(real)
        kind = kind_of(type(original))
        if kind == "array" and isinstance(leaf, tuple) and leaf[0] == "view of the state":
            _, dtype, shape, strides, offset = leaf
            made: Any = np.ndarray(shape, dtype, self._state.arena.data, offset, strides)
        elif (remade := self._remade(real, kind, original)) is not None:
            made = remade
        elif type(target) is type(original) and self._fill(real, target):
            return target  # Other references to it in the copy stay valid.
        elif kind in _IN_PLACE:
            return self._new(real, kind, original)
        elif kind == "opaque" and type(target) is type(original):
            made = target  # For example a body of a physics engine, which is useless in a different world.
        else:
            made = original  # Functions, files, objects of C code: they cannot be created.
        self._made[real] = made
        return made

    def _remade(self, path: Path, kind: str, original: Any) -> Any:
        """A value like one that cannot be changed in place, made of the copy's own objects; None for all others."""
        live = self._live
        if kind == "cache":
            return self._cache(path, self._copy.objects.get(path))
        if kind == "iterator" and path in live.iterators:
            parts = live.iterators[path]
            return parts.built([self._child((*path, ("held", index)), one) for index, one in enumerate(parts.held)])
        if kind == "weak reference" and path in live.members:
            [made] = self._members(path, [original])
            return weakref.ref(made) if type(made) is not weakref.ref else made
        if kind == "tuple" and not is_plain(original):
            return self._tuple(path, original)
        if kind == "set" and isinstance(original, frozenset) and path in live.members:
            return frozenset(self._members(path, list(original)))
        if kind == "method":
            return MethodType(original.__func__, self._attribute(path, original, "__self__"))
        if kind == "builtin method" and is_builtin_method(original):
            return bound_to(original, self._attribute(path, original, "__self__"))
        if kind == "partial" and type(original) is functools.partial:
            func, args, keywords = (self._attribute(path, original, name) for name in ("func", "args", "keywords"))
            return functools.partial(func, *args, **keywords)
        return None

    def _attribute(self, path: Path, original: Any, name: str) -> Any:
        return self._child((*path, ("attribute", name)), getattr(original, name))

    def _new(self, path: Path, kind: str, original: Any) -> Any:
        """Create an object like the original. It is registered before its content is made: it may contain itself."""
        if kind == "array":
            made: Any = np.empty_like(original)
        elif kind == "generator":
            made = np.random.Generator(type(original.bit_generator)())
        else:
            kind_: Any = type(original)
            made = kind_() if kind in ("bit generator", "random", WEAK_KEYS) else kind_.__new__(kind_)
        if kind == "deque":
            deque.__init__(made, [], original.maxlen)
        elif isinstance(original, defaultdict):
            made.default_factory = original.default_factory
        self._made[path] = made
        if not put_content(kind, made, self._content(path, kind)):
            # What was made holds nothing, as the array that is left as np.empty_like made it.
            self._made[path] = original
            return original
        self._put_own(path, kind, made)
        return made

    def _tuple(self, path: Path, original: tuple[Any, ...]) -> tuple[Any, ...]:
        """A tuple with the copy's own items, also a named one."""
        items = self._items(path, list(original))
        try:
            made: tuple[Any, ...] = tuple.__new__(type(original), items)
        except TypeError:  # One of C code, such as the times of a file.
            return original
        return made

    def _content(self, path: Path, kind: str) -> Any:
        """The kept content, with all values in it created for the copy."""
        _, content = self._live.contents[path]
        match kind:
            case "dict":
                pairs = zip(content, self._items(path, list(content.values()), list(content)), strict=True)
                return dict(pairs)
            case "object":
                names = list(content)
                return {
                    name: self._child((*path, ("attribute", name)), one)
                    for name, one in zip(names, content.values(), strict=True)
                }
            case "list" | "deque":
                return self._items(path, content)
            case "set" if path in self._live.members:
                return attrs.evolve(content, elements=self._members(path, content.elements))
            case "weak set":
                return self._members(path, content)
            case "weak dict":
                names = [key for key, _ in content]
                return list(zip(names, self._members(path, [one for _, one in content]), strict=True))
            case "weak keys":
                return self._keyed(path, content)
            case "array" if content is not None and content.dtype.hasobject:
                filled = content.copy()
                filled.reshape(-1)[:] = self._items(path, content.reshape(-1).tolist())
                return filled
        return content

    def _members(self, path: Path, content: list[Any]) -> list[Any]:
        """The copy's counterparts of the members of a set or of a weak collection."""
        paths = self._live.members[path]
        return [one if place is None else self._child(place, one) for place, one in zip(paths, content, strict=True)]

    def _items(self, path: Path, content: list[Any], keys: list[Any] | None = None) -> list[Any]:
        names = range(len(content)) if keys is None else keys
        return [
            self._child((*path, ("item", self._shown(name, index))), one)
            for index, (name, one) in enumerate(zip(names, content, strict=True))
        ]

    @staticmethod
    def _shown(key: Any, index: int) -> Any:
        return key if kind_of(type(key)) == "atom" else f"{type(key).__qualname__} no. {index}"

    def _child(self, path: Path, value: Any) -> Any:
        return self._value(path) if self._has(path) else value
