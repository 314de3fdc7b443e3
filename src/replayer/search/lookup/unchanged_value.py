"""Whether some steps have left a watched value as it was, from the rows that they changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs
import numpy as np

from replayer.search.lookup.interval_facts import ChangedRows, Rows
from replayer.search.names.printed_keys import index_of
from replayer.search.names.value_names import ValueName
from sim.kernel.schema import COUNTS_FIELD, Blob, Layout, Slot

OBJECTS_MARK = "graph.groups"  # The blob that the states of recorded objects have: paths are not fields there.


def field_slot(layout: Layout, name: ValueName) -> tuple[Slot, tuple[int, ...]] | None:
    """The field that a name means in this layout, and the indices after it; None if it means no field.

    The indices end before the first ``[:]``.
    """
    if OBJECTS_MARK in layout.slots:
        return None
    blobs = {entry.name for entry in layout.schema.entries if isinstance(entry, Blob)}
    for length in range(name.dotted_length, 0, -1):
        field = "".join(map(str, name.steps[:length]))
        if field in layout.slots and field not in blobs and field != COUNTS_FIELD:
            indices = list[int]()
            for step in name.steps[length:]:
                if step.kind == "printed":
                    index = index_of(str(step.value))
                    if index is None:
                        return None
                    indices.extend(index)
                    continue
                if step.kind not in ("index", "every"):
                    return None
                if step.kind == "every":
                    break
                indices.append(int(step.value))
            return layout.slots[field], tuple(indices)
    return None


def rows_at(slot: Slot, place: tuple[int, ...]) -> Rows | None:
    """The flat rows that hold the elements at a place; None for all rows.

    Of a column, a row that counts from the end may be any: the number of rows changes.
    """
    if not place or (slot.owner is not None and place[0] < 0):
        return None
    numbers = np.arange(slot.row_count, dtype=np.int64).reshape(slot.rows_shape)
    try:
        return np.atleast_1d(numbers[place[: len(slot.rows_shape)]]).reshape(-1)
    except IndexError:
        return None


@attrs.frozen
class Steps:
    """Some steps, and the rows that they may have changed.

    Attributes:
        changed: nothing is known if it is empty.
        layouts: by their seeds; what changed in another layout is not known.
    """

    changed: Sequence[ChangedRows]
    layouts: Mapping[int, Layout]

    def keep(self, name: ValueName, place: tuple[int, ...]) -> bool:
        """Return True if the value at a place of a field is the same after each of the steps."""
        return bool(self.changed) and all(self._keeps(one, name, place, None) for one in self.changed)

    def keep_entity(self, name: ValueName, id_column: ValueName, row: int | None) -> bool:
        """Return True if the value of an entity is the same after each of the steps.

        row: of the entity before them, which is the first one with its number; None if it was not there.
        """
        if row is None or not self.changed:
            return self.keep(id_column, ())
        up_to = np.arange(row + 1, dtype=np.int64)  # An earlier row that gets the number is the entity from then on.
        return self.keep(name, (row,)) and all(self._keeps(one, id_column, (), up_to) for one in self.changed)

    def _keeps(self, steps: ChangedRows, name: ValueName, place: tuple[int, ...], rows: Rows | None) -> bool:
        layout = None if steps.layout is None else self.layouts.get(steps.layout)
        found = None if layout is None else field_slot(layout, name)
        if layout is None or found is None:
            return False
        slot, indices = found
        if slot.owner is not None:  # Rows of its table may have come or gone.
            count = np.array([layout.count_index[slot.owner]], np.int64)
            if steps.any_of(COUNTS_FIELD, count):
                return False
        return not steps.any_of(slot.name, rows_at(slot, (*indices, *place)) if rows is None else rows)
