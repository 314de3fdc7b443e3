"""Decide if watching for page writes is cheaper than scanning all pages. If it is not, back off, then try again.

The unit of cost is one page that is copied or compared together with all others: about 0.3 µs.
"""

from __future__ import annotations

import attrs

# Measured by tools/bench/tracking.py on 6 to 268 MB. The fault of the first write to a page takes 1.2 to 2 µs.
# Comparing a scattered page takes 1 to 2 µs, comparing pages in sequence 0.3 µs each, or 0.8 while others use the
# memory. Watching is therefore worth it if fewer than 11 to 20 of each 100 pages are written per tick. For keyframes the
# limit is higher, since one fault serves many ticks.
FAULT_COSTS, SCATTERED_COSTS = 4, 3
BACKOFF_MIN, BACKOFF_MAX = 4, 1024

# Unmarked states are watched automatically from these sizes on. Comparing a smaller one in each tick takes less time
# than asking the kernel and handling the answer in NumPy: 100 to 150 µs. For keyframes, watching a state of 12 MB gains
# nothing: half of it is written from one to the next, and a copy takes 1 ms. Watched memory also has small pages, in
# which random writes take a third longer, and a pass over all of it up to 3 % longer.
WATCHED_TICKS_BYTES_MIN, WATCHED_KEYFRAMES_BYTES_MIN = 8 << 20, 32 << 20


@attrs.define
class WatchCost:
    """Decides if pages are watched, from the costs of the rounds so far."""

    _backoff: int = 0
    _next_backoff: int = BACKOFF_MIN

    @property
    def backing_off(self) -> bool:
        """Return True while pages are not watched because that was not worth it."""
        return self._backoff > 0

    def is_worth_it(self, cost: int, saved: int) -> bool:
        """Return True if a round of this cost was worth it; else a backoff begins, twice as long as the one before."""
        if cost <= saved:
            self._next_backoff = BACKOFF_MIN
            return True
        self._backoff, self._next_backoff = self._next_backoff, min(2 * self._next_backoff, BACKOFF_MAX)
        return False

    def backoff_over(self) -> bool:
        """Count a round of a backoff; return True if it was the last one."""
        self._backoff -= 1
        return not self._backoff
