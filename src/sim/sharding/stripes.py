"""Stripes: the rows of a world, divided among shards.

Shard k of n owns the rows from floor(rows × k / n) up to floor(rows × (k + 1) / n), so heights differ by at most one row.
Around its own rows it holds a halo: rows of the stripes next to it, as far as a rule of the world reaches in one tick.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import attrs
import numpy as np
import numpy.typing as npt

Rows = npt.NDArray[np.int64]
RowsOfOthers = list[tuple[int, npt.NDArray[Any]]]  # The first row, counted in the whole world, and values.


class ShardsError(ValueError):
    """A world cannot be divided into so many shards."""


@attrs.frozen
class Stripes:
    """The stripes of one world.

    Attributes:
        cuts: shard k owns the rows cuts[k] to cuts[k + 1] - 1.
        halo: rows of others that a shard holds on each side.
    """

    cuts: tuple[int, ...]
    halo: int

    @staticmethod
    def divide(rows: int, count: int, halo: int) -> Stripes:
        """Divide the rows of a world among count shards. Raises ShardsError if a stripe were lower than the halo."""
        if count < 1:
            raise ShardsError(f"expected at least 1 shard, got {count}")
        stripes = Stripes(tuple(rows * number // count for number in range(count + 1)), halo)
        lowest = min(last - first for first, last in zip(stripes.cuts, stripes.cuts[1:], strict=False))
        most = max(rows // max(halo, 1), 1)
        if count > 1 and lowest < max(halo, 1):
            raise ShardsError(
                f"{count} shards do not divide a world of {rows} rows: the lowest would own {lowest}, and the halo is "
                f"{halo}, so there can be at most {most}"
            )
        return stripes

    @property
    def count(self) -> int:
        """The number of shards."""
        return len(self.cuts) - 1

    def own(self, shard: int) -> tuple[int, int]:
        """Return the first row of a shard, and the row after its last."""
        return self.cuts[shard], self.cuts[shard + 1]

    def held(self, shard: int) -> tuple[int, int]:
        """Return the same with the halo."""
        first, last = self.own(shard)
        return max(self.cuts[0], first - self.halo), min(self.cuts[-1], last + self.halo)

    def owner(self, rows: Any) -> Rows:
        """Return the shard of each row; a row outside of the world has that of the nearest one."""
        shards: Rows = np.clip(np.searchsorted(self.cuts, rows, side="right") - 1, 0, self.count - 1)
        return shards

    def rows_near(self, shard: int, other: int, width: int) -> Iterator[tuple[int, int]]:
        """Yield the ranges of rows of a shard that are at most width rows from the rows of another one."""
        first, last = self.own(shard)
        top, bottom = self.own(other)
        for start, stop in ((max(first, top - width), min(last, top)), (max(first, bottom), min(last, bottom + width))):
            if shard != other and start < stop:
                yield start, stop
