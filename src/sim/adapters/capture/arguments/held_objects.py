"""What a captured object holds, as it was captured last."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from sim.adapters.capture.constants import Constants
from sim.adapters.capture.graph.names.python_class import base_of
from sim.adapters.capture.graph.object_graph import ObjectGraph
from sim.adapters.capture.graph.reach.paths import chain_to
from sim.adapters.capture.values import is_array


class HeldObjects:
    """See object_values.Holder.

    Attributes:
        finder: finds the classes of the objects.
        left_out: see there.
    """

    def __init__(self, graph: ObjectGraph, constants: Constants, with_fields: Callable[[], Iterable[Any]]) -> None:
        """constants: the large containers. with_fields: returns the objects with fields of their own, as they are now."""
        self.finder = graph.finder
        self._graph, self._constants, self._with_fields = graph, constants, with_fields
        self._names = graph.groups
        self.left_out: Sequence[Any] = ()

    def holds_any(self, addresses: set[int]) -> bool | None:
        """Return True for the identity of a mutable value in the object, or several of them, None if that is not known."""
        held = (self._constants.addresses, self._graph.nodes.numbers)
        if any(one in numbers for numbers in held for one in addresses):
            return True
        if any(id(one) in addresses or (is_array(one) and id(one.base) in addresses) for one in self._with_fields()):
            return True
        return None if self._graph.is_forgotten else False

    def array_over(self, base: Any) -> Any:
        """The array with a field of its own that alone holds this base, and all of its memory; None without one."""
        return next((one for one in self._with_fields() if is_array(one) and one.base is base), None)

    def take_left_out(self) -> Sequence[Any]:
        """The arrays of which the call wrote only a part; none from now on."""
        taken, self.left_out = self.left_out, ()
        return taken

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
