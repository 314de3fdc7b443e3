"""Actors as processes of this machine, connected by pipes."""

from __future__ import annotations

import contextlib
import gc
import multiprocessing
import os
import signal
import warnings
import weakref
from collections.abc import Sequence
from contextlib import nullcontext
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, cast

import attrs

from recorder.cluster.actor_engine import Actor, Message, Role
from recorder.processes.fork_hazard import fork_hazard
from recorder.processes.lifetimes.stuck_workers import Activity
from recorder.processes.spawn_pool import without_main
from recorder.processes.worker_pipes import begin_as_worker, starting

_STANDARD_FILES = 3  # stdin, stdout, stderr.


@attrs.define(eq=False)
class PipeChannel:
    """The end of a pipe."""

    pipe: Connection

    def send(self, message: Message) -> None:
        """See Channel."""
        self.pipe.send(message)

    def receive(self) -> Message:
        """See Channel. A process that died while it sent counts as gone, too."""
        try:
            return cast("Message", self.pipe.recv())
        except OSError:
            raise EOFError from None


@attrs.define(eq=False)
class ProcessActor(PipeChannel):
    """A process that this one started."""

    process: BaseProcess
    activity: Activity
    exit_code: int | None = None
    is_joined: bool = False

    @property
    def process_id(self) -> int:
        """See Actor."""
        return self.process.pid or 0

    def is_alive(self) -> bool:
        """See Actor."""
        return not self.is_joined and self.process.is_alive()

    def idle_s(self, progress: object) -> float:
        """See Actor."""
        return self.activity.idle_s(progress)

    def end(self) -> int | None:
        """See Actor."""
        if not self.is_joined:
            self.process.kill()
            self.process.join()
            self.exit_code, self.is_joined = self.process.exitcode, True
            self.pipe.close()
        return self.exit_code


@attrs.frozen
class ProcessEngine:
    """Forks processes, or starts fresh interpreters where a fork would not work; see ActorEngine."""

    def start(self, role: Role, arguments: tuple[Any, ...]) -> ProcessActor:
        """See ActorEngine."""
        is_forked = fork_hazard() is None
        context: Any = multiprocessing.get_context("fork" if is_forked else "spawn")
        with starting(), warnings.catch_warnings():
            warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)
            ours, theirs = context.Pipe()
            process = context.Process(
                target=_live, args=(os.getpid(), theirs, role, arguments), kwargs={"forked": is_forked}
            )
            with nullcontext() if is_forked else without_main():
                process.start()
            theirs.close()
        actor = ProcessActor(ours, process, Activity(process.pid or 0))
        weakref.finalize(actor, _end_process, process)
        return actor

    def wait(self, actors: Sequence[Actor], timeout_s: float) -> Sequence[Actor]:
        """See ActorEngine."""
        by_pipe = {cast("ProcessActor", actor).pipe: actor for actor in actors}
        return [by_pipe[cast("Connection", pipe)] for pipe in wait(list(by_pipe), timeout_s)]


def _end_process(process: BaseProcess) -> None:
    with contextlib.suppress(ValueError, AssertionError):  # It is closed, or the child of another process.
        process.kill()
        process.join()


def _live(parent: int, pipe: Connection, role: Role, arguments: tuple[Any, ...], *, forked: bool) -> None:
    """Run an actor from start to end."""
    begin_as_worker(parent)
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    if forked:
        gc.freeze()
        _close_inherited(pipe.fileno())
    with contextlib.suppress(EOFError, BrokenPipeError):  # The other end is gone: so is the reason to run.
        role(PipeChannel(pipe), *arguments)
    os._exit(0)  # Nothing that was inherited is finished here: it is the parent's.


def _close_inherited(kept: int) -> None:
    """Close the files of the parent: the lock of a tape ends with the parent only then, and a pipe with its other end."""
    numbers = [int(entry.name) for entry in Path("/proc/self/fd").iterdir()] if Path("/proc/self/fd").exists() else []
    for number in numbers:
        if number >= _STANDARD_FILES and number != kept:
            with contextlib.suppress(OSError):
                os.close(number)
