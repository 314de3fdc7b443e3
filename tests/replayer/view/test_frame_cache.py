"""The cache of the page's server: what is dropped, and what never is."""

from __future__ import annotations

import pytest

from replayer.view.frame_cache import TICKS_MIN, FrameCache
from replayer.view.states.frame_encoding import EncodedTick
from replayer.view.worker.page_jobs import ViewSelection

LOOK = ViewSelection(("water",))


def encoded(tick: int) -> EncodedTick:
    """A tick of some 1,400 bytes."""
    return EncodedTick(tick, 0, {"water": bytes(1000)}, b"", {})


@pytest.mark.parametrize("budget_bytes", [0, 500_000])
def test_the_furthest_ticks_are_dropped_and_the_tick_looked_at_is_kept(budget_bytes: int) -> None:
    """Down to the budget; without any, as many as a page waits for are kept."""
    cache = FrameCache(budget_bytes)
    cache.look_at(500, LOOK)
    for tick in range(1000):
        cache.put(tick, encoded(tick))
    kept = [tick for tick in range(1000) if cache.get(tick, LOOK) is not None]

    assert TICKS_MIN <= cache.ready_count == len(kept)
    assert cache.size_bytes == 1400 * len(kept) <= max(1.1 * budget_bytes, 1400 * TICKS_MIN)
    assert set(range(440, 560)) <= set(kept)
    ranges = cache.ready_ranges()
    assert [tick for first, last in ranges for tick in range(first, last + 1)] == kept
    assert cache.get(500, ViewSelection(("water", "other"))) is None
    for tick in (0, 437, 500, 999):
        assert cache.nearest(tick) == min(kept, key=lambda known: abs(known - tick))
