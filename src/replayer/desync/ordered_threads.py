"""Threads that end in a given order: a step whose state depends on that order shows it so. Only in a copy of a process.

Tasks of a pool run one after another, in the order in which they were submitted or in the reverse one; those of a pool with
one worker in the first one alone. Other threads are let go one after another in the same way; one that does not end soon is not
waited for. Threads by which a pool of processes works are left alone.

Or threads are ready at once, or begin late: a step that takes what they have made by then, without a wait, shows it so.
"""

from __future__ import annotations

import concurrent.futures
import functools
import os
import queue
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from replayer.desync.ordered_processes import order_process_pools

END_S = 1.0  # For a thread to end before the next one goes on: one that waits for others does not end.
TURN_S = 4.0  # For its turn; longer than it takes to start all of them, on a busy machine too.
_OF_POOLS = ("multiprocessing.", "concurrent.futures.")  # Modules whose threads hand tasks and results on.

READY_S = 4.0  # For all threads to get ready, at each start and message.
LOOK_S, QUIET_LOOKS = (
    0.005,
    50,
)  # A busy machine may let one stand for a while; one that sleeps for longer counts as ready.
_MESSAGES: dict[Any, tuple[str, ...]] = {
    threading.Thread: ("start",),
    threading.Event: ("set",),
    threading.Condition: ("notify", "notify_all"),
    threading.Semaphore: ("release",),
    queue.Queue: ("put", "put_nowait"),
}
_INSIDE = list[bool]()  # Not empty in such a call of the main thread.

_ordered = 0  # Tasks and threads that were put in order in this process.


def ordered_count() -> int:
    """The number of tasks and threads whose order was given so far; without two of them there is no order."""
    return _ordered


def _count_one() -> None:
    global _ordered  # noqa: PLW0603 - of the process, a copy
    _ordered += 1


def order_threads(*, is_reversed: bool) -> dict[int, tuple[Any, Any]]:
    """Let threads that are started from now on end in order. Return functions and what the user's modules get for them."""
    tasks, gates = _Tasks(is_reversed=is_reversed), _Gates(is_reversed=is_reversed)
    for name in ("result", "exception", "done", "running"):
        setattr(Future, name, tasks.settling(getattr(Future, name)))
    ThreadPoolExecutor.submit = tasks.submit  # type: ignore[method-assign]
    ThreadPoolExecutor.shutdown = tasks.settling(ThreadPoolExecutor.shutdown)  # type: ignore[method-assign]
    order_process_pools(tasks.defer, tasks.settling, _count_one, is_reversed=is_reversed)
    thread: Any = threading.Thread
    for name in ("join", "is_alive"):
        setattr(thread, name, gates.opening(getattr(thread, name)))
    thread.start = gates.starting(thread.start)
    futures = concurrent.futures
    return {
        id(futures.as_completed): (futures.as_completed, tasks.as_completed),
        id(futures.wait): (futures.wait, tasks.settling(futures.wait)),
    }


def ready_threads() -> None:
    """Let threads get ready at once: after a start or a message to one, all are waited for until they end or wait themselves."""
    for kind, names in _MESSAGES.items():
        for name in names:
            setattr(kind, name, _then_ready(getattr(kind, name)))


def late_threads() -> None:
    """Let threads that are started from now on begin only when they are waited for."""
    gates: Any = _Gates(is_reversed=True)
    thread: Any = threading.Thread
    thread.join, thread.start = gates.opening(thread.join), gates.starting(thread.start)


def _then_ready(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function after whose outermost call the main thread waits for the others."""

    @functools.wraps(function)
    def waiting(*arguments: Any, **named: Any) -> Any:
        # Not current_thread: a thread that is about to begin has none yet.
        if threading.get_ident() != threading.main_thread().ident or _INSIDE:
            return function(*arguments, **named)
        _INSIDE.append(True)
        try:
            result = function(*arguments, **named)
            wait_until_ready()
        finally:
            _INSIDE.pop()
        return result

    return waiting


def wait_until_ready() -> None:
    """Wait until the other threads end or wait themselves."""
    end_s, quiet, before = time.monotonic() + READY_S, 0, list[Any]()
    while quiet < QUIET_LOOKS and time.monotonic() < end_s:
        time.sleep(LOOK_S)
        now = [_progress(one) for one in threading.enumerate() if one is not threading.main_thread()]
        quiet = quiet + 1 if now == before else 0
        before = now


def going_on(is_own: Callable[[str], bool]) -> list[str]:
    """The threads besides the main one, by the user's function that each began with, or else by name: scan (radar.py:7)."""
    frames, found = sys._current_frames(), dict[str, None]()  # noqa: SLF001 - the public way
    for thread in threading.enumerate():
        frame, code = frames.get(thread.ident or 0), None
        while frame is not None:
            code = frame.f_code if is_own(frame.f_code.co_filename) else code
            frame = frame.f_back
        where = None if code is None else f"{code.co_name} ({os.path.basename(code.co_filename)}:{code.co_firstlineno})"  # noqa: PTH119
        if thread is not threading.main_thread():
            found[where or thread.name] = None
    return sorted(found)


def _progress(thread: threading.Thread) -> Any:
    """What changes while a thread works: where it stands, and the time for which it had a processor."""
    frame = sys._current_frames().get(thread.ident or 0)  # noqa: SLF001 - the public way
    try:
        took_s = time.clock_gettime(time.pthread_getcpuclockid(thread.ident or 0))
    except OSError:  # It has ended.
        return None
    return (id(frame), None if frame is None else frame.f_lasti, took_s)


class _Tasks:
    """The tasks of all pools."""

    def __init__(self, *, is_reversed: bool) -> None:
        self._is_reversed = is_reversed
        self._waiting: list[tuple[Any, int, Future[Any], Callable[[], Any]]] = []  # The pool, its workers, the task.
        self._ended: dict[Future[Any], None] = {}  # In the order in which they ended.

    @property
    def submit(self) -> Callable[..., Future[Any]]:
        """In place of the method of a pool."""

        def submit(pool: ThreadPoolExecutor, task: Callable[..., Any], /, *arguments: Any, **named: Any) -> Future[Any]:
            return self.defer(pool, pool._max_workers, functools.partial(task, *arguments, **named))  # noqa: SLF001

        return submit

    def defer(self, pool: Any, workers: int, task: Callable[[], Any]) -> Future[Any]:
        """Run a task of a pool in its turn."""
        _count_one()
        future = Future[Any]()
        self._waiting.append((pool, workers, future, task))
        if not self._is_reversed:
            self._settle()
        return future

    def settling(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """A function before which the tasks run that wait."""

        @functools.wraps(function)
        def settled(*arguments: Any, **named: Any) -> Any:
            self._settle()
            return function(*arguments, **named)

        return settled

    def as_completed(self, futures: Iterable[Future[Any]], timeout: float | None = None) -> Iterator[Future[Any]]:  # noqa: ARG002 - as the original
        """The futures in the order in which they ended, then those of other pools."""
        self._settle()
        wanted = list(futures)
        return iter(
            [*(one for one in self._ended if one in wanted), *(one for one in wanted if one not in self._ended)]
        )

    def _settle(self) -> None:
        while self._waiting:
            *_, future, task = self._waiting.pop(self._next() if self._is_reversed else 0)
            self._ended[future] = None
            if not future.set_running_or_notify_cancel():
                continue  # Cancelled before its turn: a pool does not run it.
            try:
                result = task()
            except BaseException as error:  # noqa: BLE001 - as a pool does
                future.set_exception(error)
            else:
                future.set_result(result)

    def _next(self) -> int:
        """The place of the last task, or of the first one of its pool, if that has one worker, and so one order."""
        pool, workers, *_ = self._waiting[-1]
        return next(place for place, (other, *_) in enumerate(self._waiting) if other is pool) if workers == 1 else -1


class _Gates:
    """Threads that wait until it is their turn."""

    def __init__(self, *, is_reversed: bool) -> None:
        self._is_reversed = is_reversed
        self._waiting: list[tuple[threading.Thread, threading.Event]] = []
        self._join = threading.Thread.join

    def starting(self, start: Callable[[Any], None]) -> Callable[[Any], None]:
        """In place of the method start of a thread."""

        def started(thread: Any) -> None:
            if _is_of_pool(thread):
                start(thread)
                return
            _count_one()
            gate, run = threading.Event(), thread.run

            def gated() -> None:
                gate.wait(TURN_S)
                run()

            thread.run = gated
            start(thread)
            self._waiting.append((thread, gate))
            if not self._is_reversed:
                self._open()

        return started

    def opening(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """A method of a thread before which those that wait have their turns."""

        @functools.wraps(function)
        def opened(thread: threading.Thread, *arguments: Any, **named: Any) -> Any:
            if threading.current_thread() is threading.main_thread():
                self._open()
            return function(thread, *arguments, **named)

        return opened

    def _open(self) -> None:
        while self._waiting:
            thread, gate = self._waiting.pop(-1 if self._is_reversed else 0)
            gate.set()
            self._join(thread, END_S)


def _is_of_pool(thread: Any) -> bool:
    """Return True for a thread of Python's pools and queues: it runs as long as they do."""
    target = getattr(thread, "_target", None)
    module = type(thread).run.__module__ if target is None else getattr(target, "__module__", None)
    return str(module).startswith(_OF_POOLS)
