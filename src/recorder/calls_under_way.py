"""Which calls of a method are under way, in any thread; right also after an interrupt at any instruction.

A lock can stay taken: an interrupt may come between its taking and the block that gives it back. A call is therefore
known by its frame, and Python knows of each frame whether it is still executed.
"""

from __future__ import annotations

import contextlib
import sys
import time
from types import FrameType

# Of the caller. Adding to a list is one operation for all threads, so that the first frame in a list has its turn.
this_frame = sys._getframe  # noqa: SLF001 - inspect.currentframe is the same, and slower


def is_another_under_way(calls: list[FrameType], own: FrameType | None = None) -> bool:
    """Return True if a call in the list, before the own one, is under way. Those that have ended are removed."""
    while calls and (first := calls[0]) is not own:
        try:
            first.clear()  # Python refuses it for a frame that is executed or will be, on whatever thread or stack.
        except RuntimeError:
            return True
        with contextlib.suppress(ValueError):  # Another thread was faster.
            calls.remove(first)
    return False


def wait_for_others(calls: list[FrameType]) -> None:
    """Return when no call is under way, or only one around this."""
    while is_another_under_way(calls):
        frame: FrameType | None = this_frame()
        while frame is not None:
            if frame in calls:
                return
            frame = frame.f_back
        time.sleep(0.001)
