"""Local workers, each connected by a pipe: the common part of ForkPool and SpawnPool.

Invariants:
    1. A worker has at most one item: its death is the outcome of that item alone.
    2. Each outcome received is returned exactly once, by __next__ or by cancel, even if an interrupt arrives.
    3. No process is left behind. Each is joined when it has ended. cancel kills and joins all others. If the caller has
       not cancelled, the end of this process does that, or of the last reference to the submission.
"""

from __future__ import annotations

import math
import signal
import time
import traceback
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess, current_process
from multiprocessing.reduction import ForkingPickler
from multiprocessing.util import Finalize
from typing import Any, Generic, Self

import attrs

from recorder.processes.deferred_interrupts import interrupts_held_back
from recorder.processes.lifetimes.descendants import kill_with_descendants
from recorder.processes.lifetimes.parent_death import end_with_parent
from recorder.processes.lifetimes.stuck_workers import Activity, WorkerStuckError
from recorder.processes.pool import Item, OnProgress, Outcome, Result, Work, WorkerDiedError

Progress = Any  # A shared integer of multiprocessing.
NO_PROGRESS = -1
PROGRESS_INTERVAL_S = 0.1  # The minimum time between two reports of a worker.
WAKE_UP_S = 0.2  # An interrupt just before the parent waits is raised at the next wake-up, not at the next message.


@attrs.define(eq=False)
class Worker:
    """A process, and the index and item that it works on; None if it is idle.

    progress: shared with the process, so that it is exact also if the process hangs.
    """

    process: BaseProcess
    pipe: Connection
    progress: Progress
    activity: Activity
    task: tuple[int, Any] | None = None


@attrs.frozen
class _Done:
    result: Any


@attrs.frozen
class _Failed:
    """The exception that the work raised, and its cause: pickling an exception drops the cause."""

    error: Exception
    cause: BaseException | None


class PipedSubmission(ABC, Generic[Item, Result]):
    """Items under way in workers with pipes; see Submission."""

    def __init__(
        self,
        items: Iterable[Item],
        workers: int,
        name: Callable[[Item], str],
        on_progress: OnProgress | None,
        patience_s: float,
    ) -> None:
        self._patience_s = patience_s
        self._tasks: Iterator[tuple[int, Item]] = iter(enumerate(items))
        self._worker_count = workers
        self._name = name
        self._on_progress = on_progress
        self._workers: dict[Connection, Worker] = {}
        self._arrived: deque[Outcome[Result]] = deque()
        # At the end of this process multiprocessing waits for its children, and an idle worker never ends.
        Finalize(self, _kill_all, [self._workers], exitpriority=0)

    @abstractmethod
    def _feed(self) -> None:
        """Give items to workers, until either run out."""

    @abstractmethod
    def _feed_ahead(self) -> None:
        """Give items to workers before an outcome is returned, if this kind of pool does that."""

    @abstractmethod
    def _release(self, worker: Worker) -> None:
        """Take back a worker that has finished its item."""

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Outcome[Result]:
        while not self._arrived:
            self._feed()
            busy = [pipe for pipe, worker in self._workers.items() if worker.task is not None]
            if not busy:
                self._end_idle()
                raise StopIteration
            for pipe in wait(busy, WAKE_UP_S):
                self._receive(self._workers[pipe], self._on_progress)  # type: ignore[index] # All are pipes.
            self._end_stuck()
        self._feed_ahead()
        return self._arrived.popleft()

    def cancel(self) -> list[Outcome[Result]]:
        """See Submission."""
        with interrupts_held_back():
            self._tasks = iter(())
            for pipe, worker in list(self._workers.items()):
                while worker.task is not None and pipe.poll():
                    self._receive(worker, None)
            _kill_all(self._workers)
            arrived = list(self._arrived)
            self._arrived.clear()
        return arrived

    def _end_stuck(self) -> None:
        """End the workers that have waited longer than patience_s."""
        if math.isinf(self._patience_s):
            return
        for worker in list(self._workers.values()):
            if worker.task is None or worker.pipe.poll():
                continue
            index, item = worker.task
            progress = worker.progress.value
            if worker.activity.idle_s((index, progress)) < self._patience_s:
                continue
            with interrupts_held_back():
                kill_with_descendants(worker.process)
                join_worker(self._workers, worker)
                reached = None if progress == NO_PROGRESS else progress
                self._arrived.append(
                    Outcome(index, error=WorkerStuckError(self._name(item), reached, self._patience_s))
                )

    def _end_idle(self) -> None:
        for worker in self._workers.values():
            worker.pipe.close()  # The worker reads the end of its pipe and exits.
        for worker in list(self._workers.values()):
            join_worker(self._workers, worker)

    def _receive(self, worker: Worker, on_progress: OnProgress | None) -> None:
        """Take one message of a worker that has an item."""
        assert worker.task is not None
        index, item = worker.task
        with interrupts_held_back():
            try:
                message = worker.pipe.recv()
            except (EOFError, OSError) as end:
                if isinstance(
                    end, OSError
                ):  # It died while it sent. If it did not, its further messages are unreadable.
                    kill_with_descendants(worker.process)
                self._arrived.append(
                    Outcome(index, error=WorkerDiedError(self._name(item), join_worker(self._workers, worker)))
                )
                return
            except Exception as error:  # noqa: BLE001 - a result that cannot be unpickled
                message = _Failed(error, None)
            if not isinstance(message, int):
                self._arrived.append(_outcome(index, message))
                worker.task = None
                self._release(worker)
                return
        if on_progress is not None:
            on_progress(index, message)


def check_workers(_: object, __: attrs.Attribute[int], workers: int) -> None:
    """Validate a pool's number of workers, as attrs calls it. Raises ValueError."""
    if workers < 1:
        raise ValueError(f"expected at least 1 worker, got {workers}")


def join_worker(workers: dict[Connection, Worker], worker: Worker) -> int | None:
    """Wait until a worker has ended, remove it and return its exit code."""
    worker.process.join()
    exit_code = worker.process.exitcode
    del workers[worker.pipe]
    worker.pipe.close()
    worker.process.close()
    return exit_code


def _kill_all(workers: dict[Connection, Worker]) -> None:
    for worker in workers.values():
        kill_with_descendants(worker.process)
    for worker in list(workers.values()):
        join_worker(workers, worker)


def _outcome(index: int, message: _Done | _Failed) -> Outcome[Any]:
    if isinstance(message, _Done):
        return Outcome(index, message.result)
    message.error.__cause__ = message.cause
    return Outcome(index, error=message.error)


@contextmanager
def starting() -> Iterator[None]:
    """Defer interrupts while a worker is started and noted. The worker inherits a blocked SIGINT.

    A process of multiprocessing.Pool may start it, too: multiprocessing forbids children to such a process because they
    could outlive it, and workers end with their parent.
    """
    with interrupts_held_back(), _as_no_daemon():
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            yield
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _as_no_daemon() -> Iterator[None]:
    config: dict[str, Any] = current_process()._config  # type: ignore[attr-defined] # noqa: SLF001 - no setter allows it
    is_daemon = config.pop("daemon", None)
    try:
        yield
    finally:
        if is_daemon is not None:
            config["daemon"] = is_daemon


def begin_as_worker(parent: int) -> None:
    """Prepare this process as a worker: it ends with its parent, a process id, and ignores Ctrl-C and a closed terminal."""
    end_with_parent(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # The parent decides.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def work_on(item: Any, work: Work[Any, Any], pipe: Connection, shared: Progress) -> None:
    """In a worker: work on an item and send the outcome. shared: takes the progress at once."""
    reported_s = time.monotonic()

    def report(progress: int) -> None:
        nonlocal reported_s
        shared.value = progress
        if time.monotonic() - reported_s > PROGRESS_INTERVAL_S:
            reported_s = time.monotonic()
            pipe.send(progress)

    try:
        pipe.send(_Done(work(item, report)))
    except Exception as error:  # noqa: BLE001 - any exception is raised again in the parent
        cause = error.__cause__
        (cause or error).add_note("".join(traceback.format_exception(error)))
        pipe.send(_Failed(_picklable(error), _picklable(cause)))


def _picklable(error: Any) -> Any:
    """Return the exception if it survives pickling, else a RuntimeError with its type, text and notes."""
    try:
        ForkingPickler.loads(ForkingPickler.dumps(error))
    except Exception:  # noqa: BLE001 - a user's class may raise anything there
        replacement = RuntimeError(f"{type(error).__name__}: {error}")
        for note in getattr(error, "__notes__", ()):
            replacement.add_note(note)
        return replacement
    return error
