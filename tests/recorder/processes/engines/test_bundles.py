"""The size of bundles: compared with a plain simulation of one process that hands out and of slots that work."""

from __future__ import annotations

import heapq
from collections import deque

import pytest

from recorder.processes.engines.bundles import BUNDLE_MAX, HAND_OUT_S, BundleSizes


def duration_s(items: list[float], slots: int, *, bundled: bool) -> float:
    """The time until all items of these durations have ended, with bundles or one by one."""
    sizes = BundleSizes(slots)
    free = [0.0] * slots
    ended: list[tuple[float, int, float]] = []
    handed_s = end_s = 0.0
    waiting = deque(items)
    while waiting:
        at_s = max(heapq.heappop(free), handed_s)
        while ended and ended[0][0] <= at_s:
            bundle_end_s, size, begun_s = heapq.heappop(ended)
            sizes.ended(size, bundle_end_s - begun_s)
        size = min(len(waiting), sizes.size(len(waiting)) if bundled else 1)
        handed_s = at_s + HAND_OUT_S
        bundle_end_s = handed_s + sum(waiting.popleft() for _ in range(size))
        heapq.heappush(free, bundle_end_s)
        heapq.heappush(ended, (bundle_end_s, size, handed_s))
        end_s = max(end_s, bundle_end_s)
    return end_s


@pytest.mark.parametrize(
    ("count", "item_s", "slots", "most"),
    [
        (10_000, 0.17, 80, 0.7),  # A long tape on ten machines: one by one, 41 s pass with handing out.
        (10_000, 0.17, 800, 0.35),
        (10_000, 0.17, 8000, 0.35),
        (4_000, 1.5, 800, 1.02),
        (4_000, 1.5, 8, 1.02),
        (40, 60.0, 8, 1.0),
        (10, 0.01, 2, 1.1),
        (1, 5.0, 800, 1.0),
    ],
)
def test_bundles_save_time_and_never_cost_much(count: int, item_s: float, slots: int, most: float) -> None:
    one_by_one, bundled = (duration_s([item_s] * count, slots, bundled=bundled) for bundled in (False, True))
    assert bundled <= most * one_by_one + 0.01


def test_long_items_after_short_ones_are_not_bundled_for_long() -> None:
    """The mean is wrong at first: items of half a minute follow hundreds of a millisecond."""
    items = [0.001] * 400 + [30.0] * 16
    assert duration_s(items, 4, bundled=True) <= duration_s(items, 4, bundled=False) + 2 * 30.0


def test_sizes_have_limits() -> None:
    sizes = BundleSizes(2)
    assert [sizes.size(waiting) for waiting in (1, 7, 8, 15, 16, 10**6)] == [1, 1, 1, 1, 2, BUNDLE_MAX]
    sizes.ended(1, 40.0)
    assert sizes.size(10**6) == 1
