"""Results of pools of processes that come in a given order. Only in a copy of a process.

The tasks run in the processes of their pool, as ever: what they change there, they do not change here. They are handed to
it one after another, and each ends before the next one begins.
"""

from __future__ import annotations

import functools
import multiprocessing.pool
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from typing import Any

import attrs


def order_process_pools(
    defer: Callable[[Any, int, Callable[[], Any]], Future[Any]],
    settling: Callable[[Callable[..., Any]], Callable[..., Any]],
    count: Callable[[], None],
    *,
    is_reversed: bool,
) -> None:
    """Let the tasks of pools end in order.

    defer: takes a pool, the number of its workers and a task to run in its turn. settling: makes a function run the tasks that
    wait first. count: is called for each task.
    """
    process: Any = sys.modules.get("concurrent.futures.process")  # Not loaded for this: then no step has used it.
    if process is not None:
        kind: Any = process.ProcessPoolExecutor
        submit = kind.submit

        def submitted(pool: Any, task: Callable[..., Any], /, *arguments: Any, **named: Any) -> Future[Any]:
            return defer(pool, pool._max_workers, lambda: submit(pool, task, *arguments, **named).result())  # noqa: SLF001

        kind.submit, kind.shutdown = submitted, settling(kind.shutdown)
    pool: Any = multiprocessing.pool.Pool
    for name in ("apply_async", "map_async", "starmap_async"):
        setattr(pool, name, _deferred(getattr(pool, name), defer))
    for name in ("close", "join"):
        setattr(pool, name, settling(getattr(pool, name)))
    pool.imap_unordered = functools.partialmethod(_imap, count=count, is_reversed=is_reversed)


def _deferred(
    begin: Callable[..., Any], defer: Callable[[Any, int, Callable[[], Any]], Future[Any]]
) -> Callable[..., Any]:
    """In place of a method of a pool that returns a result to be asked later, and may call a function with it."""

    def begun(pool: Any, *arguments: Any, **named: Any) -> Any:
        def task() -> Any:
            result = begin(pool, *arguments, **named)
            result.wait()  # It has called the function by then.
            return result

        if pool._state != "RUN":  # noqa: SLF001 - the original says so
            return begin(pool, *arguments, **named)
        return _Later(defer(pool, pool._processes, task))  # noqa: SLF001

    return begun


@attrs.frozen(eq=False)
class _Later:
    """The result of a task that may not have had its turn. To ask it gives all that wait their turns."""

    _begun: Future[Any]

    def get(self, timeout: float | None = None) -> Any:
        return self._begun.result().get(timeout)

    def wait(self, timeout: float | None = None) -> None:
        self._begun.result().wait(timeout)

    def ready(self) -> bool:
        return bool(self._begun.result().ready())

    def successful(self) -> bool:
        return bool(self._begun.result().successful())


def _imap(
    pool: Any,
    function: Callable[..., Any],
    iterable: Iterable[Any],
    chunksize: int = 1,
    *,
    count: Callable[[], None],
    is_reversed: bool,
) -> Any:
    """In place of imap_unordered: the results in the order of their tasks, or in the reverse one."""
    results, outcomes = pool.imap(function, iterable, chunksize), list[Callable[[], Any]]()
    while True:
        try:
            outcomes.append(functools.partial(_given, results.next()))
        except StopIteration:
            break
        except Exception as error:  # noqa: BLE001 - raised again in its turn
            outcomes.append(functools.partial(_raised, error))
        count()
    chunks = [outcomes[first : first + chunksize] for first in range(0, len(outcomes), chunksize)]
    ordered = list[Callable[[], Any]]()
    while chunks:
        ordered += chunks.pop(-1 if is_reversed and pool._processes > 1 else 0)  # noqa: SLF001 - one has one order
    return _Unordered(iter(ordered))


def _given(value: Any) -> Any:
    return value


def _raised(error: Exception) -> Any:
    raise error


class _Unordered:
    """The results, one by one; an error of one task does not end them."""

    def __init__(self, outcomes: Iterator[Callable[[], Any]]) -> None:
        self._outcomes = outcomes

    def __iter__(self) -> _Unordered:
        return self

    def __next__(self) -> Any:
        return next(self._outcomes)()

    def next(self, timeout: float | None = None) -> Any:  # noqa: ARG002 - as the original
        return next(self)
