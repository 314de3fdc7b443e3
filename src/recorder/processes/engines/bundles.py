"""The number of items that one worker gets together.

One process hands out all work, and each bundle costs it some milliseconds. Short items for many workers are therefore
bundled; items that take long are not, so that all workers end at about the same time.
"""

from __future__ import annotations

import math

import attrs

BUNDLE_MAX = 32
AHEAD = 4  # A bundle is at least this part, for each slot, of what waits.
HAND_OUT_S = 0.004  # Of the process that hands out, for each bundle; measured by tools/bench/cluster.py.
BUNDLE_S_MAX = 5.0  # So much is lost with a worker at most.
_WEIGHT = 0.3  # Of the last bundle in the mean.


@attrs.define
class BundleSizes:
    """Chooses sizes by what waits, and by how long items took.

    Attributes:
        slots: the number of bundles at a time.
        item_s: the mean duration of items, with more weight for the last ones; None if none has ended.
    """

    slots: int
    item_s: float | None = None

    def size(self, waiting: int) -> int:
        """The size of the next bundle if so many items wait."""
        size = waiting / (AHEAD * self.slots)
        if self.item_s is not None:
            # Slots that wait for this process cost as much as a bundle that others wait for at the end.
            enough = self.slots * HAND_OUT_S / self.item_s
            best = math.sqrt(waiting * HAND_OUT_S / self.item_s)
            size = max(size, min(enough, best))
            size = min(size, BUNDLE_S_MAX / self.item_s)
        return max(1, min(int(size), BUNDLE_MAX))

    def ended(self, items: int, seconds: float) -> None:
        """Note that some items have ended, and how long they took together."""
        item_s = max(seconds / items, 1e-4)
        self.item_s = item_s if self.item_s is None else _WEIGHT * item_s + (1 - _WEIGHT) * self.item_s
