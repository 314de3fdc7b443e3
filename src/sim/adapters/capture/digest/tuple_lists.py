"""The tokens of many lists of short tuples of numbers at once, such as paths and grid cells: equal to those one by one."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, chain, pairwise
from typing import Any

import numpy as np

# Items of a tuple: the token of a longer one may be replaced by its digest, as it may have over 64 bytes.
FLOATS_MAX = 6  # 5 bytes, and 9 for each.
INTEGERS_MAX = 3  # 5 bytes, and up to 19 for each.


def tokens_of_lists(lists: Sequence[list[Any]]) -> list[bytes] | None:
    """For each list the joined tokens of its items; None unless all are tuples of one length, of floats or of integers.

    Integers are of at most 64 bits.
    """
    tuples = list(chain.from_iterable(lists))
    if set(map(type, tuples)) != {tuple} or len(set(map(len, tuples))) != 1:
        return None
    size = len(tuples[0])
    numbers = list(chain.from_iterable(tuples))
    kinds = set(map(type, numbers))
    head = b"t0:%d:" % size
    if not size:
        return None
    if kinds == {float} and size <= FLOATS_MAX:
        rows = np.empty((len(tuples), len(head) + 9 * size), np.uint8)
        rows[:, : len(head)] = np.frombuffer(head, np.uint8)
        items = rows[:, len(head) :].reshape(len(tuples), size, 9)
        items[:, :, 0] = ord("f")
        items[:, :, 1:] = np.array(numbers, "<f8").view(np.uint8).reshape(len(tuples), size, 8)
        joined, width = rows.tobytes(), rows.shape[1]
        ends = accumulate(map(len, lists), initial=0)
        return [joined[start * width : end * width] for start, end in pairwise(ends)]
    if (
        kinds == {int}
        and size <= INTEGERS_MAX
        and all(-(1 << 63) <= one < 1 << 63 for one in (min(numbers), max(numbers)))
    ):
        item = head + b"i%x;" * size
        return [item * len(one) % tuple(chain.from_iterable(one)) for one in lists]
    return None
