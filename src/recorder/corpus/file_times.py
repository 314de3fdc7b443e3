"""Tell if the time of the last change to a file can still hide a later change."""

from __future__ import annotations

import time

# Files get their times from this clock, which stands still for some milliseconds at a time. Elsewhere they are exact.
_CLOCK = getattr(time, "CLOCK_REALTIME_COARSE", time.CLOCK_REALTIME)
COARSE_NS = 2_000_000_000  # Some file systems keep even seconds only.


def is_settled(changed_ns: int) -> bool:
    """Return True if a change to the file from now on gives it a later time than this one.

    changed_ns: the time of the last change. Ask before the content is read: what is read is then at least as new as the
    time. On a network file system, whose server sets the times, its clock must not be slower than this machine's.
    """
    now_ns = time.clock_gettime_ns(_CLOCK)
    return changed_ns < now_ns if changed_ns % 1_000_000 else changed_ns < now_ns - COARSE_NS
