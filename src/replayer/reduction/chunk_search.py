"""Leave out inputs of a list, from its end, as long as what is left still fails.

A few large chunks are tried first. Then the last input that is needed is found by halves: how much of the end can be left
out, without it? Then the one before it, and so on: what lies before stays the same, and so do its states. This takes a
fraction of the steps of delta debugging, which begins with subsets that share no beginning. At the end each input that is
left is left out once more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from replayer.reduction.input_parts import InputPart

Parts = list[InputPart]
Fails = Callable[[Parts], int | None]  # The tick at which these parts alone fail in the same way; None if they do not.
Progress = Callable[[int, int], None]  # Parts decided so far, parts in all.
COARSE = (
    2,
    4,
    8,
)  # Halves, quarters and eighths: they may uncover an earlier failure. Smaller ones cost more than they save.
FOUND_MIN = 4  # From so many needed parts on, the next one is looked for as far away as they are from each other.


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
        self._seen, self._total = 0, 1

    def smallest(self, parts: Sequence[InputPart]) -> Parts:
        """The parts that are left: without any one of them, there is no such failure."""
        left = self._clipped(parts)
        for share in COARSE:
            left = self._without_chunks(left, len(left) // share)
        left = self._needed(left)
        while len(fewer := self._without_chunks(left, 1)) < len(left):
            left = fewer  # What was kept may be dispensable now.
        return left

    def _test(self, parts: Parts) -> bool:
        """Return True if these parts fail, at the present tick at the latest, which is then the one to beat."""
        tick = self._fails(parts)
        if self._progress is not None:
            self._progress(self._seen, self._total)
        if tick is None:
            return False
        self.tick = min(self.tick, tick)
        return True

    def _without_chunks(self, parts: Parts, size: int) -> Parts:
        """Leave out each chunk of this size, the last one first, wherever the others still fail."""
        left, end = parts, len(parts) if size else 0
        while end > 0:
            begin = max(0, end - size)
            rest = left[:begin] + left[end:]
            if self._test(rest):
                left = self._clipped(rest)
            end = min(begin, len(left))
        return left

    def _needed(self, parts: Parts) -> Parts:
        """From the end, the parts that are needed while all before them are there."""
        before, found = parts, list[InputPart]()
        self._total, size = max(1, len(parts)), len(parts)
        while before:
            before, found = self._last_needed(before, found, size)
            self._seen = len(parts) - len(before)
            size = len(before) // 2 if len(found) < FOUND_MIN else 2 * self._seen // len(found)
        return found

    def _last_needed(self, before: Parts, found: Parts, size: int) -> tuple[Parts, Parts]:
        """Find the last of the parts before that is needed, with those found; return those before it, and all found.

        size: the number of parts that are left out first.
        """
        high, low = len(before), -1  # The first ``high`` parts fail, with those found; the first ``low`` do not.
        while high - low > 1:
            middle = max(0, high - max(1, size)) if low < 0 else (low + high) // 2
            if not self._test(before[:middle] + found):
                low = middle
                continue
            found, high, size = self._clipped(found), len(self._clipped(before[:middle])), 2 * size
            if not high:
                return [], found
        return before[: high - 1], [before[high - 1], *found]

    def _clipped(self, parts: Sequence[InputPart]) -> Parts:
        """The parts up to the failure."""
        return [part for part in parts if part.tick <= self.tick]
