"""A pool of fresh interpreters, each of which works on many items.

They are not forked, because a fork inherits locked locks of other threads, such as a recorder's writer. Starting one
takes about a second.
"""

from __future__ import annotations

import math
import multiprocessing
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from multiprocessing.connection import Connection
from multiprocessing.reduction import ForkingPickler
from types import ModuleType
from typing import Any

import attrs

from recorder.processes.lifetimes.stuck_workers import Activity
from recorder.processes.pool import Item, OnProgress, Outcome, Result, Submission, Work
from recorder.processes.worker_pipes import (
    NO_PROGRESS,
    PipedSubmission,
    Progress,
    Worker,
    begin_as_worker,
    check_workers,
    join_worker,
    starting,
    work_on,
)


@attrs.frozen
class SpawnPool:
    """Starts up to ``workers`` processes for each submission; see Pool. Pickles work, items and results.

    Attributes:
        workers: the maximum number of processes.
        prepare: called first in each worker.
        patience_s: a process that makes no progress and uses no processor time for longer is ended: WorkerStuckError.
        imports_main: False if work and items need nothing of the program's main module. It is then not run again in the
            workers, so that a script needs no guard.
    """

    workers: int = attrs.field(validator=check_workers)
    prepare: Callable[[], None] | None = None
    patience_s: float = math.inf
    imports_main: bool = True

    def submit(
        self,
        work: Work[Item, Result],
        items: Iterable[Item],
        *,
        name: Callable[[Item], str],
        on_progress: OnProgress | None = None,
    ) -> Submission[Result]:
        """See Pool. Raises TypeError for work that cannot be pickled."""
        try:
            ForkingPickler.dumps(work)
        except Exception as error:
            raise TypeError(
                f"expected work that can be pickled, got {work!r} ({error}): use functions of a module, or a ForkPool"
            ) from error
        return _SpawnSubmission(work, items, self, name, on_progress)


class _SpawnSubmission(PipedSubmission[Item, Result]):
    """Keeps its workers until no item is left, and gives them the next item before it returns an outcome."""

    def __init__(
        self,
        work: Work[Item, Result],
        items: Iterable[Item],
        pool: SpawnPool,
        name: Callable[[Item], str],
        on_progress: OnProgress | None,
    ) -> None:
        super().__init__(items, pool.workers, name, on_progress, pool.patience_s)
        self._work = work
        self._imports_main = pool.imports_main
        self._prepare = pool.prepare
        self._context = multiprocessing.get_context("spawn")

    def _feed(self) -> None:
        idle = [worker for worker in self._workers.values() if worker.task is None]
        while (idle or len(self._workers) < self._worker_count) and (task := next(self._tasks, None)) is not None:
            with starting():
                self._give(idle, task)

    def _feed_ahead(self) -> None:
        self._feed()

    def _give(self, idle: list[Worker], task: tuple[int, Item]) -> None:
        """Give the item to an idle worker, or else to a new one."""
        while idle:
            worker = idle.pop()
            worker.progress.value = NO_PROGRESS
            try:
                worker.pipe.send(task[1])
            except OSError:  # The worker died while it was idle; the item goes to the next one.
                join_worker(self._workers, worker)
            except Exception as error:  # noqa: BLE001 - of pickling, before anything was sent
                self._arrived.append(Outcome(task[0], error=error))
                idle.append(worker)
                return
            else:
                worker.task = task
                return
        worker = self._start()
        try:
            worker.pipe.send(task[1])
        except OSError:
            worker.task = task  # It died at once; _receive handles that as any other death.
        except Exception as error:  # noqa: BLE001 - as above
            self._arrived.append(Outcome(task[0], error=error))
            idle.append(worker)
        else:
            worker.task = task

    def _start(self) -> Worker:
        ours, theirs = self._context.Pipe()
        progress = self._context.RawValue("q", NO_PROGRESS)
        process = self._context.Process(target=_live, args=(os.getpid(), self._prepare, self._work, theirs, progress))
        with nullcontext() if self._imports_main else without_main():
            process.start()
        theirs.close()
        worker = self._workers[ours] = Worker(process, ours, progress, Activity(process.pid or 0))
        return worker

    def _release(self, worker: Worker) -> None:
        """Keep the worker idle until the next item."""


@contextmanager
def without_main() -> Iterator[None]:
    """Hide the file of the main module, which multiprocessing would run in the process that it starts."""
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


def _live(
    parent: int,
    prepare: Callable[[], None] | None,
    work: Work[Any, Any],
    pipe: Connection,
    progress: Progress,
) -> None:
    """Run a worker from start to end."""
    begin_as_worker(parent)
    if prepare is not None:
        prepare()
    while True:
        try:
            item = pipe.recv()
        except EOFError:  # No item is left.
            return
        work_on(item, work, pipe, progress)
