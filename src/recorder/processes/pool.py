"""The protocol of everything that works on items in other processes, here or on other machines.

A pool promises:
    1. Items are started in their order, and no more of them at a time than the pool has workers.
    2. Each item that was started has one outcome: a result, what the work raised, or WorkerDiedError. A worker that dies
       costs its own item alone, as far as the pool can know that.
    3. Nothing that workers keep is needed: an item may be worked on in any process, and a process may have had others.
    4. ``cancel`` ends the workers at once and waits for them. The caller cancels whenever it stops early, also when
       it is interrupted: Ctrl-C is the parent's alone, workers ignore it.
    5. Workers end with the process that submitted the items, however that one ended, as far as the system can do that.

Work and items should be what pickle takes: module-level functions, partials of them, plain data. Only ForkPool, and pools
that stay in this process, also take closures over live objects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Generic, Protocol, Self, TypeVar

import attrs

Item = TypeVar("Item")
Result = TypeVar("Result")
Item_contra = TypeVar("Item_contra", contravariant=True)
Result_co = TypeVar("Result_co", covariant=True)

Report = Callable[[int], None]  # Called by work with how far its item is, in units of its own.
OnProgress = Callable[[int, int], None]  # The index of an item, and how far it is.


class Work(Protocol[Item_contra, Result_co]):
    """Called in a worker with an item and a function that takes how far the item is."""

    def __call__(self, item: Item_contra, report: Report, /) -> Result_co:
        """Return the result of the item; what is raised is raised in the parent."""


class WorkerDiedError(RuntimeError):
    """A worker ended before it had a result.

    Attributes:
        what: what it did, "simulated ticks 0 to 300".
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
        """Return the result. Raises the error, from its own cause."""
        if self.error is not None:
            raise self.error
        return self.result  # type: ignore[return-value] # None, too, may be the result.


class Submission(Protocol[Result]):
    """Items under way: an iterator over their outcomes, in the order in which they come.

    It may end before all items have an outcome: those were not started, and the pool takes no more work.
    """

    def __iter__(self) -> Self:
        """Return self."""

    def __next__(self) -> Outcome[Result]:
        """Wait for the next outcome. Raises what on_progress raises."""

    def cancel(self) -> Sequence[Outcome[Result]]:
        """End the workers, start nothing more; return outcomes that had come. Does nothing if all is done."""


class Pool(Protocol):
    """Somewhere that work is done."""

    def submit(
        self,
        work: Work[Item, Result],
        items: Iterable[Item],
        *,
        name: Callable[[Item], str],
        on_progress: OnProgress | None = None,
    ) -> Submission[Result]:
        """Begin to work on the items.

        name: what a worker does with an item, "simulated ticks 0 to 300", for the case that it dies. on_progress: called
        in this process and thread, while it waits for an outcome. Raises TypeError for work that the pool cannot take.
        """


def results_in_order(
    pool: Pool,
    work: Work[Item, Result],
    items: Sequence[Item],
    *,
    name: Callable[[Item], str],
    size: Callable[[Item], int] = lambda _: 1,
    on_progress: Callable[[int], None] | None = None,
) -> Iterator[Result]:
    """Results of the items, in their order.

    size: what a finished item counts as progress. on_progress: called with how far all items are, in sum, whose results
    were not given yet. Raises the error of the first item that has one, WorkerDiedError among them.
    """
    reached: dict[int, int] = {}

    def advance(index: int, how_far: int) -> None:
        reached[index] = how_far
        if on_progress is not None:
            on_progress(sum(reached.values()))

    submission: Submission[Any] = pool.submit(work, items, name=name, on_progress=advance)
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
