"""What a captured object holds, as it was captured last."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sim.adapters.capture.constants import Constants
from sim.adapters.capture.graph.names.python_class import base_of
from sim.adapters.capture.graph.object_graph import ObjectGraph
from sim.adapters.capture.graph.reach.paths import chain_to
from sim.adapters.capture.known_objects import Place


class HeldObjects:
    """See object_values.Holder.

    Attributes:
        finder: finds the classes of the objects.
    """

    def __init__(
        self, graph: ObjectGraph, constants: Constants, layers: Mapping[str, Any], elsewhere: Iterable[Place]
    ) -> None:
        """constants: the large containers. layers, elsewhere: what has fields of its own."""
        self.finder = graph.finder
        self._graph, self._constants = graph, constants
        self._names = graph.groups
        self._apart = [*layers.values(), *(attributes.get(name) for _, attributes, name in elsewhere)]

    def holds_any(self, addresses: set[int]) -> bool | None:
        """Return True for the identity of a mutable value in the object, or several of them, None if that is not known."""
        held = (self._constants.addresses, self._graph.nodes.numbers)
        if any(id(one) in addresses for one in self._apart) or any(
            one in numbers for numbers in held for one in addresses
        ):
            return True
        return None if self._graph.is_forgotten else False

    def may_name_any(self, addresses: set[int]) -> bool:
        """Return True if a module or class may refer to an object with any of these identities by a name."""
        return any(one in self._names.global_names for one in addresses)

    def name_of(self, value: Any) -> str | None:
        """The name by which a module or class refers to an object now, as the graph would save it; None without one."""
        name = self._names.global_name_of(value)
        if name is None and base_of(type(value)) is object and not self._names.has_class(type(value)):
            name = self.finder.names_beside(type(value)).get(id(value))
            return name if name is not None and self.finder.refers_to(name, value) else None
        return name

    def leading_to(self, value: Any) -> list[Any]:
        """Objects that lead from the object's attributes to a mutable value in it, as far as they are known."""
        return chain_to(self._graph.nodes, value) or self._constants.leading_to(value)
