"""Every pool of processes keeps the promises of recorder.processes.pool."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pool_work
import pytest
from pool_work import POOLS, InProcessPool, named, processes_of
from waiting import wait_until

from recorder.processes.executor_pool import ExecutorPool
from recorder.processes.fork_call import in_a_copy
from recorder.processes.fork_pool import ForkPool
from recorder.processes.pool import Pool, WorkerDiedError, results_in_order
from recorder.processes.spawn_pool import SpawnPool

from project_paths import SUPPORT

MakePool = Callable[[int], Pool]
SOON_S = 5.0
WAITING = """
import sys
from functools import partial
from pathlib import Path
from pool_work import POOLS, named, wait_for_ever

if __name__ == "__main__":
    submission = POOLS[sys.argv[1]](2).submit(partial(wait_for_ever, Path(sys.argv[2])), range(5), name=named)
    try:
        next(submission)
    except KeyboardInterrupt:
        submission.cancel()
        sys.exit(130)
"""

LEFT_ALONE = """
import multiprocessing, sys
from pool_work import POOLS, double, named

if __name__ == "__main__":
    submission = POOLS[sys.argv[1]](2).submit(double, range(9), name=named)
    next(submission)
    del submission
    print(multiprocessing.active_children())
    submission = POOLS[sys.argv[1]](2).submit(double, range(9), name=named)
    next(submission)
"""


@pytest.fixture(params=list(POOLS))
def make_pool(request: pytest.FixtureRequest) -> Iterator[MakePool]:
    """Make a pool with this many processes; check that none is left behind, not even a zombie."""
    yield POOLS[request.param]
    assert multiprocessing.active_children() == []
    children = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()
    assert [child for child in children if "\nState:\tZ" in Path(f"/proc/{child}/status").read_text()] == []


def test_a_forked_process_does_not_wait_for_threads_of_the_work() -> None:
    """The thread waits for an event that never comes, and is no daemon."""

    def work() -> dict[str, int]:
        threading.Thread(target=threading.Event().wait).start()
        return {"threads": threading.active_count()}

    before_s = time.monotonic()
    assert in_a_copy(work)["threads"] >= 2
    assert time.monotonic() - before_s < SOON_S


def is_gone(process: int) -> bool:
    """Return True if the process has ended and was waited for."""
    return not Path(f"/proc/{process}").exists()


def test_results_come_in_the_order_of_the_items(make_pool: MakePool, tmp_path: Path) -> None:
    """Even if they finish in a different order; outcomes are returned as they arrive."""
    go = tmp_path / "go"
    work = partial(pool_work.first_waits, go)
    outcomes = []
    for outcome in make_pool(2).submit(work, [0, 1], name=named):
        outcomes.append(outcome.index)
        go.touch()
    assert outcomes == [1, 0]
    go.unlink()
    found = results_in_order(make_pool(2), work, range(5), name=named, on_progress=lambda _: go.touch())
    assert list(found) == [0, 1, 2, 3, 4]
    assert list(results_in_order(make_pool(2), work, [], name=named)) == []


@pytest.mark.parametrize("pool", [InProcessPool(), pytest.param(None, id="threads")])
def test_pools_without_processes_keep_the_order_too(pool: Pool | None) -> None:
    with ThreadPoolExecutor(2) as threads:
        found = results_in_order(pool or ExecutorPool(threads), pool_work.double, range(9), name=named)
        assert list(found) == [0, 2, 4, 6, 8, 10, 12, 14, 16]


def test_an_error_is_raised_in_its_turn(make_pool: MakePool) -> None:
    """With its cause and the traceback of the worker; results before it are returned first."""
    found = results_in_order(make_pool(3), pool_work.raise_at_two, [0, 1, 2, 0], name=named)
    assert [next(found), next(found)] == [0, 1]
    with pytest.raises(ValueError, match="two") as caught:
        next(found)
    assert isinstance(caught.value.__cause__, KeyError)
    assert "in raise_at_two" in "".join(caught.value.__cause__.__notes__)

    (outcome,) = make_pool(1).submit(pool_work.raise_at_two, [3], name=named)
    with pytest.raises(RuntimeError, match="OddError: three is odd") as replaced:
        outcome.get()
    assert "in raise_at_two" in "".join(replaced.value.__notes__)


def test_a_worker_that_is_killed_costs_its_own_item(make_pool: MakePool) -> None:
    """One line names that item; all others have results."""
    outcomes = sorted(
        make_pool(2).submit(pool_work.die_at_two, range(6), name=named), key=lambda outcome: outcome.index
    )
    assert [outcome.result for outcome in outcomes] == [0, 1, None, 3, 4, 5]
    assert [outcome.index for outcome in outcomes if outcome.error is not None] == [2]
    with pytest.raises(WorkerDiedError, match=r"^the process that had 2 died with exit code -9$") as caught:
        outcomes[2].get()
    assert (caught.value.what, caught.value.exit_code) == ("had 2", -signal.SIGKILL)

    (outcome,) = make_pool(2).submit(pool_work.exit_at_once, [0], name=named)
    assert str(outcome.error) == "the process that had 0 died with exit code 7"


def test_a_worker_that_is_killed_while_it_sends(make_pool: MakePool, tmp_path: Path) -> None:
    """An incomplete result does not count."""
    work = partial(pool_work.large_when_told, tmp_path / "go")
    submission: Any = make_pool(2).submit(work, [0, 1], name=named)
    assert next(submission).index == 0
    (tmp_path / "go").touch()
    (worker,) = [worker for worker in submission._workers.values() if worker.task is not None]
    assert worker.pipe.poll(SOON_S)
    worker.process.kill()
    (outcome,) = submission
    assert (outcome.index, str(outcome.error)) == (1, "the process that had 1 died with exit code -9")


def test_cancelling_ends_the_workers(make_pool: MakePool, tmp_path: Path) -> None:
    """The workers have ended when cancel returns; no further item is started."""
    submission = make_pool(2).submit(partial(pool_work.wait_for_ever, tmp_path), range(9), name=named)
    with ThreadPoolExecutor(1) as thread:
        workers = thread.submit(processes_of, tmp_path, 2)
        workers.add_done_callback(lambda _: os.kill(os.getpid(), signal.SIGINT))
        with pytest.raises(KeyboardInterrupt):  # No worker is started before.
            next(submission)
    start_s = time.monotonic()
    assert list(submission.cancel()) == []
    assert time.monotonic() - start_s < SOON_S
    assert all(map(is_gone, workers.result()))
    assert list(submission) == []
    assert list(submission.cancel()) == []
    assert len(list(tmp_path.glob("*.pid"))) == 2


def test_what_had_finished_is_given_when_it_is_cancelled(make_pool: MakePool) -> None:
    """The caller may keep it."""
    submission: Any = make_pool(2).submit(pool_work.double, [0, 1], name=named)
    given = [next(submission).index]
    for worker in submission._workers.values():
        assert worker.task is None or worker.pipe.poll(SOON_S)
    given += [outcome.index for outcome in submission.cancel()]
    assert sorted(given) == [0, 1]


def test_a_caller_that_stops_early_ends_the_workers(make_pool: MakePool) -> None:
    """A caller that takes no more results ends the workers, too."""
    found = results_in_order(make_pool(2), pool_work.double, range(100), name=named)
    assert next(found) == 0
    found.close()  # type: ignore[attr-defined] # It is a generator.
    assert multiprocessing.active_children() == []


@pytest.mark.seldom(0.15)
@pytest.mark.parametrize("kind", list(POOLS))
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends processes with their parent")
def test_workers_end_with_the_parent(kind: str, number: signal.Signals, tmp_path: Path) -> None:
    """At once and without output, when all processes of a terminal are interrupted and when the parent is killed."""
    command = [sys.executable, "-c", WAITING, kind, str(tmp_path)]
    with subprocess.Popen(command, cwd=SUPPORT, stderr=subprocess.PIPE, start_new_session=True) as process:
        try:
            workers = processes_of(tmp_path, 2)
            if number == signal.SIGINT:
                os.killpg(process.pid, number)
            else:
                process.send_signal(number)
            assert process.wait(SOON_S) == (130 if number == signal.SIGINT else -number)
            wait_until(lambda: all(map(is_dead, workers)), SOON_S)
            assert process.stderr is not None
            assert process.stderr.read() == b""
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)


def is_dead(process: int) -> bool:
    """Return True if the process has stopped; a zombie counts as stopped."""
    try:
        return "\nState:\tZ" in Path(f"/proc/{process}/status").read_text()
    except OSError:
        return True


def test_progress_within_an_item_and_in_sum(make_pool: MakePool, tmp_path: Path) -> None:
    """Reported while the item is under way; then the item counts with its size."""
    seen, told = tmp_path / "seen", []

    def on_progress(index: int, how_far: int) -> None:
        told.append((index, how_far))
        seen.touch()

    submission = make_pool(1).submit(
        partial(pool_work.report_until_seen, seen), [5], name=named, on_progress=on_progress
    )
    assert [outcome.result for outcome in submission] == [5]
    assert set(told) == {(0, 7)}

    sums: list[int] = []
    size = 3
    found = results_in_order(
        make_pool(1), pool_work.double, range(4), name=named, size=lambda _: size, on_progress=sums.append
    )
    assert list(found) == [0, 2, 4, 6]
    assert sums == [3, 3, 3, 3]  # Progress of returned items is not counted by the pool.


@pytest.mark.seldom(0.15)
def test_no_more_items_are_taken_than_there_are_workers(make_pool: MakePool) -> None:
    """Memory does not grow with the number of items: each waits in the iterator until a worker is free."""
    taken: list[int] = []

    def items() -> Iterator[int]:
        for item in range(50):
            taken.append(item)
            yield item

    given = 0
    for _ in make_pool(2).submit(pool_work.double, items(), name=named):
        given += 1
        assert len(taken) <= given + 2 + 1  # Two are under way, and a further outcome may have arrived.
    assert (given, taken) == (50, list(range(50)))


def test_large_items_and_results(make_pool: MakePool) -> None:
    """More than a pipe holds, in both directions."""
    items = [np.full(1 << 20, number, np.uint8) for number in range(5)]
    found = list(results_in_order(make_pool(2), pool_work.double, items, name=lambda _: "doubled"))
    assert [(len(array), int(array[-1])) for array in found] == [(1 << 20, 2 * number) for number in range(5)]


def test_each_forked_item_has_a_process_of_its_own_and_spawned_ones_share() -> None:
    """Forked items do not inherit what an earlier step left in globals."""
    forked = list(results_in_order(ForkPool(2), pool_work.process_id, range(6), name=named))
    assert len(set(forked)) == 6
    spawned = list(results_in_order(SpawnPool(1), pool_work.process_id, range(6), name=named))
    assert len(set(spawned)) == 1


def test_spawned_workers_are_prepared() -> None:
    """Before the first item."""
    assert "PREPARED" not in os.environ
    found = results_in_order(SpawnPool(1, prepare=pool_work.prepare), pool_work.prepared, [0, 1], name=named)
    assert list(found) == ["yes", "yes"]


@pytest.mark.parametrize("kind", list(POOLS))
def test_a_submission_that_is_left_alone(kind: str) -> None:
    """It does not keep the process from ending, neither at exit nor after the last reference is gone."""
    finished = subprocess.run(
        [sys.executable, "-c", LEFT_ALONE, kind], cwd=SUPPORT, capture_output=True, timeout=30, check=False
    )
    assert (finished.returncode, finished.stdout, finished.stderr) == (0, b"[]\n", b"")


def test_what_a_pool_takes(make_pool: MakePool) -> None:
    """Forked workers take closures over live objects; other pools refuse them at once."""
    with pytest.raises(ValueError, match="expected at least 1 worker, got 0"):
        make_pool(0)
    live = object()
    (found,) = results_in_order(ForkPool(1), lambda item, _: (item is live, 2), [live], name=named)
    assert found == (True, 2)
    with pytest.raises(TypeError, match=r"expected work that can be pickled, got .*: use functions of a module"):
        SpawnPool(1).submit(lambda item, _: item, [1], name=named)
    outcomes = list(SpawnPool(1).submit(pool_work.process_id, [lambda: 0, 1, lambda: 0], name=named))
    assert sorted(outcome.index for outcome in outcomes if outcome.error is not None) == [0, 2]
    assert len(outcomes) == 3


def test_a_pool_that_takes_no_more_work() -> None:
    """The message names the first item that was not started."""
    threads = ThreadPoolExecutor(1)
    threads._broken = "a worker has died"  # type: ignore[attr-defined] # As its own initializer's failure does.
    with threads, pytest.raises(RuntimeError, match="takes no more work: no process had 4"):
        list(results_in_order(ExecutorPool(threads), pool_work.double, [4], name=named))


def test_a_copy_of_this_process() -> None:
    """It has the state of this process, including the coming random numbers; its failure is reported in one line."""
    drawn = random.getstate()
    expected = random.random()
    random.setstate(drawn)
    assert in_a_copy(lambda: {"drawn": random.random(), "process": os.getpid()})["drawn"] == expected
    assert random.getstate() == drawn
    with pytest.raises(RuntimeError, match=r"^a copy of the process died with exit code -9$"):
        in_a_copy(lambda: {"dead": os.kill(os.getpid(), signal.SIGKILL)})
    with pytest.raises(RuntimeError, match=r"^a copy of the process failed: ZeroDivisionError: division by zero$"):
        in_a_copy(lambda: {"never": 1 / 0})
