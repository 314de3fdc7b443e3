"""Read parts that follow each other as one, where rows come in the order of the tapes: arrays of many rows are made faster.

Invariant: the rows are those of the parts, one after the other. How many parts are read as one depends on the time that
the last ones took, so that the first row of the next ones, and a resumed iteration, never wait long.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import TypeVar

import attrs

from replayer.datasets.plan import DatasetPart

TICKS_MAX = 4096
SECONDS_MAX = 0.2  # Of reading: twice as many parts are read as one after a quarter of it, half as many after more.

_Item = TypeVar("_Item")


class PartsTogether:
    """Decides how many parts are read as one. One alone if not is_allowed."""

    def __init__(self, *, is_allowed: bool) -> None:
        self._is_allowed = is_allowed
        self._count_max = 1
        self._read_s = SECONDS_MAX / 2

    def take(self, parts: Sequence[DatasetPart], index: int) -> tuple[DatasetPart, int]:
        """The part that begins at an index, with some of those that follow it, and the index after these."""
        if self._is_allowed:
            if 4 * self._read_s < SECONDS_MAX:
                self._count_max = min(TICKS_MAX, 2 * self._count_max)
            elif self._read_s > SECONDS_MAX:
                self._count_max = max(1, self._count_max // 2)
        first = last = parts[index]
        end = index + 1
        while end < len(parts) and end - index < self._count_max and _follows(parts[end], last, first):
            last, end = parts[end], end + 1
        ticks = range(first.ticks.start, last.ticks.stop)
        return (first if last is first else attrs.evolve(first, ticks=ticks, then=last.then, last=last.last)), end

    def timed(self, rows: Iterator[_Item]) -> Iterator[_Item]:
        """The rows of what was taken; the time that the caller needs for them is left out."""
        self._read_s = 0.0
        while True:
            begun_s = time.perf_counter()
            item = next(rows, None)
            self._read_s += time.perf_counter() - begun_s
            if item is None:
                return
            yield item


def _follows(part: DatasetPart, before: DatasetPart, first: DatasetPart) -> bool:
    is_next = part.source == before.source and part.first == before.last + 1 and part.ticks.start == before.ticks.stop
    return is_next and part.last - first.first < TICKS_MAX
