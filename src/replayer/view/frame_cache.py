"""The filled part of a tape: encoded ticks, as many as fit into a budget of bytes, those near the cursor kept longest."""

from __future__ import annotations

import bisect

import attrs
import numpy as np

from replayer.view.states.frame_encoding import EncodedTick, bounds_of
from replayer.view.worker.page_jobs import ViewSelection

SLACK = 1.1  # It is cleared down to the budget only when it exceeds it by this factor: sorting is linear.
TICKS_MIN = 128  # Kept whatever the budget is: a page waits for up to 64 ticks of each tape at once.
RANGES_MAX = 2000  # Told to a page.


class FrameCache:
    """Encoded ticks of one tape.

    Attributes:
        centre: the tick that was looked at last; what is furthest from it is dropped first.
        scales: the lowest and the highest value of each map in all ticks that were ever here.
    """

    def __init__(self, budget_bytes: int) -> None:
        self.budget_bytes = budget_bytes
        self.centre = 0
        self.size_bytes = 0
        self.scales: dict[str, tuple[float, float]] = {}
        self._ticks: dict[int, EncodedTick] = {}
        self._look = ViewSelection()
        self._ready: list[int] = []  # Ascending.

    @property
    def ready_count(self) -> int:
        """The number of ticks that have all that is looked at."""
        return len(self._ready)

    def get(self, tick: int, look: ViewSelection) -> EncodedTick | None:
        """The tick, if it has all that is looked at."""
        found = self._ticks.get(tick)
        return found if found is not None and _has(found, look) else None

    def put(self, tick: int, encoded: EncodedTick) -> None:
        """Add a tick, or layers of a tick that is there."""
        for name, layer in encoded.layers.items():
            bounds = bounds_of(layer)
            if bounds is not None:
                low, high = self.scales.get(name, bounds)
                self.scales[name] = min(low, bounds[0]), max(high, bounds[1])
        old = self._ticks.get(tick)
        if old is not None:
            self.size_bytes -= old.size_bytes
            layers, exact = {**old.layers, **encoded.layers}, {**old.exact, **encoded.exact}
            encoded = attrs.evolve(encoded, layers=layers, exact=exact)
        self._ticks[tick] = encoded
        self.size_bytes += encoded.size_bytes
        if _has(encoded, self._look):
            place = bisect.bisect_left(self._ready, tick)
            if self._ready[place : place + 1] != [tick]:
                self._ready.insert(place, tick)
        if self.size_bytes > self.budget_bytes * SLACK and len(self._ticks) > TICKS_MIN:
            self._drop_furthest()

    def look_at(self, tick: int, look: ViewSelection) -> None:
        """Note what is looked at, and where."""
        self.centre = tick
        if look != self._look:
            self._look = look
            self._ready = sorted(known for known, encoded in self._ticks.items() if _has(encoded, look))

    def nearest(self, tick: int) -> int | None:
        """The tick nearest to a tick that has all that is looked at; None if there is none."""
        place = bisect.bisect_left(self._ready, tick)
        around = self._ready[max(0, place - 1) : place + 1]
        return min(around, key=lambda known: abs(known - tick), default=None)

    def ready_ranges(self) -> list[list[int]]:
        """Ranges of ticks, first and last, that have all that is looked at."""
        ticks = np.array(self._ready, np.int64)
        if not len(ticks):
            return []
        cuts = np.flatnonzero(np.diff(ticks) > 1)
        firsts, lasts = ticks[np.r_[0, cuts + 1]], ticks[np.r_[cuts, len(ticks) - 1]]
        return [[int(first), int(last)] for first, last in zip(firsts, lasts, strict=True)][:RANGES_MAX]

    def _drop_furthest(self) -> None:
        for tick in sorted(self._ticks, key=lambda known: -abs(known - self.centre)):
            if self.size_bytes <= self.budget_bytes or len(self._ticks) <= TICKS_MIN:
                break
            self.size_bytes -= self._ticks.pop(tick).size_bytes
        self._ready = [tick for tick in self._ready if tick in self._ticks]


def _has(encoded: EncodedTick, look: ViewSelection) -> bool:
    wanted = look.layers
    if any(name not in encoded.layers for name in wanted):
        return False
    return not look.exact or all(name in encoded.exact for name in wanted)
