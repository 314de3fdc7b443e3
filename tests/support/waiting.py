"""Wait for another thread or process: for what it does, never for some time to pass."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

POLL_S = 0.002

T = TypeVar("T")


def wait_until(condition: Callable[[], T], seconds: float = 60.0) -> T:
    """What the condition gives when it first gives something true; AssertionError if it does not within so many seconds.

    The time is generous, since it is only ever used up by a test that fails.
    """
    deadline_s = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline_s, f"{condition.__qualname__} is still {value!r} after {seconds} seconds"
        time.sleep(POLL_S)
    return value
