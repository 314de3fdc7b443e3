"""Run work that may crash or hang in separate processes, one at a time.

They are forked from a process that has used none of the libraries. A new one starts clean, in milliseconds.
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

MEMORY_BYTES_MAX = 6 << 30  # A damaged length must raise MemoryError, and not make the system kill other programs.
T = TypeVar("T")


@attrs.frozen
class Casualty:
    """The outcome of a process without a result.

    Attributes:
        how: "crash" or "hang".
    """

    how: str


@attrs.frozen
class _Failure:
    """An exception in the comparison's own code. It ends the comparison."""

    text: str


def run_forked(work: Callable[[int], Iterable[T]], count: int, timeout_s: float) -> Iterator[T | Casualty]:
    """Yield the results number 0 to count - 1 of work.

    work(start): yields the results from number start on. If its process dies or is silent for timeout_s, the result is
    a Casualty, and another process continues after it.
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
                    raise RuntimeError(result.text)  # noqa: TRY004 - not a wrong type: the error of the other process
                number += 1
                yield result
                if isinstance(result, Casualty):
                    break
        finally:
            process.kill()
            process.join()
            ours.close()


def _serve(pipe: Connection, work: Callable[[int], Iterable[T]], start: int) -> None:
    """The main function of a process."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES_MAX, MEMORY_BYTES_MAX))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)  # Hides what a library prints when it aborts.
    try:
        for result in work(start):
            pipe.send(result)
    except BaseException:  # noqa: BLE001 - handed to the other process, which raises it
        pipe.send(_Failure(traceback.format_exc()))
