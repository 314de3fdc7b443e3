"""Find the changed rows of an unmarked state from the memory pages that the kernel saw written.

All fields are scanned instead if the kernel reports no pages, if the state is too small for that to be worth it, or
while so many pages are written that a scan costs less.

Invariants:
    1. changed_rows holds every row whose bytes differ from the baseline, and all other rows in a written page.
    2. The bytes outside of complete pages, at both ends of an arena, count as written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from recorder.session.pages.page_watch import PageReader
from recorder.session.pages.userfaultfd import PAGE_BYTES, Pages
from recorder.session.pages.watch_cost import FAULT_COSTS, WatchCost
from sim.kernel.changes.row_changes import ScannedChanges
from sim.kernel.marks import Rows
from sim.kernel.schema import Slot
from sim.kernel.state import Snapshot, State

# Costs as bytes that could be copied sequentially in that time, at 8 bytes per ns: to look up the rows of a field
# (50 µs), and to number and read one row, in addition to twice its bytes. Measured on fields of 34 MB: 3 to 6 ns for a
# row of 1 to 8 bytes, 50 ns for one of 256 bytes.
LOOKUP_COSTS_BYTES, ROW_COSTS_BYTES = 400_000, 50


class PagedChanges:
    """The rows in pages that were written since the baseline."""

    def __init__(self, state: State, size_min_bytes: int = 0) -> None:
        """size_min_bytes: a smaller state is not watched but scanned."""
        self._state = state
        self._size_min_bytes = size_min_bytes
        self._scanned = ScannedChanges(state)
        self._reader: PageReader | None = None  # None while the state is scanned.
        self._watch_cost = WatchCost()
        self._saved_pages = 0  # Pages that did not have to be copied since the baseline.

    def changed_rows(self) -> Mapping[str, Rows]:
        """See ChangeSource."""
        ranges = self._written()
        if ranges is None:
            return self._scanned.changed_rows()
        slots = self._state.layout.slots
        changed = {name: _numbers(*rows_in(slot, *ranges)) for name, slot in slots.items() if slot.size_bytes}
        return {name: rows for name, rows in changed.items() if len(rows)}

    def changed_fields(self, *, saves_memory: bool = False) -> Mapping[str, Rows | None]:  # noqa: ARG002
        """See ChangeSource."""
        ranges = self._written()
        if ranges is None:
            return self._scanned.changed_fields()
        slots = [slot for slot in self._state.layout.slots.values() if slot.size_bytes]
        changed: dict[str, Rows | None] = {}
        copied_bytes = 0
        for slot, written_bytes in zip(slots, bytes_in(slots, *ranges).tolist(), strict=True):
            cost_bytes = _cost_bytes(slot, -(-written_bytes // slot.row_bytes))  # An estimate, before the look-up.
            if 0 < cost_bytes < slot.size_bytes:
                first, counts = rows_in(slot, *ranges)
                cost_bytes = _cost_bytes(slot, int(counts.sum()))
            if cost_bytes >= slot.size_bytes:
                changed[slot.name] = None
            elif cost_bytes:
                changed[slot.name] = _numbers(first, counts)
            copied_bytes += min(cost_bytes, slot.size_bytes)
        self._saved_pages += (self._state.layout.size_bytes - copied_bytes) // PAGE_BYTES
        return changed

    @property
    def needs_baseline(self) -> bool:
        """See ChangeSource; False while the written pages are known."""
        return self._reader is None or self._reader.arena is not self._state.arena

    def reset(self, baseline: Snapshot | None) -> None:
        """See ChangeSource."""
        arena = self._state.arena
        if self._reader is not None and self._reader.arena is arena:
            self._continue(self._reader)
        else:  # A different arena, or no reader.
            self._let_go()
            if not self._watch_cost.backing_off or self._watch_cost.backoff_over():
                self._reader = PageReader.begin(arena, self._size_min_bytes)
        self._saved_pages = 0
        # While pages are known the writer may build the next full state in the memory of this one.
        self._scanned.reset(baseline if self._reader is None else None)

    def close(self) -> None:
        """See ChangeSource."""
        self._scanned.close()
        self._let_go()

    def _continue(self, reader: PageReader) -> None:
        """Start a new round with the same reader, if the last round was worth its cost."""
        pages = reader.take()
        if pages is None or not self._watch_cost.is_worth_it(FAULT_COSTS * len(pages), self._saved_pages):
            self._let_go()

    def _let_go(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def _written(self) -> tuple[Rows, Rows] | None:
        """Return the begins and ends of the written ranges of the arena, ascending; None if they are unknown."""
        reader = self._reader
        if reader is None or reader.arena is not self._state.arena:
            return None
        pages = reader.look()
        if pages is None:
            self._let_go()
            return None
        return ranges_of(pages, reader.lead_bytes, reader.page_count, len(reader.arena))


def ranges_of(pages: Pages, lead_bytes: int, page_count: int, size_bytes: int) -> tuple[Rows, Rows]:
    """Return the begins and ends of the written ranges of an arena. Adjacent pages are one range; see invariant 2."""
    is_first = np.diff(pages, prepend=-2) > 1
    is_last = np.diff(pages, append=page_count + 1) > 1
    begins = lead_bytes + pages[is_first] * PAGE_BYTES
    ends = lead_bytes + (pages[is_last] + 1) * PAGE_BYTES
    tail = lead_bytes + page_count * PAGE_BYTES
    return np.concatenate([[0], begins, [tail]]), np.concatenate([[lead_bytes], ends, [size_bytes]])


def bytes_in(slots: Sequence[Slot], begins: Rows, ends: Rows) -> Rows:
    """Return the number of bytes of each field that lie in the ranges. The first range must begin at 0."""
    before = np.cumsum(ends - begins) - (ends - begins)  # Bytes of the ranges before each one.
    starts = np.array([slot.offset for slot in slots], np.int64)
    bounds = np.concatenate([starts, starts + np.array([slot.size_bytes for slot in slots], np.int64)])
    last = np.searchsorted(begins, bounds, "right") - 1  # The last range that begins there or earlier.
    upto = before[last] + np.minimum(bounds, ends[last]) - begins[last]
    bytes_by_field: Rows = upto[len(slots) :] - upto[: len(slots)]
    return bytes_by_field


def rows_in(slot: Slot, begins: Rows, ends: Rows) -> tuple[Rows, Rows]:
    """Return the runs of rows of a field that touch the ranges: the first row of each run, and its length."""
    start, stop = slot.offset, slot.offset + slot.size_bytes
    inside = slice(int(np.searchsorted(ends, start, "right")), int(np.searchsorted(begins, stop, "left")))
    first = (np.maximum(begins[inside], start) - start) // slot.row_bytes
    last = -((start - np.minimum(ends[inside], stop)) // slot.row_bytes)  # The row after the last one.
    first[1:] = np.maximum(first[1:], last[:-1])  # A row may lie in several ranges.
    return first, np.maximum(last - first, 0)


def _cost_bytes(slot: Slot, row_count: int) -> int:
    """Return the cost of taking this number of rows of a field, as bytes copied sequentially."""
    return LOOKUP_COSTS_BYTES + row_count * (2 * slot.row_bytes + ROW_COSTS_BYTES) if row_count else 0


def _numbers(first: Rows, counts: Rows) -> Rows:
    before = np.cumsum(counts) - counts
    return np.repeat(first - before, counts) + np.arange(int(counts.sum()))
