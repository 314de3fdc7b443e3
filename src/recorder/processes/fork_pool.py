"""A pool that forks a process for each item.

Each process is forked from one that has simulated nothing. A simulation's hidden state is therefore not carried from
one item to the next, and the results are the same for any number of processes. Work may be a closure: a factory defined
in a script or a notebook reaches the workers without pickling, and a script without a __main__ guard is not run again.
"""

from __future__ import annotations

import ctypes
import gc
import math
import mmap
import multiprocessing
import os
import sys
import threading
import warnings
from collections.abc import Callable, Iterable, Sequence
from multiprocessing.connection import Connection
from typing import Any

import attrs

from recorder.processes.copied_pools import make_again, pools_to_copy
from recorder.processes.fork_hazard import ForkHazardError, fork_hazard
from recorder.processes.lifetimes.descendants import descendants_of, kill
from recorder.processes.lifetimes.stuck_workers import Activity
from recorder.processes.pool import Item, OnProgress, Outcome, Result, Submission, Work
from recorder.processes.private_memory import OWN_WORKER, SharedContent, is_in_common, keep_shared, shared_content
from recorder.processes.seeds.process_generators import begin_with_imported_states
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
class ForkPool:
    """Forks a process for each item, at most ``workers`` at a time; see Pool. Pickles only the results.

    Attributes:
        workers: the maximum number of processes.
        patience_s: a process that makes no progress and uses no processor time for longer is ended: WorkerStuckError.
    """

    workers: int = attrs.field(validator=check_workers)
    patience_s: float = math.inf

    def submit(
        self,
        work: Work[Item, Result],
        items: Iterable[Item],
        *,
        name: Callable[[Item], str],
        on_progress: OnProgress | None = None,
    ) -> Submission[Result]:
        """See Pool. Raises ForkHazardError where the processes would hang."""
        hazard = fork_hazard()
        if hazard is not None:
            raise ForkHazardError(hazard)
        return _ForkSubmission(work, items, self, name, on_progress)


class _ForkSubmission(PipedSubmission[Item, Result]):
    """Starts no process while the caller handles an outcome: the fork would be wasted if the caller stops there."""

    def __init__(
        self,
        work: Work[Item, Result],
        items: Iterable[Item],
        pool: ForkPool,
        name: Callable[[Item], str],
        on_progress: OnProgress | None,
    ) -> None:
        self._is_common, self._memory = is_in_common(), SharedContent()
        super().__init__(items, 1 if self._is_common else pool.workers, name, on_progress, pool.patience_s)
        self._work = work
        self._context = multiprocessing.get_context("fork")
        self._pools = pools_to_copy()

    def _feed(self) -> None:
        while len(self._workers) < self._worker_count and (task := next(self._tasks, None)) is not None:
            # Python 3.12 warns of forking while other threads run, because their locks stay locked in the child. The
            # child takes none of our locks: it reads the tape with pread and runs the simulation.
            with starting(), warnings.catch_warnings():
                warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)
                ours, theirs = self._context.Pipe(duplex=False)
                progress = _shared_number(NO_PROGRESS)
                self._memory.put_back()
                self._memory = shared_content(is_common=self._is_common)
                arguments = (os.getpid(), task[1], self._work, theirs, progress, self._pools, self._memory)
                process = self._context.Process(target=_live, args=arguments, name=OWN_WORKER)
                process.start()
                theirs.close()
                self._workers[ours] = Worker(process, ours, progress, Activity(process.pid or 0), task)

    def _feed_ahead(self) -> None:
        """Start no process."""

    def _release(self, worker: Worker) -> None:
        join_worker(self._workers, worker)
        self._put_back()

    def cancel(self) -> list[Outcome[Result]]:
        """See Submission."""
        arrived = super().cancel()
        self._put_back()
        return arrived

    def _put_back(self) -> None:
        """Give shared memory the content again that it had before the last worker, if that one alone wrote to it."""
        self._memory.put_back()
        self._memory = SharedContent()


def _shared_number(value: int) -> Progress:
    """A number in memory of its own: that of multiprocessing may be next to numbers of the user's."""
    memory = mmap.mmap(-1, mmap.PAGESIZE)
    keep_shared(memory)
    number = ctypes.c_longlong.from_buffer(memory)
    number.value = value
    return number


def _live(
    parent: int,
    item: Any,
    work: Work[Any, Any],
    pipe: Connection,
    progress: Progress,
    pools: Sequence[Any],
    memory: SharedContent,
) -> None:
    """Run a worker from start to end. It does not wait for threads that the work left running: they may never end.

    What it has started ends with it: the processes of a pool would wait for ever.
    """
    gc.freeze()  # Garbage of the parent is the parent's; and to look through its objects would copy their pages.
    memory.begin_copy(ctypes.addressof(progress))
    begin_as_worker(parent)
    begin_with_imported_states()
    make_again(pools)
    work_on(item, work, pipe, progress)
    started = descendants_of(os.getpid())
    # What is done at the end of a process of multiprocessing would wait for the processes of a pool that were killed.
    if started or any(one is not threading.current_thread() and not one.daemon for one in threading.enumerate()):
        sys.stdout.flush()
        sys.stderr.flush()
        sys.setswitchinterval(60)  # A thread of a pool starts others in the place of those that have ended.
        kill(started)
        os._exit(0)
