"""Test whether a step depends on how deep the stack is when it is called, as one does that catches a RecursionError.

The runs are made in threads of their own, whose stacks are empty: how much of the stack of this thread is in use differs
from run to run, by what Python has compiled to faster instructions meanwhile.
"""

from __future__ import annotations

import _thread
from collections.abc import Callable
from typing import Any

DEEPER_CALLS = 70
# By turns, and not first one and then the other: what is different a second later, or by chance, is not taken for the depth.
DEPTHS = (0, DEEPER_CALLS, 0, DEEPER_CALLS, DEEPER_CALLS, 0, DEEPER_CALLS, 0)

Work = Callable[[], dict[str, Any]]


def differs_by_depth(run: Callable[[int], Any]) -> bool:
    """Return True if each depth of DEPTHS gives one result each time, and not that of the other.

    run: returns the result from that many calls deeper, in a new copy of this process; None if there is none.
    """
    found: dict[int, Any] = {}
    for deeper in DEPTHS:
        result = run(deeper)
        if result is None or result != found.setdefault(deeper, result):
            return False
        if len(found) > 1 and found[0] == found[DEEPER_CALLS]:
            return False
    return True


def at_depth(deeper: int, work: Work) -> dict[str, Any]:
    """Return what work returns in a new thread, called from so many calls deeper than the thread's first function.

    Raises RuntimeError if work raises.
    """
    results: list[dict[str, Any]] = []
    is_over = _thread.allocate_lock()
    is_over.acquire()

    def run() -> None:
        try:
            results.append(_deeper(deeper, work))
        except Exception:  # noqa: BLE001 - reported below, and not printed by the thread
            results.clear()
        finally:
            is_over.release()

    _thread.start_new_thread(run, ())
    is_over.acquire()
    if not results:
        raise RuntimeError("the step raised in a thread of its own")
    return results[0]


def _deeper(count: int, work: Work) -> dict[str, Any]:
    return work() if count == 0 else _deeper(count - 1, work)
