"""What a captured object holds, as it was captured last."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from sim.adapters.capture.graph.names.python_class import base_of
from sim.adapters.capture.graph.object_graph import ObjectGraph
from sim.adapters.capture.graph.reach.paths import chain_to


class HeldObjects:
    """See object_values.Holder.

    Attributes:
        finder: finds the classes of the objects.
    """

    def __init__(
        self, graph: ObjectGraph, constants: Mapping[int, int], with_fields: Callable[[], Iterable[Any]]
    ) -> None:
        """constants: the identities of what large containers hold. with_fields: returns the objects with fields of their own."""
        self.finder = graph.finder
        self._graph, self._constants, self._with_fields = graph, constants, with_fields

    def name_of(self, value: Any) -> str | None:
        """The name by which a module or class refers to a mutable value now; None for any other."""
        name = self._graph.groups.global_name_of(value)
        if name is None and base_of(type(value)) is object:
            name = self.finder.names_beside(type(value)).get(id(value))
        return name if name is not None and self.finder.refers_to(name, value) else None

    def may_name_any(self, addresses: set[int]) -> bool:
        """Return True if name_of may have a name for a value with one of these identities."""
        return any(one in self._graph.groups.global_names for one in addresses)

    def holds_any(self, addresses: set[int]) -> bool | None:
        """Return True for the identity of a mutable value in the object, or several of them, None if that is not known."""
        known = (self._constants, self._graph.nodes.numbers)
        if any(one in numbers for numbers in known for one in addresses):
            return True
        if any(id(one) in addresses for one in self._with_fields()):
            return True
        return None if self._graph.is_forgotten else False

    def leading_to(self, value: Any) -> list[Any]:
        """Objects that lead from the object's attributes to a mutable value in it, as far as they are known."""
        return chain_to(self._graph.nodes, value) or []
