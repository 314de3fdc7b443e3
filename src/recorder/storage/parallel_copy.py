"""Copy large memory by two threads."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from recorder.format.copier import copy_pairs
from sim.kernel.state import Bytes

COPY_BYTES_MIN = 12 << 20  # Half of a smaller copy takes no longer than to start a thread and wait for its end.


def copy_side_by_side(pairs: Sequence[tuple[Bytes, Bytes]]) -> None:
    """Copy into the first of each pair what is in the second, both one axis; half of the bytes by another thread.

    One thread alone waits for memory most of the time, and for pages where those are fresh.
    """
    half = sum(len(target) for target, _ in pairs) // 2
    if 2 * half < COPY_BYTES_MIN:
        copy_pairs(pairs)
        return
    ours, theirs = [], []
    for target, source in pairs:
        count = min(half, len(target))
        half -= count
        ours.append((target[:count], source[:count]))
        theirs.append((target[count:], source[count:]))
    other = threading.Thread(target=copy_pairs, args=(theirs,), name="tape copying")
    try:
        other.start()
    except RuntimeError:  # The system has no thread to give.
        copy_pairs(pairs)
        return
    copy_pairs(ours)
    other.join()
