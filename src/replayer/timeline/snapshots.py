"""The states at some ticks of a recording, each made when it is accessed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import overload

from sim.kernel.state import Snapshot


def from_tick(first: int, ticks: range) -> range:
    """The ticks of a range that are not below first, calculated without iterating."""
    if ticks.step < 0:
        return range(ticks.start, max(ticks.stop, first - 1), ticks.step)
    skipped = max(0, -(-(first - ticks.start) // ticks.step))
    return range(ticks.start + skipped * ticks.step, ticks.stop, ticks.step)


class Snapshots(Sequence[Snapshot]):
    """A lazy sequence of the states at some ticks; each is made when it is accessed."""

    def __init__(self, at: Callable[[int], Snapshot], ticks: range) -> None:
        """at: makes the state at a tick."""
        self._at = at
        self.ticks = ticks

    def __repr__(self) -> str:
        which = f": ticks {self.ticks[0]} to {self.ticks[-1]}" if self.ticks else ""
        steps = f", every {abs(self.ticks.step)}" if len(self.ticks) > 1 and abs(self.ticks.step) > 1 else ""
        return f"<Snapshots of {len(self.ticks)} states{which}{steps}>"

    def __len__(self) -> int:
        return len(self.ticks)

    @overload
    def __getitem__(self, index: int) -> Snapshot: ...
    @overload
    def __getitem__(self, index: slice) -> Snapshots: ...
    def __getitem__(self, index: int | slice) -> Snapshot | Snapshots:
        if isinstance(index, slice):
            return Snapshots(self._at, self.ticks[index])
        return self._at(self.ticks[index])
