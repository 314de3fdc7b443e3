"""Marks of the rows that were written, and fields as words, the units in which bytes are compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from sim.kernel.schema import Layout, Slot

Rows = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]

# The number of bytes that could be copied while one flag of a mask is checked, and while one row in a field is read:
# measured on fields of 0.4 to 33 MB, 1.5 ns a flag, 15 to 20 ns a row, 7 to 13 bytes a ns.
FLAG_COSTS_BYTES, ROW_COSTS_BYTES = 12, 150
NUMBER_BYTES = 8  # Of a row.
ROW_NUMBERS = np.dtype(np.int64)
MANY_ROWS = 1 << 10  # From here on, to find the largest number takes less than a store for each.


class MarkListener(Protocol):
    """A consumer that a state notifies of each mark."""

    def mark(self, name: str, rows: Any) -> None:
        """Note that rows of a field were written: flat numbers; None means all rows."""

    def mark_everything(self) -> None:
        """Note that all rows of all fields were written."""

    def replace_layout(self, layout: Layout) -> None:
        """Note that the state has a different layout."""


class ChangeMarks:
    """The change masks of one consumer: one flag for each row of each field.

    Without lists_narrow, a field whose rows are too narrow for a list to pay has one flag in all: a consumer that only
    asks for fields would copy it in any case. ``rows`` then names all of its rows.
    """

    def __init__(self, layout: Layout, *, lists_narrow: bool = True) -> None:
        self._lists_narrow = lists_narrow
        self._slots: Mapping[str, Slot] = {}
        self._masks: dict[str, npt.NDArray[np.bool_]] = {}
        self.replace_layout(layout)

    def replace_layout(self, layout: Layout) -> None:
        """Fit the masks to a new layout, with every row marked (invariant 3)."""
        self._slots = layout.slots
        self._narrow = {name for name, slot in layout.slots.items() if not self._lists_narrow and _is_narrow(slot)}
        self._masks = {
            name: _one_flag(slot.row_count) if name in self._narrow else np.ones(slot.row_count, np.bool_)
            for name, slot in layout.slots.items()
        }
        self._touched = set(self._masks)  # The fields that have any mark.

    def mask_of(self, name: str) -> tuple[npt.NDArray[np.bool_], set[str]]:
        """The mask of a field and the set of the fields with any mark, to mark rows without a call, up to a new layout."""
        return self._masks[name], self._touched

    def has_one_flag(self, name: str) -> bool:
        """Return True if it makes no difference which rows of a field are marked."""
        return name in self._narrow

    def mark(self, name: str, rows: Any) -> None:
        """Mark rows of a field: flat numbers, a slice or a mask; None marks all."""
        self._touched.add(name)
        is_mask = isinstance(rows, np.ndarray) and rows.dtype == np.bool_
        if name in self._narrow and (rows is None or is_mask):
            return
        if rows is None:
            self._masks[name].fill(True)
        elif is_mask:
            mask = self._masks[name]
            mask[: rows.size] |= rows.reshape(-1)
        else:
            self._masks[name][rows] = True

    def mark_everything(self) -> None:
        """Mark every row of every field."""
        self._touched.update(self._masks)
        for name in self._masks.keys() - self._narrow:
            self._masks[name].fill(True)

    def clear(self) -> None:
        """Clear all marks."""
        for name in self._touched - self._narrow:
            self._masks[name].fill(False)
        self._touched.clear()

    def fields(self, *, saves_memory: bool = False) -> dict[str, Rows | None]:
        """The marked rows of each field that has any; None where listing them costs more than copying the field.

        saves_memory: where they would take half of its memory.
        """
        marked: dict[str, Rows | None] = {}
        for name, slot in self._slots.items():
            if name not in self._touched or not slot.size_bytes:
                continue
            search_bytes = slot.row_count * FLAG_COSTS_BYTES if not saves_memory else 0
            if slot.size_bytes <= search_bytes or name in self._narrow:
                marked[name] = None
                continue
            count = int(np.count_nonzero(self._masks[name]))
            if slot.size_bytes <= (
                listed_bytes(slot, count) if saves_memory else search_bytes + count * ROW_COSTS_BYTES
            ):
                marked[name] = None
            elif count:
                marked[name] = np.flatnonzero(self._masks[name]).astype(np.int64, copy=False)
        return marked

    def rows(self) -> dict[str, Rows]:
        """The marked rows of each field that has any."""
        slots = self._slots
        touched = (name for name in self._masks if name in self._touched)
        marked = {
            name: np.arange(slots[name].row_count)
            if name in self._narrow
            else np.flatnonzero(self._masks[name]).astype(np.int64, copy=False)
            for name in touched
        }
        return {name: rows for name, rows in marked.items() if len(rows)}


class QuickMarks:
    """The marks of a state that are set without listing rows first, up to a new layout or listener.

    Attributes:
        ready_masks: the masks, see ChangeMarks.mask_of, of fields that take negative numbers as they are: in no table, or
            with one flag.
        one_flag: the fields for which no listener tells rows apart.
    """

    def __init__(self, listeners: Sequence[MarkListener], layout: Layout) -> None:
        self._masks = [one for one in listeners if type(one) is ChangeMarks]
        self._is_usual = len(self._masks) == len(listeners)
        names = layout.slots if self._is_usual else ()
        self.one_flag = {name for name in names if all(one.has_one_flag(name) for one in self._masks)}
        self.ready_masks = {
            name: [one.mask_of(name) for one in self._masks]
            for name in names
            if not layout.slots[name].owner or name in self.one_flag
        }

    def mark(self, name: str, rows: npt.NDArray[Any], count: int) -> bool:
        """Mark rows of a field if they are a mask, or numbers as the masks take them; return False otherwise.

        count: the number of rows there are.
        """
        if rows.dtype == np.bool_:
            is_marked = self._is_usual and rows.size == count
        else:
            is_usual = self._is_usual and rows.dtype is ROW_NUMBERS and rows.ndim == 1 and len(rows) > 0
            is_marked = is_usual and bool(rows.view(np.uint64).max() < count)  # Negative ones are above all of these.
            if is_marked and len(rows) >= MANY_ROWS and name in self.one_flag:
                rows = rows[:0]
        if is_marked:
            for one in self._masks:
                one.mark(name, rows)
        return is_marked


def _is_narrow(slot: Slot) -> bool:
    """Return True if fields lists no rows of a field, however few are marked."""
    return slot.size_bytes <= slot.row_count * FLAG_COSTS_BYTES


def _one_flag(row_count: int) -> npt.NDArray[np.bool_]:
    """Return a mask whose flags are all the same byte of memory. Writing to it still checks the numbers of rows."""
    return np.lib.stride_tricks.as_strided(np.zeros(1, np.bool_), (row_count,), (0,))


def listed_bytes(slot: Slot, row_count: int) -> int:
    """Twice the memory of this number of rows with their numbers."""
    return 2 * row_count * (slot.row_bytes + NUMBER_BYTES)


def word_bytes_of(slot: Slot) -> int:
    """The size of the words in which a field is compared."""
    return next(size for size in (8, 4, 2, 1) if slot.row_bytes % size == 0 and size <= slot.dtype.itemsize)


def comparable(arena: Bytes, slot: Slot) -> npt.NDArray[np.unsignedinteger[Any]]:
    """A field as unsigned integers, so that bytes are compared and not values; one integer for a row of up to 8 bytes.

    Shape (row_count,) or (row_count, words of a row).
    """
    word = word_bytes_of(slot)
    words = arena[slot.offset : slot.offset + slot.size_bytes].view(f"<u{word}")
    return words if slot.row_bytes == word else words.reshape(slot.row_count, slot.row_bytes // word)


def row_numbers(rows: Any, row_count: int) -> Rows:
    """The flat, non-negative row numbers that an index along one axis of row_count rows selects."""
    if isinstance(rows, slice):
        return np.arange(*rows.indices(row_count))
    if type(rows) is int:
        return np.array([rows if rows >= 0 else rows + row_count])
    index = np.atleast_1d(np.asarray(rows))
    if index.dtype == np.bool_:
        return np.flatnonzero(index)
    numbers = index.astype(np.int64, copy=False)
    return np.where(numbers < 0, numbers + row_count, numbers) if numbers.size and numbers.min() < 0 else numbers
