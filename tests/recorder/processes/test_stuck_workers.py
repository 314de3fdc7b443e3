"""A worker that waits without end is ended and named; one that computes, or whose child does, is not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pool_work import hang_at_two, named, wait_for_child
from waiting import wait_until

from recorder.processes.fork_pool import ForkPool
from recorder.processes.lifetimes.stuck_workers import Activity, WorkerStuckError, waiting_ticks
from recorder.processes.pool import Pool
from recorder.processes.spawn_pool import SpawnPool

PATIENCE_S = 1.0
POOLS: dict[str, Callable[[], Pool]] = {
    "fork": lambda: ForkPool(2, PATIENCE_S),
    "spawn": lambda: SpawnPool(2, patience_s=PATIENCE_S),
}


@pytest.mark.parametrize("kind", POOLS)
@pytest.mark.seldom(0.18)
def test_the_item_of_a_worker_that_hangs_fails_alone_with_its_last_progress(kind: str) -> None:
    """Its process ends; the progress is exact although reports are rare. The others have results."""
    outcomes = {one.index: one for one in POOLS[kind]().submit(hang_at_two, range(5), name=named)}
    assert [outcomes[index].result for index in (0, 1, 3, 4)] == [0, 1, 3, 4]
    error = outcomes[2].error
    assert isinstance(error, WorkerStuckError)
    assert (error.progress, error.waited_s) == (7, PATIENCE_S)
    assert str(error) == (
        "the process that had 2 did nothing for 1 s after progress 7, and was ended: it waits for something, such as a "
        "lock or a thread"
    )


@pytest.mark.seldom(0.15)
@pytest.mark.parametrize("kind", POOLS)
def test_a_worker_whose_child_computes_is_not_ended(kind: str) -> None:
    """As a simulation in another program, which answers late."""
    assert [one.get() for one in POOLS[kind]().submit(wait_for_child, [3.0], name=named)] == [3.0]


def test_no_pool_ends_a_worker_unless_it_was_told_a_time() -> None:
    """Only re-simulations have a limit: the work of others may wait as long as it likes."""
    assert ForkPool(1).patience_s == SpawnPool(1).patience_s == float("inf")


def test_a_process_that_is_stopped_does_not_count_as_waiting() -> None:
    """Neither one that ended; a sleeping one has its processor time."""
    process = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
    try:
        wait_until(lambda: waiting_ticks(process.pid) is not None)
        process.send_signal(signal.SIGSTOP)
        wait_until(lambda: waiting_ticks(process.pid) is None)
        process.send_signal(signal.SIGCONT)
        wait_until(lambda: waiting_ticks(process.pid) is not None)
    finally:
        process.kill()
        process.wait()
    assert waiting_ticks(process.pid) is None


def test_a_child_that_has_ended_keeps_no_process_awake() -> None:
    """Its parent waits for ever, for example for an answer of it: that counts as waiting."""
    # The parent keeps its Popen: one that is dropped asks for the child's end at once, and there is no zombie.
    code = "import signal, subprocess; child = subprocess.Popen(['true']); signal.pause()"
    process = subprocess.Popen([sys.executable, "-c", code])
    try:
        wait_until(lambda: "Z" in _states_of_children(process.pid))
        wait_until(lambda: waiting_ticks(process.pid) is not None)
    finally:
        process.kill()
        process.wait()


def _states_of_children(process_id: int) -> str:
    children = Path(f"/proc/{process_id}/task/{process_id}/children").read_text(encoding="ascii").split()
    return "".join(Path(f"/proc/{child}/stat").read_text(encoding="utf-8").rpartition(")")[2][1] for child in children)


def test_idle_time_counts_from_the_last_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    """A look adds little, so that a pause of the parent itself, as after Ctrl-Z, is not counted."""
    clock = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    ticks: list[Any] = [5]
    monkeypatch.setattr("recorder.processes.lifetimes.stuck_workers.waiting_ticks", lambda _: ticks[0])
    activity = Activity(os.getpid())

    def look(after_s: float, progress: int = 0) -> float:
        clock[0] += after_s
        return activity.idle_s(progress)

    assert [look(0.3), look(0.3)] == [0.0, 0.0]  # The first progress, and the first figure of the processor time.
    assert look(0.3) == pytest.approx(0.3)
    assert look(100.0) == pytest.approx(0.8)
    assert look(0.3, progress=1) == 0.0
    assert look(0.3, progress=1) == pytest.approx(0.3)
    ticks[0] = 20
    assert look(0.3, progress=1) == 0.0
    ticks[0] = None
    assert [look(0.3, progress=1) for _ in range(3)] == [0.0, 0.0, 0.0]
