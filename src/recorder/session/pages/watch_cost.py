"""Whether to be told which pages are written costs less than to look at all of them: if not, a rest comes, then a trial.

All costs are in those of one page that is copied, or compared, in passing, with all others: about 0.3 µs.
"""

from __future__ import annotations

import attrs

# Measured by tools/bench/tracking.py on 6 to 268 MB: the fault of the first write to a page takes 1.2 to 2 µs, looking at
# a page here and there 1 to 2 µs, and in passing 0.3 µs, or 0.8 while others use the memory, too: what is written of each
# 100 pages in a tick has to stay below 11 to 20 to be worth it. Of keyframes more may be, since one fault serves many.
FAULT_COSTS, SCATTERED_COSTS = 4, 3
REST_MIN, REST_MAX = 4, 1024

# States that mark nothing are watched by themselves from these sizes on. A smaller one is compared in each tick in less time
# than asking the kernel takes, and what NumPy does with its answer: 100 to 150 µs. For keyframes one of 12 MB gains nothing:
# half of it is written from one to the next, and a copy takes 1 ms. Watched memory is in small pages, too, in which random
# writes take a third more, and going over all of it up to 3 % more.
WATCHED_TICKS_BYTES_MIN, WATCHED_KEYFRAMES_BYTES_MIN = 8 << 20, 32 << 20


@attrs.define
class WatchCost:
    """Says whether to watch, by what it has come to so far."""

    _rest: int = 0
    _next_rest: int = REST_MIN

    @property
    def rests(self) -> bool:
        """Whether pages are not worth being watched, for now."""
        return self._rest > 0

    def pays(self, cost: int, saved: int) -> bool:
        """Whether a round that has come to this was worth it; else a rest begins, twice as long as the one before."""
        if cost <= saved:
            self._next_rest = REST_MIN
            return True
        self._rest, self._next_rest = self._next_rest, min(2 * self._next_rest, REST_MAX)
        return False

    def rested(self) -> bool:
        """A round of a rest has passed; whether that was the last one."""
        self._rest -= 1
        return not self._rest
