"""Copy large arrays with two threads."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from recorder.format.copier import copy_pairs
from sim.kernel.state import Bytes

COPY_BYTES_MIN = 12 << 20  # Half of a smaller copy takes no longer than starting a thread and waiting for its end.


def copy_side_by_side(pairs: Sequence[tuple[Bytes, Bytes]]) -> None:
    """Copy the second array of each pair, one axis, into the first; a second thread copies half of the bytes.

    A single thread waits most of the time for memory, and for the pages of fresh memory.
    """
    half = sum(len(target) for target, _ in pairs) // 2
    if 2 * half < COPY_BYTES_MIN:
        copy_pairs(pairs)
        return
    first_half, second_half = [], []
    for target, source in pairs:
        count = min(half, len(target))
        half -= count
        first_half.append((target[:count], source[:count]))
        second_half.append((target[count:], source[count:]))
    thread = threading.Thread(target=copy_pairs, args=(second_half,), name="tape copying")
    try:
        thread.start()
    except RuntimeError:  # The system refuses to start a thread.
        copy_pairs(pairs)
        return
    copy_pairs(first_half)
    thread.join()
