"""The process that speaks with Ray: it takes items from a pipe, hands them to Ray, and sends their outcomes back.

Invariants:
    1. Each item ends once: with what the work gave, with "died", or never, if its submission was cancelled.
    2. An item whose worker or machine is lost is started again, up to a number of times. Work may therefore begin twice,
       never end twice: the message of the lost one does not come any more. A worker that is lost before the work has begun
       is not counted there: that can be no fault of the item, and on a busy machine workers take longer to start than
       items to end.
    3. Several short items are handed out together, see bundles.py. An item that was lost is started alone.
    4. If the pipe is closed, the process ends, and with it all that it has started, also if the caller was killed.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection
from typing import Any

import attrs

from recorder.processes.engines.bundles import BundleSizes
from recorder.processes.engines.code_identity import code_identity
from recorder.processes.engines.engine_error import EngineError
from recorder.processes.engines.ray_start import RaySettings, connected, first_line
from recorder.processes.engines.worker_host import BundleMessage

POLL_S = 0.05
CANCEL_S = 10.0
GRACE_S = 15.0  # For an orderly end.
START_LOSSES_MAX = 20  # Of workers, for one item, before its work has begun.
# Before an item is started again, doubled each time: Ray notices late that a machine is lost.
PAUSE_S, PAUSE_S_MAX = 0.1, 5.0


@attrs.define(eq=False)
class _Task:
    """An item, and how many times it was lost.

    Attributes:
        submission, index, item: of the item, and its bytes.
        losses: of its work. The first loss is always one: a worker says that work has begun only if it is asked to.
        start_losses: of workers that had not begun the work.
        has_begun: True if the work is known to have begun in the worker that has it now.
        rests_until_s: it is not started before.
        exit_code: the last one that is known.
    """

    submission: int
    index: int
    item: bytes
    losses: int = 0
    start_losses: int = 0
    has_begun: bool = False
    rests_until_s: float = 0.0
    exit_code: int | None = None

    @property
    def was_lost(self) -> bool:
        return bool(self.losses + self.start_losses)

    def lose(self, exit_code: int | None, *, by_ray: bool) -> None:
        """Count a loss. by_ray: Ray reports it, not the worker, which would know that its item is at fault."""
        if by_ray and self.was_lost and not self.has_begun:
            self.start_losses += 1
        else:
            self.losses += 1
        pause_s = PAUSE_S * 2.0 ** (self.losses + self.start_losses - 1)
        self.rests_until_s = time.monotonic() + min(pause_s, PAUSE_S_MAX)
        self.has_begun = False
        self.exit_code = exit_code if exit_code is not None else self.exit_code


def serve(
    pipe: Connection, settings: RaySettings, folder: str | None, environment: dict[str, str], attempts: int
) -> None:
    """Run the process until the pipe is closed or "close" is received. folder: of a Ray that is started; removed at the end."""
    os.setpgid(0, 0)  # What is left of Ray, if this process is killed, is found by its group.
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # The caller decides. Ray's processes inherit it.
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    threading.Thread(target=_end_after_caller, args=(pipe.fileno(), folder), daemon=True).start()
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):  # Ray prints, and so do its processes.
        os.dup2(nowhere, stream)
    try:
        with connected(settings, folder) as (ray, slots):
            pipe.send(("ready", slots))
            _Server(ray, pipe, slots, environment, attempts).run()
    except EngineError as error:
        with contextlib.suppress(OSError):
            pipe.send(("failed", str(error)))
    except (EOFError, BrokenPipeError, ConnectionResetError):
        pass
    os._exit(0)  # What Ray has left in this process may wait for what has ended.


def _end_after_caller(pipe: int, folder: str | None) -> None:
    """In a thread: if the caller has ended and this process does not, because Ray waits for something, end both."""
    poll = select.poll()
    poll.register(pipe, 0)  # The end of the pipe is always told.
    poll.poll()
    time.sleep(GRACE_S)
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)
    os.killpg(0, signal.SIGKILL)


class _Server:
    def __init__(self, ray: Any, pipe: Connection, slots: int, environment: dict[str, str], attempts: int) -> None:
        self._ray = ray
        self._pipe = pipe
        self._slots = slots
        self._attempts = attempts
        self._common = (environment, code_identity())
        self._remote = ray.remote(_function()).options(num_cpus=1, max_retries=0, num_returns="streaming")
        self._works: dict[int, tuple[str, Any]] = {}  # By submission: a key, and the work in Ray's store.
        self._waiting: deque[_Task] = deque()
        self._resting: list[_Task] = []  # They were lost.
        self._running: dict[Any, dict[int, _Task]] = {}  # Unfinished items of a bundle, by number.
        self._sizes = BundleSizes(slots)

    def run(self) -> None:
        while True:
            while self._pipe.poll(0 if self._running else POLL_S):
                if self._take(*self._pipe.recv()):
                    return
            self._end_rests()
            while self._waiting and len(self._running) < self._slots:
                self._start(self._next_bundle())
            if self._running:
                ready, _ = self._ray.wait(list(self._running), num_returns=1, timeout=POLL_S, fetch_local=False)
                for generator in ready:
                    self._receive(generator)

    def _take(self, kind: str, submission: int, *more: Any) -> bool:
        """Take a message of the caller; True for the last one."""
        if kind == "work":
            self._works[submission] = (more[0], self._ray.put(more[1]))
            self._sizes = BundleSizes(self._slots)
        elif kind == "item":
            self._waiting.append(_Task(submission, *more))
        elif kind == "cancel":
            self._cancel(submission)
            self._pipe.send(("cancelled", submission))
        return kind == "close"

    def _next_bundle(self) -> list[_Task]:
        """The items that wait first, of one submission, and at least one of them."""
        first = self._waiting.popleft()
        size = self._sizes.size(1 + len(self._waiting))
        bundle = [first]
        while len(bundle) < size and self._waiting and not first.was_lost:
            following = self._waiting[0]
            if following.was_lost or following.submission != first.submission:
                break
            bundle.append(self._waiting.popleft())
        return bundle

    def _start(self, bundle: list[_Task]) -> None:
        key, work = self._works[bundle[0].submission]
        items = [task.item for task in bundle]
        generator = self._remote.remote(*self._common, key, work, items, bundle[0].was_lost)
        self._running[generator] = dict(enumerate(bundle))

    def _end_rests(self) -> None:
        rested = [task for task in self._resting if time.monotonic() >= task.rests_until_s]
        if rested:
            self._resting = [task for task in self._resting if task not in rested]
            self._waiting.extendleft(reversed(rested))

    def _receive(self, generator: Any) -> None:
        bundle = self._running[generator]
        try:
            kind, value = self._ray.get(next(generator))
        except StopIteration:  # Without a result before.
            self._lose(generator, list(bundle), None, by_ray=False)
        except self._ray.exceptions.RayTaskError as error:
            raise EngineError(f"a Ray worker failed: {first_line(error.cause or error)}") from None
        except self._ray.exceptions.RuntimeEnvSetupError as error:
            raise EngineError(f"the runtime_env cannot be set up: {first_line(error)}") from None
        except self._ray.exceptions.RayError:  # The worker or its machine is lost.
            self._lose(generator, list(bundle), None, by_ray=True)
        else:
            self._take_message(generator, kind, value)

    def _take_message(self, generator: Any, kind: str, value: Any) -> None:
        """Take a message of run_items."""
        bundle = self._running[generator]
        match kind:
            case "unfit":
                raise EngineError(value)
            case "begun":
                bundle[value].has_begun = True
            case "progress":
                number, progress = value
                self._pipe.send(("progress", bundle[number].submission, bundle[number].index, progress))
            case "done":
                outcomes, took_s = value
                self._sizes.ended(len(outcomes), took_s)
                for number, outcome in outcomes:
                    task = self._ended(generator, number)
                    self._pipe.send(("done", task.submission, task.index, outcome))
            case _:
                number, exit_code = value
                self._lose(generator, [number], exit_code, by_ray=False)

    def _ended(self, generator: Any, number: int) -> _Task:
        """Take an item out of its bundle; after the last one nothing more is read of it."""
        bundle = self._running[generator]
        task = bundle.pop(number)
        if not bundle:
            del self._running[generator]
        return task

    def _lose(self, generator: Any, numbers: Sequence[int], exit_code: int | None, *, by_ray: bool) -> None:
        for number in numbers:
            task = self._ended(generator, number)
            task.lose(exit_code, by_ray=by_ray)
            if task.losses < self._attempts and task.start_losses < START_LOSSES_MAX:
                self._resting.append(task)
            else:
                self._pipe.send(("died", task.submission, task.index, task.exit_code))

    def _cancel(self, submission: int) -> None:
        self._waiting = deque(task for task in self._waiting if task.submission != submission)
        self._resting = [task for task in self._resting if task.submission != submission]
        ended = [
            generator
            for generator, bundle in self._running.items()
            if any(task.submission == submission for task in bundle.values())
        ]
        for generator in ended:
            self._ray.cancel(generator, force=True)
            del self._running[generator]
        if ended:
            self._ray.wait([one.completed() for one in ended], num_returns=len(ended), timeout=CANCEL_S)
        self._works.pop(submission, None)


def _function() -> Callable[..., Iterator[BundleMessage]]:
    """The function that Ray runs: defined here so that it is sent by value, and works where this package is missing."""

    def run(
        environment: dict[str, str],
        identity: dict[str, str],
        key: str,
        work: bytes,
        items: list[bytes],
        tells_begin: bool,  # noqa: FBT001 - Ray passes it on
    ) -> Iterator[tuple[str, Any]]:
        import socket  # noqa: PLC0415 - on the other machine

        try:
            from recorder.processes.engines.code_identity import code_identity, difference  # noqa: PLC0415 - as above
            from recorder.processes.engines.worker_host import run_items  # noqa: PLC0415 - as above
        except ImportError as error:
            yield "unfit", f"the worker on {socket.gethostname()} cannot import this package: {error}"
            return
        found = difference(identity, code_identity())
        if found is not None:
            yield "unfit", f"the worker on {socket.gethostname()} has {found}"
            return
        yield from run_items(environment, key, work, items, tells_begin=tells_begin)

    return run
