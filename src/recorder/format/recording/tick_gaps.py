"""Ranges of ticks that have no frame, and what the recording says of them; nothing here counts single ticks.

A few bytes of a tape may name ranges of any length, and any number of them may overlap: all work is in proportion to
the number of ranges.
"""

from __future__ import annotations

import bisect
import heapq
from collections.abc import Sequence

import attrs

from recorder.format.blocks.drop_block import Drop


def share_out(gaps: Sequence[tuple[int, int]], drops: Sequence[Drop]) -> list[Drop]:
    """What the drops say of the gaps: ascending, without overlaps; of each tick what the first drop with it says.

    gaps: first and last ticks, ascending, without overlaps.
    """
    waiting = sorted(range(len(drops)), key=lambda number: -drops[number].first_tick)  # The next one is the last here.
    begun: list[int] = []  # A heap of those that have begun; some may be over.
    found: list[Drop] = []
    for first, last in gaps:
        tick = first
        while tick <= last:
            while waiting and drops[waiting[-1]].first_tick <= tick:
                heapq.heappush(begun, waiting.pop())
            while begun and drops[begun[0]].last_tick < tick:
                heapq.heappop(begun)
            end = min(last, drops[waiting[-1]].first_tick - 1) if waiting else last
            if begun:
                drop = drops[begun[0]]
                end = min(end, drop.last_tick)
                _append(found, Drop(tick, end, drop.why))
            tick = end + 1
    return found


def _append(found: list[Drop], drop: Drop) -> None:
    """Add a drop; where another one's beginning has cut it in two, it is one again."""
    if found and (found[-1].last_tick + 1, found[-1].why) == (drop.first_tick, drop.why):
        found[-1] = attrs.evolve(found[-1], last_tick=drop.last_tick)
    else:
        found.append(drop)


def drop_at(drops: Sequence[Drop], tick: int) -> Drop | None:
    """The one that names tick, of those that share_out has made."""
    index = bisect.bisect_right(drops, tick, key=lambda drop: drop.first_tick) - 1
    return drops[index] if index >= 0 and tick <= drops[index].last_tick else None


def gap_at(gaps: Sequence[tuple[int, int]], tick: int) -> tuple[int, int] | None:
    """The one that tick is in, of gaps as share_out takes them."""
    index = bisect.bisect_right(gaps, tick, key=lambda gap: gap[0]) - 1
    return gaps[index] if index >= 0 and tick <= gaps[index][1] else None


def merged(ranges: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Ascending ranges, those that touch put together."""
    found: list[tuple[int, int]] = []
    for first, last in ranges:
        if found and found[-1][1] + 1 >= first:
            found[-1] = (found[-1][0], max(found[-1][1], last))
        else:
            found.append((first, last))
    return found
