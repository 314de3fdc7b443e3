"""The pool whose work is done by Ray: the side of the caller, who has a pipe to the process that speaks with Ray."""

from __future__ import annotations

import contextlib
import itertools
import multiprocessing
import os
import shutil
import signal
import tempfile
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from multiprocessing.util import Finalize
from typing import Any, Generic, Self

import attrs

from recorder.processes.deferred_interrupts import interrupts_held_back
from recorder.processes.engines.bundles import AHEAD, BUNDLE_MAX
from recorder.processes.engines.engine_error import EngineError
from recorder.processes.engines.ray_process import serve
from recorder.processes.engines.ray_start import RaySettings
from recorder.processes.engines.sent_work import pack, passed_on_environment, sent_work
from recorder.processes.engines.worker_host import unpack_outcome
from recorder.processes.lifetimes.stuck_workers import PATIENCE_S
from recorder.processes.pool import Item, OnProgress, Outcome, Result, Submission, Work, WorkerDiedError
from recorder.processes.spawn_pool import without_main
from recorder.processes.worker_pipes import WAKE_UP_S, starting

CLOSE_S = 20.0
START_S = 120.0  # It takes 4 s, and 20 s on a busy machine.
STARTS_MAX = 2
SENT_AHEAD = AHEAD * BUNDLE_MAX  # For each slot: small pickles, of which bundles are made.
ENDED = "the process that speaks with Ray has ended: give the command again"


class RaySession:
    """A process that speaks with Ray, and the pipe to it. Not for several threads at once."""

    def __init__(self, settings: RaySettings, attempts: int) -> None:
        """Start it and wait until Ray is ready. Raises EngineError.

        Ray may wait forever for a process that is lost while Ray starts; it is then started once more.
        """
        self._submissions: dict[int, RaySubmission[Any, Any]] = {}
        self._numbers = itertools.count()
        self._refusal: str | None = None
        self.slots = 0
        for _ in range(STARTS_MAX):
            self._start(settings, attempts)
            if self._becomes_ready():
                return
        raise EngineError(f"Ray did not start in {START_S:g} s")

    def _start(self, settings: RaySettings, attempts: int) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        folder = None
        if settings.address is None:
            folder = tempfile.mkdtemp(
                prefix="ray-"
            )  # Short: sockets are below it, and their paths have at most 107 bytes.
        with starting(), without_main():
            process = context.Process(target=serve, args=(theirs, settings, folder, passed_on_environment(), attempts))
            process.start()
        theirs.close()
        self._process = process
        self._ends = Finalize(self, _end, [self._pipe, process, folder], exitpriority=10)

    def _becomes_ready(self) -> bool:
        end_s = time.monotonic() + START_S
        try:
            while not self.slots and time.monotonic() < end_s:
                self.pump()
        finally:
            if not self.slots:
                self._process.kill()  # If it still runs, it waits for Ray.
                self.close()
        return bool(self.slots)

    def join(self, submission: RaySubmission[Any, Any]) -> int:
        """Note a new submission, whose outcomes are handed to it. Returns its number."""
        number = next(self._numbers)
        self._submissions[number] = submission
        return number

    def send(self, *message: Any) -> None:
        """Send a message. Raises EngineError if the process has ended."""
        try:
            with interrupts_held_back():
                self._pipe.send(message)
        except OSError:
            self.pump()  # It may have said why.
            raise EngineError(self._refusal or ENDED) from None

    def pump(self) -> None:
        """Wait a moment for a message, and hand it on. Raises EngineError if Ray can do no more."""
        if self._refusal is not None:
            raise EngineError(self._refusal)
        if not self._pipe.poll(WAKE_UP_S):
            return
        with interrupts_held_back():
            try:
                kind, *values = self._pipe.recv()
            except (EOFError, OSError):
                kind, values = "failed", [ENDED]
            if kind == "ready":
                (self.slots,) = values
            elif kind == "failed":
                (self._refusal,) = values
            elif values[0] in self._submissions:
                self._submissions[values[0]].receive(kind, *values[1:])
        if self._refusal is not None:
            raise EngineError(self._refusal)

    def leave(self, number: int) -> None:
        """Cancel what a submission has under way, and wait until its workers have ended."""
        try:
            self.send("cancel", number)
            while not self._submissions[number].is_cancelled:
                self.pump()
        except EngineError:
            pass  # All has ended.
        finally:
            del self._submissions[number]

    def close(self) -> None:
        """End the process, and Ray if it was started here."""
        self._ends()


def _end(pipe: Connection, process: BaseProcess, folder: str | None) -> None:
    with contextlib.suppress(OSError):
        pipe.send(("close", 0))
    pipe.close()
    process.join(CLOSE_S)
    if process.is_alive():
        process.kill()
        process.join()
    assert process.pid, "it was started"
    with contextlib.suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL)  # What is left of Ray, if the process was killed.
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)


@attrs.frozen
class RayPool:
    """Hands items to Ray, at most ``workers`` at a time; see Pool. Made by RayEngine.pool.

    Attributes:
        session: the connection.
        patience_s: see ForkPool.
    """

    session: RaySession
    patience_s: float = PATIENCE_S

    @property
    def workers(self) -> int:
        """The number of items at a time."""
        return self.session.slots

    def submit(
        self,
        work: Work[Item, Result],
        items: Iterable[Item],
        *,
        name: Callable[[Item], str],
        on_progress: OnProgress | None = None,
    ) -> Submission[Result]:
        """See Pool. Raises TypeError for work that cannot be sent, EngineError."""
        return RaySubmission(self.session, sent_work(work, self.patience_s), items, name, on_progress)


class RaySubmission(Generic[Item, Result]):
    """Items under way in Ray; see Submission. More than there are workers are sent, so that none waits for the next."""

    def __init__(
        self,
        session: RaySession,
        work: bytes,
        items: Iterable[Item],
        name: Callable[[Item], str],
        on_progress: OnProgress | None,
    ) -> None:
        self._session = session
        self._tasks: Iterator[tuple[int, Item]] = iter(enumerate(items))
        self._under_way: dict[int, Item] = {}
        self._name = name
        self._on_progress = on_progress
        self._progress: deque[tuple[int, int]] = deque()
        self._arrived: deque[Outcome[Any]] = deque()
        self.is_cancelled = False
        self._number = session.join(self)
        session.send("work", self._number, uuid.uuid4().hex, work)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Outcome[Result]:
        self._feed()
        while not self._arrived:
            if not self._under_way:
                raise StopIteration
            self._session.pump()
            while self._progress:
                index, progress = self._progress.popleft()
                if self._on_progress is not None:
                    self._on_progress(index, progress)
            self._feed()
        return self._arrived.popleft()

    def receive(self, kind: str, *values: Any) -> None:
        """Take a message of the session."""
        if kind == "cancelled":
            self.is_cancelled = True
            return
        index, value = values
        if kind == "progress":
            self._progress.append((index, value))
            return
        item = self._under_way.pop(index)
        if kind == "died":
            self._arrived.append(Outcome(index, error=WorkerDiedError(self._name(item), value)))
        else:
            self._arrived.append(self._named(unpack_outcome(index, value), item))

    def cancel(self) -> list[Outcome[Result]]:
        """See Submission."""
        if not self.is_cancelled:
            self._tasks = iter(())
            self._session.leave(self._number)
            self.is_cancelled = True
            self._under_way.clear()
        arrived = list(self._arrived)
        self._arrived.clear()
        return arrived

    def _feed(self) -> None:
        while len(self._under_way) < SENT_AHEAD * self._session.slots and (task := next(self._tasks, None)) is not None:
            index, item = task
            try:
                packed = pack(item)
            except TypeError as error:
                self._arrived.append(Outcome(index, error=error))
                continue
            self._under_way[index] = item
            self._session.send("item", self._number, index, packed)

    def _named(self, outcome: Outcome[Any], item: Item) -> Outcome[Any]:
        """The outcome; an error that names the work names it in the words of the caller."""
        if isinstance(outcome.error, WorkerDiedError):
            outcome.error.what = self._name(item)
        return outcome
