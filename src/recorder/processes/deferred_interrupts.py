"""Defer interrupts until a piece of work is complete."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def interrupts_held_back() -> Iterator[None]:
    """Defer SIGINT, SIGTERM and SIGHUP to the end of the block.

    Masking signals would not work: a different thread of the process would take them, and Python would still raise in
    the main thread. Does nothing in other threads, which are never interrupted.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    received: list[int] = []
    before = {number: signal.getsignal(number) for number in _SIGNALS}
    ours = [number for number, handler in before.items() if callable(handler)]
    for number in ours:
        signal.signal(number, lambda number, _: received.append(number))
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, before[number])
        if received:
            signal.raise_signal(received[0])
