"""Run pieces of work, each in a process of its own; what comes of them is given in the order of the pieces.

Each process is forked from one that has simulated nothing, so that what a simulation keeps outside of its state is not
carried from one piece into the next, and the results are the same for any number of processes.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, TypeVar

import attrs

from recorder.processes.parent_death import end_with_parent

Result = TypeVar("Result")
Piece = TypeVar("Piece")

TELL_S = 0.1  # A worker says that often how far it is.


def run_forked(
    pieces: Sequence[Piece],
    jobs: int,
    tell: Callable[[int], None],
    work: Callable[[Piece, Callable[[int], None]], Result],
    *,
    size: Callable[[Piece], int],
    name: Callable[[Piece], str],
) -> Iterator[Result]:
    """What work gives for each piece, in their order, each in a process of its own; at most jobs at a time.

    work: called in the worker with the piece and a function that takes how far it is; what it gives is pickled.
    tell: called with how far all pieces are, in sum, whose results were not given yet. size: what a piece that is done
    counts there. name: what a worker does, "simulated ticks 0 to 300", for the case that it dies.
    Raises what work raises, ValueError if jobs is below 1.
    """
    if jobs < 1:
        raise ValueError(f"{jobs} jobs")
    # Forked, so that a factory defined in a script or a notebook reaches the workers without pickling, and a script
    # without a __main__ guard is not run again.
    context = multiprocessing.get_context("fork")
    running: dict[Any, tuple[int, BaseProcess]] = {}
    done: dict[int, Result] = {}
    reached: dict[int, int] = {}
    started = 0
    try:
        for index in range(len(pieces)):
            while index not in done:
                while len(running) < jobs and started < len(pieces):
                    ours, theirs = context.Pipe(duplex=False)
                    process: BaseProcess = context.Process(
                        target=_work_alone, args=(theirs, os.getpid(), pieces[started], work)
                    )
                    _start(process)
                    theirs.close()
                    running[ours] = (started, process)
                    started += 1
                for ready in wait(list(running)):
                    number, process = running[ready]
                    received = _receive(ready, process, lambda number=number: name(pieces[number]))  # type: ignore[misc]
                    if isinstance(received, _Done):
                        done[number] = received.result
                        del running[ready]
                        reached[number] = size(pieces[number])
                    else:
                        reached[number] = received
                tell(sum(reached.values()))
            reached.pop(index)
            yield done.pop(index)
    finally:
        for pipe, (_, process) in running.items():
            process.terminate()
            process.join()
            pipe.close()


def _start(process: BaseProcess) -> None:
    # Ctrl-C goes to all processes of a terminal. The parent ends the workers; they wait for that, with nothing to say.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        # Python 3.12 warns of forking beside other threads, whose locks stay locked in the child. The child takes none
        # of ours: it reads the tape with pread and runs the simulation.
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)
            process.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@attrs.frozen
class _Done:
    """What a worker sends last if nothing went wrong."""

    result: Any


def _work_alone(pipe: Connection, parent: int, piece: Any, work: Any) -> None:
    """The whole life of a worker."""
    end_with_parent(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    told_s = time.monotonic()

    def tell(reached: int) -> None:
        nonlocal told_s
        if time.monotonic() - told_s > TELL_S:
            told_s = time.monotonic()
            pipe.send(reached)

    try:
        pipe.send(_Done(work(piece, tell)))
    except Exception as error:  # noqa: BLE001 - whatever it is, the parent raises it
        cause = error.__cause__
        (cause or error).add_note("".join(traceback.format_exception(error)))
        for sent in (error, cause):
            try:
                pipe.send(sent)
            except (TypeError, AttributeError, ValueError):  # Pickle's ways to say that it cannot.
                pipe.send(RuntimeError(f"{type(sent).__name__}: {sent}"))


def _receive(pipe: Any, process: BaseProcess, name: Callable[[], str]) -> _Done | int:
    """What a worker sent; its last words close the pipe. Raises what went wrong in it, or RuntimeError if it died."""
    try:
        received = pipe.recv()
    except EOFError:
        process.join()
        raise RuntimeError(f"the process that {name()} died with exit code {process.exitcode}") from None
    if isinstance(received, int):
        return received
    cause = None
    if not isinstance(received, _Done):
        try:
            cause = pipe.recv()
        except Exception:  # noqa: BLE001 - an exception of the user's that cannot be made again from its pickle
            cause = None
    pipe.close()
    process.join()
    if isinstance(received, _Done):
        return received
    raise received from cause
