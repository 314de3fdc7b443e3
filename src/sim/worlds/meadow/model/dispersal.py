"""Pick the cell where a seed lands: a random distance, a random direction, and the wind; integers only.

Cells are grouped into rings: ring r holds the offsets whose distance from the centre rounds to r, that is
(2r - 1)² <= 4(dx² + dy²) < (2r + 1)², in the order of (dy, dx). A uniform draw of r, then a uniform draw of a cell of ring r,
stands for a random distance and a random angle, without sine or cosine.

The wind of the parent's cell shifts the seed by floor(wind × flight_ticks + 1/2) on each axis, at most by
seed_distance_max in either direction.
"""

from __future__ import annotations

import functools

import numpy as np
import numpy.typing as npt

from sim.kernel.arithmetic.counter_rng import Words, scale_words
from sim.kernel.arithmetic.fixed_point import ONE, PLACES
from sim.kernel.state import State

Cells = npt.NDArray[np.int64]


@functools.cache
def ring(distance: int) -> tuple[tuple[int, int], ...]:
    """Return the offsets (dx, dy) of the ring at this distance, which is at least 1."""
    span = range(-distance - 1, distance + 2)
    inner, outer = (2 * distance - 1) ** 2, (2 * distance + 1) ** 2
    return tuple((dx, dy) for dy in span for dx in span if inner <= 4 * (dx * dx + dy * dy) < outer)


class SeedRings:
    """The rings up to the largest distance, as arrays."""

    def __init__(self, distance_max: int) -> None:
        rings = [ring(distance) for distance in range(1, distance_max + 1)]
        self._offsets = np.array([offset for offsets in rings for offset in offsets], dtype=np.int64)
        self._counts = np.array([len(offsets) for offsets in rings], dtype=np.int64)
        self._starts = np.cumsum(self._counts) - self._counts

    def pick(self, words: Words, low: Cells, high: Cells) -> Cells:
        """Pick an offset for each seed: (n, 2) int64, dx and dy.

        words: (n, 4); the first two are used. low, high: (n,) bounds of the distance, both included.
        """
        index = low + scale_words(words[:, 0], high - low + 1) - 1
        picked: Cells = self._offsets[self._starts[index] + scale_words(words[:, 1], self._counts[index])]
        return picked


def wind_shift(state: State, x: Cells, y: Cells, flight_ticks: int) -> tuple[Cells, Cells]:
    """Return the distance that the wind carries a seed from each cell: cells to the east and south, before any bound."""
    carried: Cells = (state["biotope.wind"][:, y, x] * flight_ticks) >> PLACES
    east, south = (carried + ONE // 2) >> PLACES
    return east, south
