"""Decide if watching for page writes is cheaper than scanning all pages. If it is not, back off, then try again.

The unit of cost is one page that is copied or compared together with all others: about 0.3 µs.
"""

from __future__ import annotations

import attrs

# Measured by tools/bench/tracking.py on 6 to 268 MB: the fault of the first write to a page takes 1.2 to 2 µs, looking at
# a page here and there 1 to 2 µs, and in passing 0.3 µs, or 0.8 while others use the memory, too: what is written of each
# 100 pages in a tick has to stay below 11 to 20 to be worth it. Of keyframes more may be, since one fault serves many.
FAULT_COSTS, SCATTERED_COSTS = 4, 3
BACKOFF_MIN, BACKOFF_MAX = 4, 1024

# States that mark nothing are watched by themselves from these sizes on. A smaller one is compared in each tick in less time
# than asking the kernel takes, and what NumPy does with its answer: 100 to 150 µs. For keyframes one of 12 MB gains nothing:
# half of it is written from one to the next, and a copy takes 1 ms. Watched memory is in small pages, too, in which random
# writes take a third more, and going over all of it up to 3 % more.
WATCHED_TICKS_BYTES_MIN, WATCHED_KEYFRAMES_BYTES_MIN = 8 << 20, 32 << 20


@attrs.define
class WatchCost:
    """Decides if pages are watched, by the costs of the rounds so far."""

    _backoff: int = 0
    _next_backoff: int = BACKOFF_MIN

    @property
    def backing_off(self) -> bool:
        """Return True if pages are not worth being watched for now."""
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
