"""Estimate how many processes share a processor at this moment: what takes a second of it takes that many in all."""

from __future__ import annotations

import os
from pathlib import Path

SLOWER_MAX = 8.0
_LOADAVG = Path("/proc/loadavg")  # Its fourth field: runnable processes and threads, and all of them.


def slower() -> float:
    """How many times as long as alone a process takes now, from 1 to SLOWER_MAX; 1 where that is not known."""
    try:
        runnable = int(_LOADAVG.read_text(encoding="ascii").split()[3].partition("/")[0])
        processors = len(os.sched_getaffinity(0))
    except (OSError, ValueError, IndexError, AttributeError):
        return 1.0
    return min(SLOWER_MAX, max(1.0, runnable / processors))
