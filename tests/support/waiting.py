"""Wait for a condition that another thread or process fulfils, never for a fixed time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

POLL_S = 0.002

T = TypeVar("T")


def wait_until(condition: Callable[[], T], seconds: float = 60.0) -> T:
    """Return the first true result of the condition; AssertionError if there is none within this many seconds.

    The time is generous, since only a failing test ever uses it up.
    """
    deadline_s = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline_s, f"{condition.__qualname__} is still {value!r} after {seconds} seconds"
        time.sleep(POLL_S)
    return value
