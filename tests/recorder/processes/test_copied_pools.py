"""A forked copy has queues of its own for the pools of processes that modules hold, and ends the processes that it starts."""

from __future__ import annotations

import multiprocessing
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing.pool import ThreadPool
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from recorder.processes.copied_pools import pools_to_copy
from recorder.processes.fork_call import in_a_copy
from recorder.processes.fork_pool import ForkPool
from recorder.processes.lifetimes.stuck_workers import WorkerStuckError
from recorder.processes.pool import WorkerDiedError, results_in_order

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="/proc tells of the processes")

TASKS = 60


def doubled(number: int) -> int:
    return 2 * number


def pid_of(_: int) -> int:
    return os.getpid()


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A module that holds a pool, as a program's does that makes one at its top."""
    module: Any = ModuleType("held_pools")
    monkeypatch.setitem(sys.modules, "held_pools", module)
    module.POOL = ProcessPoolExecutor(2)
    yield module
    module.POOL.shutdown()


def is_running(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def all_end(processes: list[int]) -> bool:
    end_s = time.monotonic() + 20
    while any(map(is_running, processes)) and time.monotonic() < end_s:
        os.sched_yield()
    return not any(map(is_running, processes))


def test_tasks_of_one_copy_are_not_done_in_another(held: Any) -> None:
    """The copies run side by side. Each of their pools gives the results of its own tasks."""

    def work(start: int, _: Any) -> list[int]:
        return list(held.POOL.map(doubled, range(start, start + TASKS)))

    starts = [1_000, 2_000, 3_000, 4_000]
    pool = ForkPool(2, patience_s=20)
    found = list(results_in_order(pool, work, starts, name=str))
    assert found == [[2 * number for number in range(start, start + TASKS)] for start in starts]


def test_a_pool_that_was_used_works_in_a_copy(held: Any) -> None:
    assert list(held.POOL.map(doubled, [4])) == [8]
    assert in_a_copy(lambda: {"found": list(held.POOL.map(doubled, [5]))}) == {"found": [10]}
    assert list(held.POOL.map(doubled, [6])) == [12]


def test_a_pool_of_multiprocessing_works_in_a_copy(held: Any) -> None:
    with multiprocessing.get_context("fork").Pool(2) as held.pool, ThreadPool(2) as held.threads:
        assert held.pool.map(doubled, [4]) == [8]
        assert in_a_copy(lambda: {"found": held.pool.map(doubled, [5])}) == {"found": [10]}
        assert held.pool.map(doubled, [6]) == [12]
        assert held.pool in pools_to_copy()
        assert held.threads not in pools_to_copy()
    assert held.pool not in pools_to_copy()


def test_processes_that_a_copy_started_end_with_it(held: Any) -> None:
    found = in_a_copy(lambda: {"pids": list(held.POOL.map(pid_of, range(4)))})
    assert all_end(found["pids"])
    assert os.getpid() not in found["pids"]


def test_a_copy_with_a_pool_that_starts_processes_again_ends() -> None:
    """multiprocessing.Pool puts others in the place of processes that have ended, and waits for them when it is ended."""

    def work(_: None, __: Any) -> list[int]:
        made.append(multiprocessing.get_context("fork").Pool(2))
        made[0].map(doubled, range(9))
        return [one.pid for one in made[0]._pool]

    made: list[Any] = []
    (found,) = results_in_order(ForkPool(1, patience_s=20), work, [None], name=lambda _: "worked")
    assert len(found) == 2
    assert all_end(found)


def test_processes_of_a_copy_that_is_ended_end_with_it(held: Any, tmp_path: Path) -> None:
    """Such as one that waits for something that never comes."""

    def work(_: None, __: Any) -> None:
        (tmp_path / "pids").write_text(" ".join(map(str, held.POOL.map(pid_of, range(4)))))
        os.read(os.pipe()[0], 1)

    with pytest.raises((WorkerStuckError, WorkerDiedError)):
        list(results_in_order(ForkPool(1, patience_s=1), work, [None], name=lambda _: "waited"))
    assert all_end(list(map(int, (tmp_path / "pids").read_text().split())))


def test_pools_are_found_in_modules_and_classes(held: Any) -> None:
    held.Game = type("Game", (), {"pool": ProcessPoolExecutor(1)})
    held.again = held.POOL
    held.ended = ProcessPoolExecutor(1)
    held.ended.shutdown()
    found = pools_to_copy()
    assert [one for one in (held.POOL, held.Game.pool, held.ended) if one in found] == [held.POOL, held.Game.pool]
    assert len(found) == len(set(map(id, found)))
    held.Game.pool.shutdown()
