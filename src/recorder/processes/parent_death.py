"""Let worker processes end with the process that made them, however that one ended."""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1  # linux/prctl.h


def end_with_parent(parent: int) -> None:
    """In a worker: be killed when the parent, a process id, dies; at once if it is dead already.

    Linux alone can do that; elsewhere a worker whose parent was killed finishes what it was at.
    """
    if sys.platform != "linux":
        return
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
