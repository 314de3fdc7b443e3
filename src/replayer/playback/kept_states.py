"""Which states a seek keeps on its way, for steps back: a copy of each costs a step or more."""

from __future__ import annotations

import attrs

# Of a seek forward; of a large state fewer, and at least one. A step back mostly never comes, and a copy of a large state into
# fresh memory costs several steps.
KEPT_STATES_MAX, KEPT_BYTES_MAX = 8, 8 << 20
NEAR_BYTES_MAX = 256 << 20  # Of all kept states: fewer are kept when the state is large.


@attrs.frozen
class KeptStates:
    """The states that a seek keeps.

    Attributes:
        states_max: of all that are kept.
        last_count: of the last ticks before the target.
        apart: ticks between the others; 0 if there are none.
    """

    states_max: int
    last_count: int
    apart: int

    @classmethod
    def of(cls, state_bytes: int, distance: int, *, remembers_all: bool) -> KeptStates:
        """Plan a seek over that many ticks.

        remembers_all: keep the states of all ticks on the way: who goes back tick by tick will ask for them, and each tick
        is simulated once on the way back. Where they do not fit, half of those that fit are of the last ticks, and the
        others are evenly apart: each tick is then simulated twice.
        """
        size = max(1, state_bytes)
        fitting = NEAR_BYTES_MAX // size
        if not remembers_all:
            fitting = min(KEPT_STATES_MAX, max(1, KEPT_BYTES_MAX // size), fitting)
        elif 1 < fitting < distance:
            last_count = fitting // 2
            return cls(fitting, last_count, -(-(distance - last_count) // (fitting - last_count)))
        return cls(fitting, fitting, 0)

    def has(self, passed: int, remaining: int) -> bool:
        """Return True if the state after passed ticks is kept, remaining ticks before the target."""
        return remaining <= self.last_count or (self.apart > 0 and passed % self.apart == 0)
