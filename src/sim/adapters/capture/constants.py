"""Large containers that have not changed so far: kept apart, so that no keyframe and no hash has to hold them again.

After each step one look tells whether that is still so; a graph of their own then tells exactly what has changed. The arena holds
them as the bytes of that graph's state. A restore makes them without the rest: one that holds an object that another
attribute leads to, too, counts as changed, so that it becomes a part of the rest.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from gc import get_referents
from itertools import chain
from operator import is_
from typing import Any

import numpy as np

from sim.adapters.capture.compared.first_change import first_change
from sim.adapters.capture.graph.cells.changed_cells import changed_places
from sim.adapters.capture.graph.names.classes import ClassFinder
from sim.adapters.capture.graph.object_graph import ObjectGraph, graph_entries
from sim.adapters.capture.graph.reach.paths import chain_to
from sim.adapters.capture.graph.restored.restore_graph import Restoring
from sim.adapters.capture.graph.unsavable import UnsavableError
from sim.adapters.capture.values import NotPlainError, decode_state, encode_state, encode_value
from sim.kernel.schema import Schema
from sim.kernel.state import State

_IN_PLACE = (np.ndarray, random.Random, np.random.Generator, np.random.RandomState)
CONSTANT_ELEMENTS = 200  # A container with more elements than this is not written at each step.


def looks_constant(value: Any) -> bool:
    """Return True for a large container of plain values, without arrays and generators.

    Those are written in place, which no count of a graph shows, and others may share a part of them.
    """
    if type(value) not in (dict, list, set, tuple) or element_count(value) <= CONSTANT_ELEMENTS:
        return False
    return _is_plain(value) and not any(isinstance(one, _IN_PLACE) for one in _inside(value))


class Constants:
    """Containers that have not changed so far.

    Attributes:
        content: them as bytes, as they were when they were last taken.
        addresses: of all mutable objects in them, and of themselves; they are kept alive.
    """

    def __init__(self, finder: ClassFinder, objects: Mapping[str, Any], names: Mapping[str, tuple[str, str]]) -> None:
        """Take them. objects: the layers by name. names: the layer and the attribute of each, by its full name."""
        self._finder, self._names = finder, dict(names)
        self.content = b""
        self.addresses: Mapping[int, int] = {}
        self._graph_is_broken = False
        if names:
            self._graph = ObjectGraph(State(Schema(*graph_entries())), finder)
            self._graph.capture(self._values(objects), dict)
            self.content = encode_state(self._graph.storage.state)
            self.addresses = self._graph.nodes.numbers
            self._rest(objects)

    def _rest(self, objects: Mapping[str, Any]) -> None:
        """Expect the containers to stay as they are now."""
        self._writes = self._graph.writes
        containers = [one for one in self._graph.nodes.objects.values() if one is not self._graph.root]
        self._at_rest = ContainersAtRest(self._values(objects), containers)

    def _values(self, objects: Mapping[str, Any]) -> list[Any]:
        none: dict[str, Any] = {}
        holders = [(objects.get(layer), name) for layer, name in self._names.values()]
        return [(none if holder is None else vars(holder)).get(name) for holder, name in holders]

    def have_changed(self, objects: Mapping[str, Any]) -> bool:
        """Return True if anything in the containers, or one of them, is another object than when they were taken."""
        if not self._names or self._graph_is_broken:
            return self._graph_is_broken
        values = self._values(objects)
        if self._at_rest.are_of(values):
            return False
        try:
            self._graph.capture(values, dict)
        except UnsavableError:  # The graph of all other values, in which it is then, refuses it by its path.
            self._graph_is_broken = True
        return self._graph_is_broken or self._graph.writes != self._writes

    @property
    def present(self) -> list[Any]:
        """The containers, after have_changed was False.

        Attributes may hold others by now, where a user has stepped what a replay handed out.
        """
        return list(self._graph.root) if self._names else []

    def accept(self, objects: Mapping[str, Any]) -> bool:
        """Expect what is there now, if it is what was there, made of other objects. Return False if it is not.

        To be called after have_changed.
        """
        if self._graph_is_broken or encode_state(self._graph.storage.state) != self.content:
            return False
        self._rest(objects)
        return True

    def are_of(self, names: Mapping[str, tuple[str, str]]) -> bool:
        """Return True if these attributes, in this order, hold the containers."""
        return list(names.items()) == list(self._names.items())

    def leading_to(self, value: Any) -> list[Any]:
        """The objects that lead from an attribute to one in a container, as the containers were when they were taken."""
        return (chain_to(self._graph.nodes, value) if self._names else None) or []

    def first_change(self, objects: Mapping[str, Any]) -> str | None:
        """The path of the first value that is not as at the last check, or None. The next check is not affected."""
        path = first_change(self._graph, self._values(objects)) if self._names else None
        if path is None:
            return None
        index, _, inside = path.removeprefix("[").partition("]")
        return f"{list(self._names)[int(index)]}{inside}"

    def changes(self, objects: Mapping[str, Any], shared: Collection[int]) -> set[tuple[str, str]]:
        """The layers and attributes of containers that have changed, by their values, or hold one of these addresses.

        One that holds other kinds now counts as changed.
        """
        places = zip(self._names.values(), self._values(objects), self.values_in(self.content), strict=True)
        found = {
            key for key, now, then in places if _differ(now, then) or any(id(one) in shared for one in _inside(now))
        }
        return found if found or not shared else set(self._names.values())

    def shared(self, met: Collection[int], elsewhere: Iterable[tuple[str, Mapping[str, Any], str]]) -> set[int]:
        """The addresses of objects in the containers that others lead to, too.

        met: those that are nodes of the rest. elsewhere: the full names, the attributes and the names of fields.
        """
        if not self.addresses:
            return set()
        others = (attributes.get(name) for full, attributes, name in elsewhere if full not in self._names)
        return {*met, *(id(one) for one in others if id(one) in self.addresses)}

    def values_in(self, content: bytes) -> list[Any]:
        """The containers that were written as content. Raises ValueError for other bytes."""
        if not content:
            return []
        return Restoring(ObjectGraph(decode_state(content), self._finder), {}, in_place=False).run()


class ContainersAtRest:
    """Lists and dicts of which none changed: one look at all that they refer to tells whether that is still so."""

    def __init__(self, roots: Sequence[Any], containers: Sequence[Any]) -> None:
        """roots: the attributes' values. containers: all mutable objects in them."""
        self._roots, self._containers = list(roots), containers
        self._are_known = all(type(one) in (list, dict) for one in containers)  # A set may change its order alone.
        self._lengths = list(map(len, containers)) if self._are_known else []
        self._seen = _looked_at(containers) if self._are_known else ()

    def are_of(self, roots: Sequence[Any]) -> bool:
        """Return True if these are the roots, and surely all is as it was."""
        if not self._are_known or not all(map(is_, roots, self._roots)):
            return False
        if list(map(len, self._containers)) != self._lengths:
            return False
        now = _looked_at(self._containers)
        return len(now) == len(self._seen) and not len(changed_places(self._seen, now))


def _looked_at(containers: Sequence[Any]) -> tuple[Any, ...]:
    """All that lists and dicts refer to. get_referents leaves out the keys of a dict that has texts as keys only."""
    keys = chain.from_iterable(one for one in containers if type(one) is dict)
    return (*get_referents(*containers), *keys)


def _inside(container: Any) -> Iterator[Any]:
    """All values in a container, without itself."""
    waiting, seen = [container], set()
    while waiting:
        one = waiting.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if one is not container:
            yield one
        if isinstance(one, dict):
            waiting += [*one, *one.values()]
        elif isinstance(one, list | tuple | set | frozenset | deque):
            waiting += one


def _differ(now: Any, then: Any) -> bool:
    try:
        return encode_value(now) != encode_value(then)
    except NotPlainError:
        return True  # From now on it is a part of the graph, which refuses what it cannot save.


def element_count(value: Any, limit: int = CONSTANT_ELEMENTS) -> int:
    """The number of elements of a container and of the containers inside it; the count stops above limit."""
    count, waiting = 0, [value]
    seen: set[int] = set()
    while waiting and count <= limit:
        container = waiting.pop()
        if id(container) in seen:
            continue
        seen.add(id(container))
        count += len(container)
        items = container.values() if isinstance(container, Mapping) else container
        waiting += [item for item in items if type(item) in (dict, list, set, tuple)]
    return count


def _is_plain(value: Any) -> bool:
    try:
        encode_value(value)
    except NotPlainError:
        return False
    return True
