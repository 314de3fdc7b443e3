"""Processes that work for a batch: they end with the process that made them, and when that has no more use for them."""

from __future__ import annotations

import os
import signal
import warnings
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing.context import SpawnContext, SpawnProcess
from typing import Any, TypeVar

from recorder.errors import RecordingWarning
from recorder.processes.deferred_interrupts import interrupts_held_back
from recorder.processes.parent_death import end_with_parent

Task = TypeVar("Task")
Result = TypeVar("Result")


class _Spawning(SpawnContext):
    """Makes processes as ever, and knows them: a pool tells nobody which are its own.

    Not forked: a fork takes the locks of threads with it, a recorder's writer among them.
    """

    def __init__(self) -> None:
        super().__init__()
        self.made: list[SpawnProcess] = []

    def Process(self, *given: Any, **more: Any) -> SpawnProcess:  # type: ignore[override]  # noqa: N802 - its name there.
        """One more process."""
        process = SpawnProcess(*given, **more)
        self.made.append(process)
        return process


class _Pool(ProcessPoolExecutor):
    """Starts its processes such that an interrupt of the terminal, which all processes get, is the parent's alone."""

    def submit(self, *given: Any, **more: Any) -> Future[Any]:
        """As ever; where a process is started, it is started with interrupts held back, until _begin ignores them."""
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            return super().submit(*given, **more)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _begin(parent: int) -> None:
    """The first thing that a worker does."""
    end_with_parent(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # The parent ends its workers, see pool_of.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    warnings.simplefilter("ignore", RecordingWarning)  # A tape that fails is in its run's record.


@contextmanager
def pool_of(workers: int) -> Iterator[ProcessPoolExecutor]:
    """So many processes. If what is done with them raises, an interrupt for example, they are killed at once."""
    context = _Spawning()
    pool = _Pool(workers, mp_context=context, initializer=_begin, initargs=(os.getpid(),))
    try:
        yield pool
    except BaseException:
        for process in context.made:
            process.kill()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def run_in(
    executor: Executor,
    waiting: deque[Task],
    at_once: int,
    work: Callable[[Task], Result],
    keep: Callable[[Result], None],
    failed: Callable[[Task, Exception], Result],
) -> list[Task]:
    """Do tasks, taken from waiting, until there are none, or a worker has died: then, those that were under way.

    keep: called with each result as it comes. failed: the result of what the executor could not take or give. If keep
    raises, or a user interrupts, what had finished is kept first, and nothing more is begun.
    """
    under_way: dict[Future[Result], Task] = {}
    broken: list[Task] = []
    is_broken = False
    try:
        while under_way or (waiting and not is_broken):
            while waiting and len(under_way) < at_once and not is_broken:
                task = waiting[0]
                try:
                    future = executor.submit(work, task)
                except BrokenProcessPool:  # A worker has died; this task had no part in it.
                    is_broken = True
                else:
                    under_way[future] = waiting.popleft()
            for future in wait(under_way, return_when=FIRST_COMPLETED).done if under_way else ():
                try:
                    result = future.result()
                except BrokenProcessPool:
                    is_broken = True
                    broken.append(under_way.pop(future))
                    continue
                except Exception as error:  # noqa: BLE001 - of an executor of the user's: it is that task's result.
                    result = failed(under_way[future], error)
                with interrupts_held_back():  # Between the two it would be kept once more.
                    keep(result)
                    del under_way[future]
    except KeyboardInterrupt:
        for future in under_way:
            if not future.cancel() and future.done() and future.exception() is None:
                keep(future.result())
        raise
    except BaseException:
        for future in under_way:
            future.cancel()
        raise
    return broken
