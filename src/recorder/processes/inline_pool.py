"""A pool that works in this process, on one item at a time: for a process that cannot be forked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Generic, Self

import attrs

from recorder.processes.fork_hazard import fork_hazard
from recorder.processes.fork_pool import ForkPool
from recorder.processes.lifetimes.stuck_workers import PATIENCE_S
from recorder.processes.pool import Item, OnProgress, Outcome, Pool, Report, Result, Submission, Work


@attrs.frozen
class InlinePool:
    """Works in this process, when the caller asks for the next outcome; see Pool. Pickles nothing."""

    def submit(
        self,
        work: Work[Item, Result],
        items: Iterable[Item],
        *,
        name: Callable[[Item], str],  # noqa: ARG002 - no worker can die
        on_progress: OnProgress | None = None,
    ) -> Submission[Result]:
        """See Pool."""
        return _InlineSubmission(_outcomes(work, items, on_progress))


@attrs.define(eq=False)
class _InlineSubmission(Generic[Result]):
    outcomes: Iterator[Outcome[Result]]

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Outcome[Result]:
        return next(self.outcomes)

    def cancel(self) -> Sequence[Outcome[Result]]:
        """Work on no more items."""
        self.outcomes = iter(())
        return ()


def _outcomes(
    work: Work[Item, Result], items: Iterable[Item], on_progress: OnProgress | None
) -> Iterator[Outcome[Result]]:
    for index, item in enumerate(items):
        try:
            result = work(item, _report(index, on_progress))
        except Exception as error:  # noqa: BLE001 - the caller raises it, as that of a worker
            yield Outcome(index, error=error)
        else:
            yield Outcome(index, result)


def _report(index: int, on_progress: OnProgress | None) -> Report:
    def report(progress: int) -> None:
        if on_progress is not None:
            on_progress(index, progress)

    return report


def local_pool(workers: int) -> Pool:
    """A pool on this machine that re-simulates and takes closures: of forked processes, or of this one if they would hang."""
    return ForkPool(workers, PATIENCE_S) if fork_hazard() is None else InlinePool()
