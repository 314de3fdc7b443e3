"""The protocol for work on items in other processes, on this machine or others.

A pool promises:
    1. Items are started in order, and never more of them at a time than the pool has workers.
    2. Each item that was started has one outcome: a result, what the work raised, or WorkerDiedError. A worker that
       dies costs only its own item, if the pool can determine which one that was.
    3. Work does not depend on state kept in a worker: any process may run an item, and may have run others before.
    4. ``cancel`` ends the workers at once and waits for them. The caller cancels whenever it stops early, also when it
       is interrupted: only the parent handles Ctrl-C, workers ignore it.
    5. Workers end with the process that submitted the items, even if that one was killed, where the system allows it.

Work and items should be picklable: module-level functions, partials of them, plain data. Only ForkPool, and pools that
stay in this process, also take closures over live objects.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Generic, Protocol, Self, TypeVar

import attrs

Item = TypeVar("Item")
Result = TypeVar("Result")
Item_contra = TypeVar("Item_contra", contravariant=True)
Result_co = TypeVar("Result_co", covariant=True)

Report = Callable[[int], None]  # Called by work with the progress of its item, in the work's own unit.
OnProgress = Callable[[int, int], None]  # The index of an item, and its progress.


class Work(Protocol[Item_contra, Result_co]):
    """A function that runs in a worker, with an item and a function that takes the item's progress."""

    def __call__(self, item: Item_contra, report: Report, /) -> Result_co:
        """Return the result of the item. An exception is raised again in the parent."""


class WorkerDiedError(RuntimeError):
    """A worker ended before it had a result.

    Attributes:
        what: its work, such as "simulated ticks 0 to 300".
        exit_code: its own, or minus the signal that killed it; None if the pool does not know.
    """

    def __init__(self, what: str, exit_code: int | None = None) -> None:
        super().__init__(what, exit_code)
        self.what = what
        self.exit_code = exit_code

    def __str__(self) -> str:
        code = "" if self.exit_code is None else f" with exit code {self.exit_code}"
        return f"the process that {self.what} died{code}"


@attrs.frozen(eq=False)
class Outcome(Generic[Result]):
    """The end of one item.

    Attributes:
        index: of the item, in the order in which they were submitted.
        result: None if there is an error.
        error: what the work raised, or WorkerDiedError; None if there is a result.
    """

    index: int
    result: Result | None = None
    error: Exception | None = None

    def get(self) -> Result:
        """Return the result, or raise the error with its cause."""
        if self.error is not None:
            raise self.error
        return self.result  # type: ignore[return-value] # None may be the result.


class Submission(Protocol[Result]):
    """Items under way: an iterator over their outcomes, in the order in which they arrive.

    It may end before all items have an outcome: the others were not started, and the pool takes no more work.
    """

    def __iter__(self) -> Self:
        """Return self."""

    def __next__(self) -> Outcome[Result]:
        """Wait for the next outcome. Raises what on_progress raises."""

    def cancel(self) -> Sequence[Outcome[Result]]:
        """End the workers, start no more items, return the outcomes that had arrived. Does nothing after the end."""


class Pool(Protocol):
    """A place that runs work on items; see the module for what it promises."""

    def submit(
        self,
        work: Work[Item, Result],
        items: Iterable[Item],
        *,
        name: Callable[[Item], str],
        on_progress: OnProgress | None = None,
    ) -> Submission[Result]:
        """Start to work on the items.

        name: describes the work on an item, such as "simulated ticks 0 to 300", for the message if its worker dies.
        on_progress: called in this process and thread, while it waits for an outcome. Raises TypeError for work that
        the pool cannot take.
        """


def results_in_order(
    pool: Pool,
    work: Work[Item, Result],
    items: Sequence[Item],
    *,
    name: Callable[[Item], str],
    size: Callable[[Item], int] = lambda _: 1,
    on_progress: Callable[[int], None] | None = None,
    before: Callable[[Item], None] | None = None,
) -> Iterator[Result]:
    """Yield the results of the items, in the order of the items.

    size: the progress that a finished item counts. on_progress: called with the summed progress of all items whose
    results were not yielded yet. before: called with each item before it is given to a process. Raises the error of the first item that has one, which may be WorkerDiedError.
    """
    reached: dict[int, int] = {}

    def advance(index: int, progress: int) -> None:
        reached[index] = progress
        if on_progress is not None:
            on_progress(sum(reached.values()))

    given = items if before is None else _preceded(items, before)
    submission: Submission[Any] = pool.submit(work, given, name=name, on_progress=advance)
    ended: dict[int, Outcome[Any]] = {}
    try:
        for index, item in enumerate(items):
            while index not in ended:
                outcome = next(submission, None)
                if outcome is None:
                    raise RuntimeError(f"the pool takes no more work: no process {name(item)}")
                ended[outcome.index] = outcome
                advance(outcome.index, size(items[outcome.index]))
            reached.pop(index)
            yield ended.pop(index).get()
    finally:
        submission.cancel()


def _preceded(items: Iterable[Item], before: Callable[[Item], None]) -> Iterator[Item]:
    for item in items:
        before(item)
        yield item


def processor_count() -> int:
    """The number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
