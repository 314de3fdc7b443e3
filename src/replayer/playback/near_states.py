"""States near the last seek, kept in memory within a budget, so that going back is a copy and not a replay.

Going back tick by tick, a cursor steps from a keyframe to the tick and keeps the states on its way. Where all of them fit,
each tick is simulated once. Where they do not, half of those that fit are of the last ticks, and the others are evenly
apart: each tick is then simulated about twice, and not once for each state that does not fit.
"""

from __future__ import annotations

from collections import OrderedDict

import attrs

from sim.kernel.state import Snapshot

NEAR_BYTES_MAX = 256 << 20  # Of all kept states, unless the caller says otherwise.
# Of a seek forward; of a large state fewer, and at least one. A step back mostly never comes, and a copy of a large state into
# fresh memory costs several steps.
KEPT_STATES_MAX, KEPT_BYTES_MAX = 8, 8 << 20
HELD_BYTES = 500  # Of memory for each state next to its bytes.


@attrs.frozen
class KeptStates:
    """The states that a seek keeps on its way.

    Attributes:
        states_max: of all that are kept.
        last_count: of the last ticks before the target.
        apart: ticks between the others; 0 if there are none.
    """

    states_max: int
    last_count: int
    apart: int

    def has(self, passed: int, remaining: int) -> bool:
        """Return True if the state after passed ticks is kept, remaining ticks before the target."""
        return remaining <= self.last_count or (self.apart > 0 and passed % self.apart == 0)


class NearStates(OrderedDict[int, Snapshot]):
    """Snapshots by their ticks, the oldest first. Use keep to add one.

    Invariant: together they take bytes_max at most, also if the state grows after a seek was planned.

    Attributes:
        bytes_max: the budget.
    """

    def __init__(self, bytes_max: int = NEAR_BYTES_MAX) -> None:
        """Raises ValueError for a budget below 0."""
        if bytes_max < 0:
            raise ValueError(f"near_bytes: expected at least 0, got {bytes_max}")
        super().__init__()
        self.bytes_max = bytes_max
        self._bytes = 0
        self._cleared_to: int | None = None

    def __setitem__(self, tick: int, snapshot: Snapshot) -> None:
        if tick in self:
            del self[tick]
        super().__setitem__(tick, snapshot)
        self._bytes += _bytes_of(snapshot.layout.size_bytes)

    def __delitem__(self, tick: int) -> None:
        self._bytes -= _bytes_of(self[tick].layout.size_bytes)
        super().__delitem__(tick)

    def clear(self) -> None:
        """Forget all of them."""
        super().clear()
        self._bytes = 0

    def plan(self, state_bytes: int, distance: int, *, goes_back: bool) -> KeptStates:
        """Plan a seek over that many ticks. goes_back: who goes back tick by tick will ask for the states on the way."""
        size = _bytes_of(state_bytes)
        fitting = self.bytes_max // size
        if not goes_back:
            fitting = min(KEPT_STATES_MAX, max(1, KEPT_BYTES_MAX // size), fitting)
        elif 1 < fitting < distance:
            last_count = fitting // 2
            return KeptStates(fitting, last_count, -(-(distance - last_count) // (fitting - last_count)))
        return KeptStates(fitting, fitting, 0)

    def keep(self, tick: int, snapshot: Snapshot, states_max: int, target: int | None) -> None:
        """Keep a state if it fits. target: of who goes back, who asks for no state after it again: these go first, then the oldest."""
        size = _bytes_of(snapshot.layout.size_bytes)
        while self and (len(self) >= states_max or self._bytes + size > self.bytes_max):
            if target is not None and self._cleared_to != target:
                self._cleared_to = target  # Once a seek: to look through all of them for each state takes long.
                for later in [one for one in self if one > target]:
                    del self[later]
            else:
                del self[next(iter(self))]
        if self._bytes + size <= self.bytes_max:
            self[tick] = snapshot


def _bytes_of(state_bytes: int) -> int:
    return state_bytes + HELD_BYTES
