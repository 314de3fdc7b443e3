"""What is done whole, though a user interrupts in the middle of it."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def interrupts_held_back() -> Iterator[None]:
    """An interrupt, or being told to stop, that comes within is raised behind it.

    Masking signals would not do: another thread of the process takes them then, and Python raises in the main one all
    the same. Does nothing in other threads, which are never interrupted.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    before = {number: signal.getsignal(number) for number in _SIGNALS}
    ours = [number for number, handler in before.items() if callable(handler)]
    for number in ours:
        signal.signal(number, lambda number, _: came.append(number))
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, before[number])
        if came:
            signal.raise_signal(came[0])
