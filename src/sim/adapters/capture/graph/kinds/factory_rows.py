"""Rows of defaultdicts, whose factory may be replaced: it is part of their group's description."""

from __future__ import annotations

from operator import attrgetter, is_
from typing import Any

from sim.adapters.capture.graph.rows import DictRows, StrayError
from sim.kernel.memory.object_memory import Values

_factory_of = attrgetter("default_factory")


class FactoryRows(DictRows):
    """Defaultdicts that had one factory when they came into the group."""

    def __init__(self) -> None:
        super().__init__()
        self._factories: list[Any] = []

    def set_objects(self, objects: list[Any]) -> None:
        """Replace the objects."""
        super().set_objects(objects)
        self._expect()

    def insert(self, at: list[int], objects: list[Any]) -> None:
        """Insert objects before these rows, which ascend."""
        super().insert(at, objects)
        self._expect()

    def remove(self, rows: list[int]) -> None:
        """Remove these rows, which ascend."""
        super().remove(rows)
        self._expect()

    def _expect(self) -> None:
        self._factories = list(map(_factory_of, self.objects))

    def read(self) -> Values:
        """All keys and values. Raises StrayError if an object has another factory than before."""
        if not all(map(is_, map(_factory_of, self.objects), self._factories)):
            raise StrayError
        return super().read()

    def strays(self) -> list[int]:
        """The rows of objects with another factory; the others count as they are from now on."""
        pairs = zip(map(_factory_of, self.objects), self._factories, strict=True)
        found = [row for row, (now, before) in enumerate(pairs) if now is not before]
        self._expect()
        return found
