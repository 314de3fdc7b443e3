"""Large containers that are assumed not to change: kept apart, and compared at intervals instead of in each step.

They have a graph of their own, which tells exactly and cheaply whether anything in them has changed. The arena holds
them as the bytes of that graph's state.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sim.adapters.capture.graph.names.classes import ClassFinder
from sim.adapters.capture.graph.object_graph import ObjectGraph, graph_entries
from sim.adapters.capture.graph.restore_graph import Restoring
from sim.adapters.capture.values import NotPlainError, decode_state, encode_state, encode_value
from sim.kernel.schema import Schema
from sim.kernel.state import State


class Constants:
    """Containers that are assumed not to change.

    Attributes:
        content: them as bytes, as they were when they were last taken.
    """

    def __init__(self, finder: ClassFinder, values: Sequence[Any]) -> None:
        self._finder, self._count = finder, len(values)
        self.content = b""
        if values:
            self._graph = ObjectGraph(State(Schema(*graph_entries())), finder)
            self._graph.capture(values, dict)
            self._note()

    def _note(self) -> None:
        self.content = encode_state(self._graph.storage.state)
        self._writes = self._graph.writes

    def have_changed(self, values: Sequence[Any]) -> bool:
        """Return True if anything in the containers, or one of them, is another object than when they were taken."""
        if not self._count:
            return False
        self._graph.capture(values, dict)
        return self._graph.writes != self._writes

    def changes(self, values: Sequence[Any]) -> list[bool]:
        """For each container True if it has changed, by its values. One that holds other kinds now counts as changed."""
        return [_differ(now, then) for now, then in zip(values, self.values_in(self.content), strict=True)]

    def values_in(self, content: bytes) -> list[Any]:
        """The containers that were written as content. Raises ValueError for other bytes."""
        if not content:
            return []
        return Restoring(ObjectGraph(decode_state(content), self._finder), {}, in_place=False).run()


def _differ(now: Any, then: Any) -> bool:
    try:
        return encode_value(now) != encode_value(then)
    except NotPlainError:
        return True  # From now on it is a part of the graph, which refuses what it cannot save.
