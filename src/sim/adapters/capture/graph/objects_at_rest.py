"""Objects of which none changed in the last step: one look tells whether that is still so.

The garbage collector names all values of an object and its class, at once for many objects. If these are the same
objects as before, in the same order, nothing has changed, unless an attribute went and another one came with the same
value in the next place. For that, the class must know of another name, which is looked for in its memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from gc import get_referents
from typing import Any, Self

from sim.adapters.capture.graph.cells.changed_cells import changed_places
from sim.adapters.capture.graph.rows import ListRows, ObjectRows
from sim.kernel.memory.own_attributes import OwnAttributes, own_attributes


class ObjectsAtRest:
    """The objects of some rows, and what they refer to, which is kept alive.

    Attributes:
        are_known: True if it can be told whether they change.
    """

    def __init__(self, objects: Sequence[Any], name_count: int, own: OwnAttributes) -> None:
        """objects: a list that is replaced when others come or go. name_count: of their attributes."""
        self._objects, self._name_count, self._own = objects, name_count, own
        self._seen = tuple(get_referents(*objects))
        # One that has a dict refers to that in place of its values.
        self.are_known = len(self._seen) == (name_count + 1) * len(objects) and own.are_all_of(name_count)

    @classmethod
    def of(cls, rows: ListRows | ObjectRows) -> Self | None:
        """Remember rows that have just been read; None if it could not be told whether their objects change."""
        own = own_attributes(rows.cls, ()) if type(rows) is ObjectRows and rows.by_names else None
        made = cls(rows.objects, len(rows.names), own) if type(rows) is ObjectRows and own is not None else None
        return made if made is not None and made.are_known else None

    def are_of(self, rows: ListRows | ObjectRows) -> bool:
        """Return True if these are the objects of the rows, and surely all as they were."""
        if self._objects is not rows.objects or not self._own.are_all_of(self._name_count):
            return False
        now = tuple(get_referents(*self._objects))
        return len(now) == len(self._seen) and not len(changed_places(self._seen, now))
