"""Pools of processes: the order in which their results come is tested, and pools that have one order are not accused."""

from __future__ import annotations

import importlib
import json
import multiprocessing
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from multiprocessing.pool import ThreadPool
from pathlib import Path
from typing import Any

import pytest

import recorder
import replayer.commands.main
from recorder.processes.fork_call import in_a_copy
from replayer.desync.stand_ins import use_stand_ins

from oracle.command_lines import run

PROGRAM = """
import multiprocessing
import random
import zlib
from concurrent.futures import ProcessPoolExecutor, as_completed

POOL = None


def weighed(number):
    zlib.crc32(bytes(random.randrange(20_000_000)))
    return number * 5 % 7 + 1


class Scale:
    def __init__(self):
        self.weight = 1

    def step(self, _=None):
        with ProcessPoolExecutor(2) as pool:
            for done in as_completed([pool.submit(weighed, one) for one in range(4)]):
                self.weight = (self.weight * 31 + done.result()) % 100_003


class SoundScale(Scale):
    def step(self, _=None):
        global POOL
        POOL = POOL or multiprocessing.get_context("fork").Pool(2)
        for value in POOL.imap(weighed, range(4)):
            self.weight = (self.weight * 31 + value) % 100_003


class KeptScale(Scale):
    def step(self, _=None):
        global POOL
        POOL = POOL or multiprocessing.get_context("fork").Pool(2)
        for value in POOL.imap_unordered(weighed, range(4)):
            self.weight = (self.weight * 31 + value) % 100_003
"""


def squared(number: int) -> int:
    """The task of the pools."""
    return number * number


def _fails(number: int) -> int:
    if number == 1:
        raise ValueError(number)
    return number


def _completed(workers: int) -> list[int]:
    with ProcessPoolExecutor(workers, multiprocessing.get_context("fork")) as pool:
        return [one.result() for one in as_completed([pool.submit(squared, number) for number in range(4)])]


def _completed_in_threads(workers: int) -> list[int]:
    with ThreadPoolExecutor(workers) as pool:
        ended: list[int] = []
        for number in range(4):
            pool.submit(ended.append, number**2)
    return ended


def _unordered(workers: int) -> list[int]:
    with multiprocessing.get_context("fork").Pool(workers) as pool:
        return list(pool.imap_unordered(squared, range(4)))


def _unordered_in_threads(workers: int) -> list[int]:
    with ThreadPool(workers) as pool:
        return list(pool.imap_unordered(squared, range(4)))


def _called_back(workers: int) -> list[int]:
    ended: list[int] = []
    with multiprocessing.get_context("fork").Pool(workers) as pool:
        results = [pool.apply_async(squared, (number,), callback=ended.append) for number in range(4)]
        assert [one.get() for one in results] == [0, 1, 4, 9]
    return ended


def _in_order(workers: int) -> list[int]:
    with ProcessPoolExecutor(workers, multiprocessing.get_context("fork")) as pool:
        return list(pool.map(squared, range(4)))


def _ended(work: Callable[[int], list[int]], workers: int, number: int) -> list[int]:
    def ended() -> dict[str, Any]:
        use_stand_ins(["threads"], lambda path: path == __file__, number)
        return {"ended": work(workers)}

    return list(in_a_copy(ended)["ended"])


POOLS = [_completed, _completed_in_threads, _unordered, _unordered_in_threads, _called_back]


@pytest.mark.parametrize("work", POOLS)
def test_results_come_in_two_orders(work: Callable[[int], list[int]]) -> None:
    """With one set of stand-ins in the order of the tasks, with the other one in the reverse order."""
    assert _ended(work, 2, 0) == [0, 1, 4, 9]
    assert _ended(work, 2, 1) == [9, 4, 1, 0]


@pytest.mark.parametrize("work", POOLS)
def test_a_pool_of_one_worker_has_one_order(work: Callable[[int], list[int]]) -> None:
    """It cannot be another one: the state does not depend on it."""
    assert _ended(work, 1, 0) == _ended(work, 1, 1) == [0, 1, 4, 9]


def test_results_that_are_asked_in_order_come_in_order() -> None:
    """Whatever the order in which the tasks end."""
    assert _ended(_in_order, 2, 0) == _ended(_in_order, 2, 1) == [0, 1, 4, 9]


def test_an_error_of_a_task_is_raised_in_its_turn() -> None:
    """The results after it come as well, as those of the pool itself do."""

    def asked() -> dict[str, Any]:
        use_stand_ins(["threads"], lambda path: path == __file__, 0)
        found: list[str] = []
        with multiprocessing.get_context("fork").Pool(2) as pool:
            results = pool.imap_unordered(_fails, range(3))
            for _ in range(3):
                try:
                    found.append(str(results.next(1)))
                except ValueError as error:
                    found.append(repr(error))
        return {"found": found}

    assert in_a_copy(asked)["found"] == ["0", "ValueError(1)", "2"]


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("Scale", "the order in which processes end (started at weighing.py:21)"),
        ("KeptScale", "the order in which processes end (started at weighing.py:36, weighing.py:37)"),
        ("SoundScale", None),
    ],
)
def test_the_order_of_processes_is_named_where_the_state_depends_on_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str, told: str | None
) -> None:
    """Where the pool is made in the step, and where the module keeps it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    Path("weighing.py").write_text(PROGRAM)
    sys.modules.pop("weighing", None)
    kind = getattr(importlib.import_module("weighing"), name)
    with recorder.record(kind(), "run.tape", step="step", quiet=True, trial_ms=0) as scale:
        scale.step(None)
    run(replayer.commands.main.main, f"explain run.tape --tick 1 --json --sim weighing:{name}")
    facts = json.loads(capsys.readouterr().out)
    assert (facts["depends_on"] or facts["differs_by"]) == told
