"""The pool of Ray keeps the promises of recorder.processes.pool."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import cluster_work
import pool_work
import pytest
from optional_packages import needs
from pool_work import named
from waiting import wait_until

from recorder.processes.engines.engine_error import EngineError
from recorder.processes.engines.ray_pool import RayPool
from recorder.processes.lifetimes.stuck_workers import WorkerStuckError
from recorder.processes.pool import Report, WorkerDiedError, results_in_order

from ray_cluster import listening, ray_pool, session_process, why_not_alone

needs("ray")


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RayPool]:
    """A Ray with two workers, for all tests."""
    print(f"network namespace: {why_not_alone() or 'of its own'}")
    with ray_pool(tmp_path_factory.mktemp("ray")) as made:
        yield made


def test_results_come_in_the_order_of_the_items(pool: RayPool) -> None:
    """Several submissions use one Ray, also one within another."""
    found = results_in_order(pool, pool_work.double, range(7), name=named)
    assert next(found) == 0
    assert list(results_in_order(pool, pool_work.double, [50], name=named)) == [100]
    assert list(found) == [2, 4, 6, 8, 10, 12]
    assert list(results_in_order(pool, pool_work.double, [], name=named)) == []


@pytest.mark.usefixtures("pool")
def test_nothing_listens_beyond_loopback() -> None:
    """127.0.0.1 in both tables; the sockets are those of Ray."""
    found = listening(session_process())
    assert found
    assert found <= {"0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000"}


def test_no_item_sees_what_another_one_left_behind(pool: RayPool) -> None:
    """Ray itself would keep the module's list from item to item."""
    assert list(results_in_order(pool, cluster_work.count_here, range(6), name=named)) == [1] * 6


def test_an_error_has_its_cause_and_the_traceback_of_the_worker(pool: RayPool) -> None:
    found = results_in_order(pool, pool_work.raise_at_two, [0, 2, 3], name=named)
    assert next(found) == 0
    with pytest.raises(ValueError, match="two") as caught:
        next(found)
    assert isinstance(caught.value.__cause__, KeyError)
    assert "in raise_at_two" in "".join(caught.value.__cause__.__notes__)


@pytest.mark.parametrize("kill", ["item", "ray worker"])
def test_a_lost_worker_costs_time_alone(pool: RayPool, tmp_path: Path, kill: str) -> None:
    """Each result comes once; the item that was lost has begun twice, and no other one."""
    work = partial(cluster_work.killed_at_first, tmp_path, kill)
    outcomes = list(pool.submit(work, range(4), name=named))
    assert sorted((outcome.index, outcome.result) for outcome in outcomes) == [(0, 0), (1, 10), (2, 20), (3, 30)]
    assert (tmp_path / "1.begun").read_text() == "xx"
    assert (tmp_path / "3.begun").read_text() == "x"


def test_a_worker_that_is_lost_before_the_work_has_begun_is_no_attempt(pool: RayPool, tmp_path: Path) -> None:
    """Four losses, which is the number of attempts: while a machine is busy, a worker starts longer than an item takes."""
    work = cluster_work.KillsWhileLoading(tmp_path, 4)
    assert list(results_in_order(pool, work, [1], name=named)) == [2]
    assert (tmp_path / "loads").read_text() == "xxxxx"


def test_work_that_ends_its_process_is_not_tried_again(pool: RayPool) -> None:
    """As with local processes; one that is killed each time is given up."""
    with pytest.raises(WorkerDiedError, match=r"the process that had 0 died with exit code 7"):
        list(results_in_order(pool, pool_work.exit_at_once, [0], name=named))
    with pytest.raises(WorkerDiedError, match=r"the process that had 5 died with exit code -9"):
        list(results_in_order(pool, cluster_work.always_killed, [5], name=named))


def test_cancel_ends_the_processes(pool: RayPool, tmp_path: Path) -> None:
    """Nothing runs any more, and the pool takes other work."""
    submission = pool.submit(partial(pool_work.wait_for_ever, tmp_path), range(5), name=named)
    submission._feed()  # type: ignore[attr-defined]
    wait_until(lambda: len(list(tmp_path.glob("*.pid"))) == 2)
    submission.cancel()
    workers = [int(path.read_text()) for path in tmp_path.glob("*.pid")]
    assert sorted(path.name for path in tmp_path.glob("*.pid")) == ["0.pid", "1.pid"]
    wait_until(lambda: not any(Path(f"/proc/{worker}").exists() for worker in workers))
    assert list(results_in_order(pool, pool_work.double, [1], name=named)) == [2]


def test_classes_and_functions_of_a_script_are_sent_by_value(pool: RayPool) -> None:
    more = 7

    def work(item: int, report: Report) -> int:
        report(item)
        return item + more

    assert list(results_in_order(pool, work, [1, 2], name=named)) == [8, 9]


def test_work_that_cannot_be_sent_is_refused_in_one_line(pool: RayPool) -> None:
    with pytest.raises(TypeError) as caught:
        pool.submit(partial(pool_work.double, threading.Lock()), [1], name=named)
    assert str(caught.value) == (
        "the simulation cannot be sent to other machines (cannot pickle '_thread.lock' object): "
        "give it as module:factory, or as a class"
    )


def test_a_module_that_has_changed_is_named(pool: RayPool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker must not run other code than this process: here it reads the file after a change."""
    (tmp_path / "game_rules.py").write_text("def work(item, report):\n    return item\n")
    monkeypatch.syspath_prepend(tmp_path)
    import game_rules  # type: ignore[import-not-found]

    assert list(results_in_order(pool, game_rules.work, [4], name=named)) == [4]
    submission = pool.submit(game_rules.work, _changed_after(tmp_path / "game_rules.py"), name=named)
    error = next(submission).error
    assert isinstance(error, EngineError)
    assert str(error) == "a worker has another version of the module game_rules"


def _changed_after(path: Path) -> Iterator[int]:
    path.write_text("def work(item, report):\n    return 2 * item\n")
    yield 4


def test_a_module_that_a_worker_lacks_is_named(pool: RayPool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "lost_rules.py").write_text("def work(item, report):\n    return item\n")
    monkeypatch.syspath_prepend(tmp_path)
    import lost_rules  # type: ignore[import-not-found]

    submission = pool.submit(lost_rules.work, _removed(tmp_path / "lost_rules.py"), name=named)
    error = next(submission).error
    assert isinstance(error, EngineError)
    assert str(error).startswith("a worker cannot load the simulation (No module named 'lost_rules'): its code must be")


def _removed(path: Path) -> Iterator[int]:
    path.unlink()
    yield 4


def test_workers_have_the_environment_of_the_caller(
    pool: RayPool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Ray sets a number of threads, which can change what a simulation computes."""
    monkeypatch.chdir(tmp_path)
    found = results_in_order(pool, cluster_work.environment, ["OMP_NUM_THREADS"], name=named)
    assert list(found) == [os.environ.get("OMP_NUM_THREADS")]
    assert list(results_in_order(pool, cluster_work.folder_of_worker, [0], name=named)) == [str(tmp_path)]


def test_an_item_that_hangs_is_ended(pool: RayPool) -> None:
    """With the progress that it had reached."""
    quick = RayPool(pool.session, patience_s=0.5)
    with pytest.raises(WorkerStuckError, match="had 2") as caught:
        list(results_in_order(quick, pool_work.hang_at_two, [0, 2], name=named))
    assert caught.value.progress == 7
