"""SIGTERM and SIGHUP (a closed terminal) end a command as Ctrl-C does: files are sealed or removed on the way out."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from recorder.exit_codes import HUNG_UP, INTERRUPTED, TERMINATED

_STOPS = {signal.SIGTERM: ("terminated", TERMINATED), signal.SIGHUP: ("hung up", HUNG_UP)}
_ignored: set[signal.Signals] = set()  # By ignore_further_signals.


class StoppedBySignal(KeyboardInterrupt):
    """A signal that asks a command to end.

    Attributes:
        word: what happened, for people.
        exit_code: 128 and the signal's number.
    """

    def __init__(self, word: str, exit_code: int) -> None:
        super().__init__(word)
        self.word, self.exit_code = word, exit_code


def stop_of(interrupt: KeyboardInterrupt) -> StoppedBySignal:
    """The stop that an interrupt is; Ctrl-C if it names no other signal."""
    return interrupt if isinstance(interrupt, StoppedBySignal) else StoppedBySignal("interrupted", INTERRUPTED)


@contextmanager
def signals_raised() -> Iterator[None]:
    """Raise StoppedBySignal in the block when one of the signals comes; further ones end it no faster.

    A signal that is ignored stays ignored, as after nohup. Does nothing in other threads than the main one.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in _STOPS}
    for number, handler in before.items():
        if handler is not signal.SIG_IGN:
            signal.signal(number, _raise)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        _ignored.clear()


def ignore_further_signals() -> None:
    """From here to heed_signals_again, or to the end of signals_raised, only Ctrl-C has an effect."""
    for number in _STOPS:
        if signal.getsignal(number) is _raise:
            signal.signal(number, signal.SIG_IGN)
            _ignored.add(number)


def heed_signals_again() -> None:
    """After ignore_further_signals: they raise again."""
    while _ignored:
        signal.signal(_ignored.pop(), _raise)


def _raise(number: int, _: object) -> None:
    ignore_further_signals()
    raise StoppedBySignal(*_STOPS[signal.Signals(number)])


# --- processes that are forked meanwhile, such as the workers of a pool that the user's step starts

# Their pool ends them by SIGTERM, and waits for them. The handler would print a traceback there; a worker that ignores the
# signal would not end; and of a signal that comes before the child has begun, Python forgets that it called a handler.


class _Held(threading.local):
    """The signals that this thread holds back while it forks."""

    signals: frozenset[signal.Signals] = frozenset()


_held = _Held()


def _hold() -> None:
    ours = {number for number in _STOPS if signal.getsignal(number) is _raise or number in _ignored}
    _held.signals = frozenset(ours - signal.pthread_sigmask(signal.SIG_BLOCK, ours))


def _release() -> None:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _held.signals)
    _held.signals = frozenset()


def _end_at_once() -> None:
    for number in _STOPS:
        if signal.getsignal(number) is _raise or number in _ignored:
            signal.signal(number, signal.SIG_DFL)
    _ignored.clear()
    _release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_hold, after_in_parent=_release, after_in_child=_end_at_once)
