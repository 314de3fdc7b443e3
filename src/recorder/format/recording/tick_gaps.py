"""Ranges of ticks that have no frame, with the reasons that the recording states.

A few bytes of a tape can name ranges of any length, and any number of them can overlap. So the work is proportional to
the number of ranges, never to the number of ticks.
"""

from __future__ import annotations

import bisect
import heapq
from collections.abc import Sequence

import attrs

from recorder.format.blocks.drop_block import Drop


def share_out(gaps: Sequence[tuple[int, int]], drops: Sequence[Drop]) -> list[Drop]:
    """Restrict drops to gaps: ascending, without overlaps. If several drops contain a tick, the first one is used.

    gaps: first and last ticks, ascending, without overlaps.
    """
    waiting = sorted(range(len(drops)), key=lambda number: -drops[number].first_tick)  # A stack: the next one is last.
    begun: list[int] = []  # A heap of drops that have begun; some may have ended.
    shares: list[Drop] = []
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
                _append(shares, Drop(tick, end, drop.why))
            tick = end + 1
    return shares


def _append(shares: list[Drop], drop: Drop) -> None:
    """Add a drop; join it with the last one if the start of a different drop had cut it in two."""
    if shares and (shares[-1].last_tick + 1, shares[-1].why) == (drop.first_tick, drop.why):
        shares[-1] = attrs.evolve(shares[-1], last_tick=drop.last_tick)
    else:
        shares.append(drop)


def drop_at(drops: Sequence[Drop], tick: int) -> Drop | None:
    """The drop that contains tick, among results of share_out."""
    index = bisect.bisect_right(drops, tick, key=lambda drop: drop.first_tick) - 1
    return drops[index] if index >= 0 and tick <= drops[index].last_tick else None


def gap_at(gaps: Sequence[tuple[int, int]], tick: int) -> tuple[int, int] | None:
    """The gap that contains tick; gaps: ascending, without overlaps."""
    index = bisect.bisect_right(gaps, tick, key=lambda gap: gap[0]) - 1
    return gaps[index] if index >= 0 and tick <= gaps[index][1] else None


def merged(ranges: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Merge ascending ranges that touch or overlap."""
    joined: list[tuple[int, int]] = []
    for first, last in ranges:
        if joined and joined[-1][1] + 1 >= first:
            joined[-1] = (joined[-1][0], max(joined[-1][1], last))
        else:
            joined.append((first, last))
    return joined
