"""The ticks that were dropped while the disk refused and the memory was full."""

from __future__ import annotations

from recorder.format.segments.segment_encoder import Piece, drop_piece


class DroppedTicks:
    """The ranges that were dropped, and the one that is still growing.

    Attributes:
        since: the first tick of the growing range; None if ticks are kept.
        ranges: first and last tick of each that has ended.
    """

    def __init__(self) -> None:
        self.since: int | None = None
        self.ranges: list[tuple[int, int]] = []
        self._why = ""

    def begin(self, tick: int, why: str) -> None:
        """From tick on, ticks are dropped."""
        self.since, self._why = tick, why

    def end(self, last_tick: int) -> Piece:
        """Up to last_tick they were; return the block that names them."""
        assert self.since is not None
        first, self.since = self.since, None
        self.ranges.append((first, last_tick))
        return drop_piece(first, last_tick, self._why)
