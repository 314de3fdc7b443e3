"""Count the random draws of each tick of a recording, stream by stream."""

from __future__ import annotations

from collections.abc import Iterator

from replayer.desync.rng_draws import Draws, count_draws
from replayer.timeline.timeline import Timeline


def ledger(run: Timeline, first_tick: int, last_tick: int) -> Iterator[tuple[int, dict[str, Draws]]]:
    """Yield each tick from first_tick to last_tick with the draws of each stream in the step that led to it.

    Raises as Timeline.seek does.
    """
    before = run.at(first_tick - 1)
    for tick in range(first_tick, last_tick + 1):
        after = run.at(tick)
        yield tick, count_draws(before, after)
        before = after
