"""A pool that hands items to an executor of concurrent.futures."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, wait
from typing import Any, Generic, Self

import attrs

from recorder.processes.pool import Item, OnProgress, Outcome, Result, Submission, Work, WorkerDiedError


@attrs.frozen
class ExecutorPool:
    """Submits all items at once to an executor and does not shut it down; see Pool. Reports no progress within items.

    If a process of the executor dies, each item that the executor had taken ends with WorkerDiedError, because it does
    not report which item was at fault. It takes no further items then, and these have no outcome.
    """

    executor: Executor

    def submit(
        self,
        work: Work[Item, Result],
        items: Iterable[Item],
        *,
        name: Callable[[Item], str],
        on_progress: OnProgress | None = None,  # noqa: ARG002 - an executor has none
    ) -> Submission[Result]:
        """See Pool."""
        return _ExecutorSubmission(self.executor, work, items, name)


class _ExecutorSubmission(Generic[Item, Result]):
    def __init__(
        self, executor: Executor, work: Work[Item, Result], items: Iterable[Item], name: Callable[[Item], str]
    ) -> None:
        self._name = name
        self._under_way: dict[Future[Result], tuple[int, Item]] = {}
        for index, item in enumerate(items):
            try:
                self._under_way[executor.submit(work, item, _no_report)] = (index, item)
            except BrokenExecutor:  # A worker has died, but not of this item or a later one.
                break

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Outcome[Result]:
        if not self._under_way:
            raise StopIteration
        future = next(iter(wait(self._under_way, return_when=FIRST_COMPLETED).done))
        return self._outcome(future)

    def cancel(self) -> list[Outcome[Result]]:
        """See Submission; items that the executor has begun run to their end."""
        ended = [future for future in list(self._under_way) if not future.cancel() and future.done()]
        outcomes = [self._outcome(future) for future in ended]
        self._under_way.clear()
        return outcomes

    def _outcome(self, future: Future[Any]) -> Outcome[Any]:
        index, item = self._under_way.pop(future)
        error = future.exception()
        if isinstance(error, BrokenExecutor):
            return Outcome(index, error=WorkerDiedError(self._name(item)))
        if error is not None and not isinstance(error, Exception):
            raise error
        return Outcome(index, error=error) if error is not None else Outcome(index, future.result())


def _no_report(how_far: int) -> None:
    """Ignore the progress within an item, which an executor cannot report."""
