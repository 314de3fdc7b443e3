"""Run work that may crash or hang in processes of its own, one at a time.

Forked from a process that has used none of the libraries, so that a new one costs milliseconds and starts clean.
"""

from __future__ import annotations

import multiprocessing
import os
import resource
import traceback
from collections.abc import Callable, Iterable, Iterator
from multiprocessing.connection import Connection
from typing import TypeVar

import attrs

MEMORY_BYTES_MAX = 6 << 30  # A damaged length must end in MemoryError, not in the end of other programs.
T = TypeVar("T")


@attrs.frozen
class Casualty:
    """What there is instead of a result.

    Attributes:
        how: "crash" or "hang".
    """

    how: str


@attrs.frozen
class _Failure:
    """An exception of ours, not of a library: it ends the comparison."""

    text: str


def run_forked(work: Callable[[int], Iterable[T]], count: int, timeout_s: float) -> Iterator[T | Casualty]:
    """The results number 0 to count - 1 of work.

    work(start): gives the results from number start on. Where its process dies or gives nothing for timeout_s, there is
    a Casualty, and another process goes on behind it.
    """
    context = multiprocessing.get_context("fork")
    number = 0
    while number < count:
        ours, theirs = context.Pipe(duplex=False)
        process = context.Process(target=_serve, args=(theirs, work, number))
        process.start()
        theirs.close()
        try:
            while number < count:
                if not ours.poll(timeout_s):
                    result: T | Casualty | _Failure = Casualty("hang")
                else:
                    try:
                        result = ours.recv()
                    except EOFError:
                        result = Casualty("crash")
                if isinstance(result, _Failure):
                    raise RuntimeError(result.text)  # noqa: TRY004 - no wrong type, but what went wrong there
                number += 1
                yield result
                if isinstance(result, Casualty):
                    break
        finally:
            process.kill()
            process.join()
            ours.close()


def _serve(pipe: Connection, work: Callable[[int], Iterable[T]], start: int) -> None:
    """The whole life of a process."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES_MAX, MEMORY_BYTES_MAX))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)  # What a library says when it aborts.
    try:
        for result in work(start):
            pipe.send(result)
    except BaseException:  # noqa: BLE001 - handed to the other process, which raises it
        pipe.send(_Failure(traceback.format_exc()))
