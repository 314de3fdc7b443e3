"""The fewest of some parts that do together what all of them do."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TypeVar

Part = TypeVar("Part")


def fewest(
    parts: Sequence[Part], are_right: Callable[[Sequence[Sequence[Part]]], list[bool]], end_s: float
) -> tuple[list[Part], bool]:
    """Leave parts out as long as the others do it; none of the parts does it alone. And whether each of them is needed: False if the time was over before that was known.

    are_right: whether each of some groups does it.
    """
    kept = list(parts)
    while len(kept) > 2:
        if time.monotonic() > end_s:
            return kept, False
        rests = [[other for other in kept if other != one] for one in kept]
        spare = [one for one, is_right in zip(kept, are_right(rests), strict=True) if is_right]
        if not spare:
            break
        # Two that can be left out each may be needed by turns: as many as can go together.
        fewer = [[one for one in kept if one not in spare[:number]] for number in range(len(spare), 1, -1)]
        fewer = [group for group in fewer if len(group) > 1]
        right = [group for group, is_right in zip(fewer, are_right(fewer) if fewer else [], strict=True) if is_right]
        kept = right[0] if right else rests[kept.index(spare[0])]
    return kept, True
