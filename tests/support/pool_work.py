"""Work for the tests of pools; a module of its own, so that worker processes can import it.

Also a pool that has no processes at all, as someone else could write one.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Self

from waiting import wait_until

from recorder.processes.fork_pool import ForkPool
from recorder.processes.pool import OnProgress, Outcome, Pool, Report, WorkerDiedError
from recorder.processes.spawn_pool import SpawnPool

from small_worlds import Walkers

POOLS: dict[str, Callable[[int], Pool]] = {"fork": ForkPool, "spawn": SpawnPool}


def named(item: Any) -> str:
    """A name for an item."""
    return f"had {item}"


def double(item: Any, _: Report) -> Any:
    """Twice the item."""
    return item * 2


def process_id(_: Any, __: Report) -> int:
    """Of the worker."""
    return os.getpid()


def first_waits(go: Path, item: int, _: Report) -> int:
    """Item 0 ends when there is a file go."""
    if item == 0:
        wait_until(go.exists)
    return item


def hang_at_two(item: int, report: Report) -> int:
    """Item 2 waits without end after a progress of 7; the others end."""
    for progress in range(8):
        report(progress)
    if item == 2:
        signal.pause()
    return item


def wait_for_child(item: float, _: Report) -> float:
    """Wait for a child that computes for so many seconds."""
    program = f"import time\nend_s = time.monotonic() + {item}\nwhile time.monotonic() < end_s: pass"
    subprocess.run([sys.executable, "-c", program], check=True)
    return item


def prepare() -> None:
    """What a worker may do first."""
    os.environ["PREPARED"] = "yes"


def prepared(_: Any, __: Report) -> str:
    """The trace that it has left."""
    return os.environ["PREPARED"]


def large_when_told(go: Path, item: int, _: Report) -> bytes:
    """Item 1 waits for the file go, and has more to send than a pipe holds."""
    if item == 1:
        wait_until(go.exists)
    return bytes(item * (16 << 20))


class OddError(Exception):
    """Cannot be made again from its pickle."""

    def __init__(self, one: str, other: str) -> None:
        super().__init__(f"{one} {other}")


def raise_at_two(item: int, _: Report) -> int:
    """Item 2 raises, and so does 3, in its own way."""
    if item == 2:
        raise ValueError("two") from KeyError("why")
    if item == 3:
        raise OddError("three", "is odd")
    return item


def die_at_two(item: int, _: Report) -> int:
    """The worker of item 2 is killed."""
    if item == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return item


def exit_at_once(_: int, __: Report) -> int:
    """Leave, as a library may."""
    sys.exit(7)


def wait_for_ever(folder: Path, item: int, _: Report) -> None:
    """Leave a file that is named by the process, and do not end."""
    (folder / f"{item}.begun").write_text(str(os.getpid()))
    (folder / f"{item}.begun").rename(folder / f"{item}.pid")
    while True:
        signal.pause()


def report_until_seen(seen: Path, item: int, report: Report) -> int:
    """Report 7 until the parent has heard of it."""

    def is_seen() -> bool:
        report(7)
        return seen.exists()

    wait_until(is_seen)
    return item


def processes_of(folder: Path, count: int) -> list[int]:
    """The workers that wait for ever, when all of them do."""
    paths = [folder / f"{item}.pid" for item in range(count)]
    wait_until(lambda: all(path.exists() for path in paths))
    return [int(path.read_text()) for path in paths]


class Wrong(Walkers):
    """Walkers whose tick 29 is another one."""

    def step(self, inputs: Any) -> None:
        super().step(inputs)
        if self.state["rng"][2] == 29 * 40:
            self.state["y"][7] ^= 4


class InProcessPool:
    """Works in this process, an item when its outcome is asked for; those in dying have no result the first time."""

    def __init__(self, dying: Iterable[int] = ()) -> None:
        self.worked_on: list[Any] = []
        self.dying = set(dying)

    def submit(
        self, work: Any, items: Iterable[Any], *, name: Callable[[Any], str], on_progress: OnProgress | None = None
    ) -> InProcessSubmission:
        return InProcessSubmission(self._outcomes(work, items, name, on_progress))

    def _outcomes(
        self, work: Any, items: Iterable[Any], name: Callable[[Any], str], on_progress: OnProgress | None
    ) -> Iterator[Outcome[Any]]:
        for index, item in enumerate(items):
            self.worked_on.append(item)
            if index in self.dying:
                self.dying.remove(index)
                yield Outcome(index, error=WorkerDiedError(name(item)))
                continue

            def report(how_far: int, index: int = index) -> None:
                if on_progress is not None:
                    on_progress(index, how_far)

            try:
                outcome = Outcome(index, work(item, report))
            except Exception as error:  # noqa: BLE001 - the consumer of the outcome raises it
                outcome = Outcome(index, error=error)
            yield outcome


class InProcessSubmission:
    def __init__(self, outcomes: Iterator[Outcome[Any]]) -> None:
        self._outcomes = outcomes

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Outcome[Any]:
        return next(self._outcomes)

    def cancel(self) -> list[Outcome[Any]]:
        self._outcomes = iter(())
        return []
