"""Know which rows of an unmarked state changed by the pages of memory that the kernel saw written.

All fields are copied, as for a scan, where the kernel tells nothing, where the state is too small for it to be worth it,
and while so much of it is written that a scan costs less.

Invariants:
    1. changed_rows holds every row whose bytes differ from the baseline, and all others that lie in a written page.
    2. What lies in no whole page of its own, at both ends of an arena, counts as written.
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

# What could be copied in passing, at 8 bytes a ns, while the rows of a field are looked up (50 µs), and while one of them
# is numbered and read, beside twice its own bytes: on fields of 34 MB, 3 to 6 ns a row of 1 to 8 bytes, 50 ns one of 256.
LOOKUP_COSTS_BYTES, ROW_COSTS_BYTES = 400_000, 50


class PagedChanges:
    """What lies in pages that were written since the baseline."""

    def __init__(self, state: State, size_min_bytes: int = 0) -> None:
        """size_min_bytes: of a state that is watched."""
        self._state = state
        self._size_min_bytes = size_min_bytes
        self._scanned = ScannedChanges(state)
        self._reader: PageReader | None = None  # None while nothing is known but by a scan.
        self._watch_cost = WatchCost()
        self._saved_pages = 0  # Since the baseline; those that were not copied.

    def changed_rows(self) -> Mapping[str, Rows]:
        """See ChangeSource."""
        ranges = self._written()
        if ranges is None:
            return self._scanned.changed_rows()
        slots = self._state.layout.slots
        found = {name: _numbers(*rows_in(slot, *ranges)) for name, slot in slots.items() if slot.size_bytes}
        return {name: rows for name, rows in found.items() if len(rows)}

    def changed_fields(self) -> Mapping[str, Rows | None]:
        """See ChangeSource."""
        ranges = self._written()
        if ranges is None:
            return self._scanned.changed_fields()
        slots = [slot for slot in self._state.layout.slots.values() if slot.size_bytes]
        found: dict[str, Rows | None] = {}
        copied_bytes = 0
        for slot, written_bytes in zip(slots, bytes_in(slots, *ranges).tolist(), strict=True):
            cost_bytes = _cost_bytes(slot, -(-written_bytes // slot.row_bytes))  # A guess, before they are looked up.
            if 0 < cost_bytes < slot.size_bytes:
                first, counts = rows_in(slot, *ranges)
                cost_bytes = _cost_bytes(slot, int(counts.sum()))
            if cost_bytes >= slot.size_bytes:
                found[slot.name] = None
            elif cost_bytes:
                found[slot.name] = _numbers(first, counts)
            copied_bytes += min(cost_bytes, slot.size_bytes)
        self._saved_pages += (self._state.layout.size_bytes - copied_bytes) // PAGE_BYTES
        return found

    @property
    def needs_baseline(self) -> bool:
        """See ChangeSource; not while the pages that were written are known."""
        return self._reader is None or self._reader.arena is not self._state.arena

    def reset(self, baseline: Snapshot | None) -> None:
        """See ChangeSource."""
        arena = self._state.arena
        if self._reader is not None and self._reader.arena is arena:
            self._go_on(self._reader)
        else:  # Another arena, or a rest.
            self._let_go()
            if not self._watch_cost.backing_off or self._watch_cost.backoff_over():
                self._reader = PageReader.begin(arena, self._size_min_bytes)
        self._saved_pages = 0
        # While pages are known the writer may make the next full state in the memory of this one.
        self._scanned.reset(baseline if self._reader is None else None)

    def close(self) -> None:
        """See ChangeSource."""
        self._scanned.close()
        self._let_go()

    def _go_on(self, reader: PageReader) -> None:
        """Begin anew with the pages of the same arena, if those of the last baseline were worth it."""
        pages = reader.take()
        if pages is None or not self._watch_cost.is_worth_it(FAULT_COSTS * len(pages), self._saved_pages):
            self._let_go()

    def _let_go(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def _written(self) -> tuple[Rows, Rows] | None:
        """Where each range of written bytes begins and ends in the arena, ascending; None if that is not known."""
        reader = self._reader
        if reader is None or reader.arena is not self._state.arena:
            return None
        pages = reader.look()
        if pages is None:
            self._let_go()
            return None
        return ranges_of(pages, reader.lead_bytes, reader.page_count, len(reader.arena))


def ranges_of(pages: Pages, lead_bytes: int, page_count: int, size_bytes: int) -> tuple[Rows, Rows]:
    """Where the written ranges of an arena begin and end: pages that follow each other are one; see invariant 2."""
    is_first = np.diff(pages, prepend=-2) > 1
    is_last = np.diff(pages, append=page_count + 1) > 1
    begins = lead_bytes + pages[is_first] * PAGE_BYTES
    ends = lead_bytes + (pages[is_last] + 1) * PAGE_BYTES
    tail = lead_bytes + page_count * PAGE_BYTES
    return np.concatenate([[0], begins, [tail]]), np.concatenate([[lead_bytes], ends, [size_bytes]])


def bytes_in(slots: Sequence[Slot], begins: Rows, ends: Rows) -> Rows:
    """How many bytes of each field lie in ranges of bytes; the first range begins at 0."""
    before = np.cumsum(ends - begins) - (ends - begins)  # Bytes of the ranges before each one.
    starts = np.array([slot.offset for slot in slots], np.int64)
    places = np.concatenate([starts, starts + np.array([slot.size_bytes for slot in slots], np.int64)])
    last = np.searchsorted(begins, places, "right") - 1  # The last range that begins there or earlier.
    upto = before[last] + np.minimum(places, ends[last]) - begins[last]
    found: Rows = upto[len(slots) :] - upto[: len(slots)]
    return found


def rows_in(slot: Slot, begins: Rows, ends: Rows) -> tuple[Rows, Rows]:
    """The rows of a field that lie in ranges of bytes: the first of each lot, and how many follow each other."""
    start, stop = slot.offset, slot.offset + slot.size_bytes
    inside = slice(int(np.searchsorted(ends, start, "right")), int(np.searchsorted(begins, stop, "left")))
    first = (np.maximum(begins[inside], start) - start) // slot.row_bytes
    last = -((start - np.minimum(ends[inside], stop)) // slot.row_bytes)  # Behind the last one.
    first[1:] = np.maximum(first[1:], last[:-1])  # A row may lie in two ranges, or more.
    return first, np.maximum(last - first, 0)


def _cost_bytes(slot: Slot, row_count: int) -> int:
    """What taking so many rows of a field costs, as bytes copied in passing."""
    return LOOKUP_COSTS_BYTES + row_count * (2 * slot.row_bytes + ROW_COSTS_BYTES) if row_count else 0


def _numbers(first: Rows, counts: Rows) -> Rows:
    before = np.cumsum(counts) - counts
    return np.repeat(first - before, counts) + np.arange(int(counts.sum()))
