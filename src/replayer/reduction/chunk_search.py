"""Leave out chunks of a list, from its end, as long as what is left still fails.

Halves first, then quarters, down to single items: what lies before a chunk stays the same, and so do its states. This
takes a fraction of the steps of delta debugging, which begins with subsets that share no beginning.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from replayer.reduction.input_parts import InputPart

Parts = list[InputPart]
Fails = Callable[[Parts], int | None]  # The tick at which these parts alone fail in the same way; None if they do not.
Progress = Callable[[int, int], None]  # Chunks tried so far, chunks in all, about.


class ChunkSearch:
    """Searches for a list of parts without any of which the failure is gone.

    Attributes:
        tick: the tick of the failure with the parts that are left.
    """

    def __init__(self, fails: Fails, tick: int, progress: Progress | None = None) -> None:
        """tick: at which all parts together fail."""
        self.tick = tick
        self._fails = fails
        self._progress = progress
        self._tried = 0

    def smallest(self, parts: Sequence[InputPart]) -> Parts:
        """The parts that are left: without any one of them, there is no such failure."""
        left = self._clipped(parts)
        size = len(left)
        while size:
            before = len(left)
            left = self._pass(left, size)
            if size == 1 and len(left) < before:
                continue  # What was kept may be dispensable now.
            size = min(size // 2, len(left))
        return left

    def _pass(self, parts: Parts, size: int) -> Parts:
        """Try to leave out each chunk of this size, the last one first."""
        left, end = parts, len(parts)
        later = (-(-len(parts) // size) or 1) * (size.bit_length() - 1)  # Later passes have about as many chunks.
        while end > 0:
            begin = max(0, end - size)
            rest = left[:begin] + left[end:]
            tick = self._fails(rest)
            self._tried += 1
            if self._progress is not None:
                self._progress(self._tried, self._tried + -(-begin // size) + later)
            if tick is not None:
                self.tick = min(self.tick, tick)
                left = self._clipped(rest)
            end = min(begin, len(left))
        return left

    def _clipped(self, parts: Sequence[InputPart]) -> Parts:
        """The parts up to the failure."""
        return [part for part in parts if part.tick <= self.tick]
