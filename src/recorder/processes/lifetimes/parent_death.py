"""Let worker processes end with the process that started them, even if that one was killed."""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1  # linux/prctl.h


def end_with_parent(parent: int) -> None:
    """In a worker: end when the parent, a process id, dies; at once if it is already dead.

    Only Linux supports this. Elsewhere a worker whose parent was killed finishes its item first.
    """
    if sys.platform != "linux":
        return
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
