"""The items of one Ray worker, each in a forked process, as ForkPool does: no item sees what another one left behind.

Ray keeps its workers, has threads in them, and runs one item after the other. So beside each Ray worker there is a fresh
interpreter, the host. It forks a process for each kind of work, which loads it once, and this one forks one for each item.
All of them end with the Ray worker.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.reduction import ForkingPickler
from types import ModuleType
from typing import Any

import attrs

from recorder.processes.engines.sent_work import SentWork, set_passed_on
from recorder.processes.fork_hazard import fork_hazard
from recorder.processes.fork_pool import ForkPool
from recorder.processes.inline_pool import InlinePool
from recorder.processes.pool import Outcome, Pool, WorkerDiedError
from recorder.processes.worker_pipes import begin_as_worker

REPORT_S = 0.5  # Between two reports of an item's progress: each is an object in Ray's store.
COLLECT_S = 0.2  # A result is sent at once if the last one was sent this long ago.
# Signals of other processes: of the system without memory, of an operator. Work that dies of another one would again.
_FROM_OUTSIDE = (-signal.SIGKILL, -signal.SIGTERM)

# (kind, value): "begun" and None; "progress" and a number; "done" and pickled bytes, see pack_outcome; "lost" and an exit code or None.
Message = tuple[str, Any]
# (kind, value): "begun" and the number of the item; "progress" or "lost", and the number and what the item's message has;
# "done" and a list of numbers and packed outcomes, with the seconds that the work of these took.
BundleMessage = tuple[str, Any]


@attrs.define
class _Host:
    process: multiprocessing.process.BaseProcess
    pipe: Connection
    environment: dict[str, str]

    def end(self) -> None:
        self.process.kill()
        self.process.join()
        self.pipe.close()


_hosts: list[_Host] = []  # Of this Ray worker: one, or none.


def run_items(
    environment: dict[str, str], key: str, work: bytes, items: Sequence[bytes], *, tells_begin: bool
) -> Iterator[BundleMessage]:
    """In a Ray worker: run items one after the other; yield the progress of each, and its end.

    environment: see passed_on_environment. key: of the work, for the items that follow. work: see sent_work. items: pickled.
    tells_begin: yield "begun" as well, when the work has been loaded and begins. Each message is an object in Ray's store,
    so results of short items are collected.
    """
    done: list[tuple[int, bytes]] = []
    took_s, sent_s = 0.0, time.monotonic()
    for number, item in enumerate(items):
        begun_s = time.monotonic()
        for kind, value in _run_item(_running_host(environment), key, work, item):
            if kind == "done":
                took_s += time.monotonic() - begun_s
                done.append((number, value))
            elif kind == "lost":
                yield "lost", (number, value)
            elif kind == "begun":
                begun_s = time.monotonic()  # Without the start of the host, which the first item waits for.
                if tells_begin:
                    yield "begun", number
            elif time.monotonic() - sent_s > REPORT_S:
                sent_s = time.monotonic()
                yield "progress", (number, value)
        if done and (number + 1 == len(items) or time.monotonic() - sent_s > COLLECT_S):
            yield "done", (done, took_s)
            done, took_s, sent_s = [], 0.0, time.monotonic()
    if done:
        yield "done", (done, took_s)


def _run_item(host: _Host, key: str, work: bytes, item: bytes) -> Iterator[Message]:
    try:
        host.pipe.send((key, work, item))
        while True:
            kind, value = host.pipe.recv()
            yield kind, value
            if kind in ("done", "lost"):
                return
    except (EOFError, OSError):
        _hosts.clear()
        host.end()
        yield "lost", None
    except GeneratorExit:
        _hosts.clear()
        host.end()
        raise


def _running_host(environment: dict[str, str]) -> _Host:
    if _hosts and (_hosts[0].environment != environment or not _hosts[0].process.is_alive()):
        _hosts.pop().end()
    if not _hosts:
        ours, theirs = multiprocessing.get_context("spawn").Pipe()
        process = multiprocessing.get_context("spawn").Process(target=_serve, args=(os.getpid(), theirs))
        main, own = sys.modules["__main__"], set_passed_on(environment)
        sys.modules["__main__"] = ModuleType("__main__")  # Ray's program, which would be run again there.
        try:
            process.start()
        finally:
            sys.modules["__main__"] = main
            set_passed_on(own)
        theirs.close()
        _hosts.append(_Host(process, ours, environment))
    return _hosts[0]


def _serve(parent: int, pipe: Connection) -> None:
    """In the host: hand each item to the process of its work, and its messages back."""
    begin_as_worker(parent)
    context = multiprocessing.get_context("fork")
    current, process, inner = None, None, None
    while True:
        try:
            key, work, item = pipe.recv()
        except EOFError:
            return
        if inner is None or process is None or key != current or not process.is_alive():
            if process is not None and inner is not None:
                process.kill()
                process.join()
                inner.close()
            inner, theirs = context.Pipe()
            process = context.Process(target=_work_on_items, args=(os.getpid(), theirs, work))
            process.start()
            theirs.close()
            current = key
        try:
            inner.send(item)
            kind = ""
            while kind not in ("done", "lost"):
                wait([inner])
                kind, value = inner.recv()
                pipe.send((kind, value))
        except (EOFError, OSError):  # The process of the work was ended from outside.
            current = None
            pipe.send(("lost", None))


def _work_on_items(parent: int, pipe: Connection, work: bytes) -> None:
    """In a process forked from the host: load the work, and fork a process for each item."""
    begin_as_worker(parent)
    loaded, refusal, patience_s = None, None, 0.0
    try:
        sent: SentWork = ForkingPickler.loads(work)
        loaded, patience_s = sent.load(), sent.patience_s
    except Exception as error:  # noqa: BLE001 - a user's class, or a tape that cannot be opened here
        refusal = error
    while True:
        try:
            item = pipe.recv()
        except EOFError:
            return
        if refusal is None:
            pipe.send(("begun", None))
        pool: Pool = ForkPool(1, patience_s) if fork_hazard() is None else InlinePool()
        outcome = Outcome[Any](0, error=refusal) if refusal is not None else _outcome(pool, loaded, item, pipe)
        if isinstance(outcome.error, WorkerDiedError) and outcome.error.exit_code in _FROM_OUTSIDE:
            pipe.send(("lost", outcome.error.exit_code))
        else:
            pipe.send(("done", pack_outcome(outcome)))
        if isinstance(pool, InlinePool):
            return  # The next item gets a process that has simulated nothing.


def _outcome(pool: Pool, work: Any, item: bytes, pipe: Connection) -> Outcome[Any]:
    try:
        loaded = ForkingPickler.loads(item)
    except Exception as error:  # noqa: BLE001 - as loading the work
        return Outcome(0, error=error)
    submission = pool.submit(
        work, [loaded], name=lambda _: "", on_progress=lambda _, progress: pipe.send(("progress", progress))
    )
    return next(submission)


def pack_outcome(outcome: Outcome[Any]) -> bytes:
    """An outcome as bytes; the cause of an error beside it, since pickling an exception drops it."""
    cause = outcome.error.__cause__ if outcome.error is not None else None
    return bytes(ForkingPickler.dumps((outcome.result, outcome.error, cause)))


def unpack_outcome(index: int, packed: bytes) -> Outcome[Any]:
    """The outcome of an item from pack_outcome."""
    result, error, cause = ForkingPickler.loads(packed)
    if error is not None:
        error.__cause__ = cause
    return Outcome(index, result, error)
