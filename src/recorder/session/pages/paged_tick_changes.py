"""Find the changes of each tick in an unmarked state from the memory pages that the kernel saw written.

The written pages are compared with their contents one tick ago. The complete arena is compared instead if the kernel
reports no pages, if the state is too small for that to be worth it, or while so many pages are written that comparing
all of them costs less.

Invariant: the result equals that of a scan, word for word.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from recorder.session.pages.page_watch import PageReader
from recorder.session.pages.userfaultfd import PAGE_BYTES, Pages
from recorder.session.pages.watch_cost import FAULT_COSTS, SCATTERED_COSTS, WatchCost
from sim.kernel.changes.tick_changes import ARENA_WORD_BYTES, ScannedTicks, TickChanges
from sim.kernel.state import State

PAGES_AT_A_TIME = 256  # Copies of that many pages stay in the processor's cache.
PAGE_WORDS = PAGE_BYTES // ARENA_WORD_BYTES

MANY_PAGES_BYTES = 64 << 20

Words = npt.NDArray[np.uint64]
Numbers = npt.NDArray[np.int64]


class PagedTicks(ScannedTicks):
    """The changes of each tick, found by comparing the written pages."""

    def __init__(self, state: State, size_min_bytes: int = 0) -> None:
        """size_min_bytes: a smaller state is not watched but scanned."""
        self._size_min_bytes = size_min_bytes
        self._reader: PageReader | None = None
        self._watch_cost = WatchCost()
        super().__init__(state)

    def take(self, state: State) -> TickChanges | None:
        """See TickSource."""
        if state.arena is not self._arena:
            return None
        if self._watch_cost.backing_off and self._watch_cost.backoff_over():
            # Before the comparison: pages written after this belong to the next tick.
            self._reader = PageReader.begin(state.arena, self._size_min_bytes)
            return super().take(state)
        reader = self._reader
        pages = reader.take() if reader is not None else None
        if reader is None or pages is None:
            self._let_go()
            return super().take(state)
        if not self._watch_cost.is_worth_it((FAULT_COSTS + SCATTERED_COSTS) * len(pages), reader.page_count):
            self._let_go()
        if SCATTERED_COSTS * len(pages) >= reader.page_count or self._are_many(len(pages)):
            return super().take(state)
        numbers = self._differing(reader.lead_bytes // ARENA_WORD_BYTES, reader.page_count, pages)
        if len(numbers) >= self._many_words:
            del numbers
            return super().take(state)
        return self._take_words(numbers)

    def _are_many(self, page_count: int) -> bool:
        """Return True for so many pages that the numbers of their words could take much of the memory of the state."""
        return page_count * PAGE_BYTES >= max(MANY_PAGES_BYTES, len(self._arena) // 8)

    def reset(self, state: State) -> None:
        """See TickSource."""
        if self._reader is not None and self._reader.arena is self._arena is state.arena:
            self.take(state)  # Discarded: the consumer's copy of the state has these changes.
            return
        self._let_go()
        if not self._watch_cost.backing_off:
            self._reader = PageReader.begin(state.arena, self._size_min_bytes)
        super().reset(state)

    def close(self) -> None:
        """See TickSource."""
        self._let_go()
        super().close()

    def _let_go(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def _differing(self, lead: int, page_count: int, pages: Pages) -> Numbers:
        """Return the words that differ in these pages and outside of all pages. lead: words before the first page."""
        tail = lead + page_count * PAGE_WORDS
        now, before = self._words[lead:tail].reshape(-1, PAGE_WORDS), self._before[lead:tail].reshape(-1, PAGE_WORDS)
        differing = [np.flatnonzero(self._words[:lead] != self._before[:lead])]
        for begin in range(0, len(pages), PAGES_AT_A_TIME):
            batch = pages[begin : begin + PAGES_AT_A_TIME]
            indices = np.flatnonzero(now.take(batch, axis=0) != before.take(batch, axis=0))
            differing.append(lead + batch[indices // PAGE_WORDS] * PAGE_WORDS + indices % PAGE_WORDS)
        differing.append(tail + np.flatnonzero(self._words[tail:] != self._before[tail:]))
        return np.concatenate(differing)
