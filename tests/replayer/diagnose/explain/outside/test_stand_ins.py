"""Stand-ins for addresses, clocks and chance: the same in each run, and named where they make two variants equal."""

from __future__ import annotations

import importlib
import json
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import recorder
import replayer.commands.main
from recorder.processes.fork_call import in_a_copy
from replayer.desync.stand_ins import use_stand_ins

from oracle.command_lines import run

PROGRAMS = """
import datetime
import os
import random
import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor, as_completed
from time import perf_counter as measured


class Mouse:
    pass


def asked():
    mice = [Mouse() for _ in range(3)]
    order = [id(mouse) % 4096 for mouse in mice] + [hash(mouse) % 4096 for mouse in mice] + [id(mice[0]) % 4096, hash(7)]
    clock = [time.time(), measured(), time.thread_time_ns(), str(datetime.datetime.now()), str(datetime.date.today())]
    return [order, clock, os.urandom(4).hex(), str(uuid.uuid4()), random.random()]


class Ties:
    def __init__(self):
        self.last = 0

    def step(self, inputs):
        mice = [Mouse() for _ in range(30)]
        ranked = sorted(range(30), key=lambda number: id(mice[number]) * 7919 % 65521)  # Ties
        self.last = ranked[0] * 30 + ranked[1]


class Threads:
    def __init__(self):
        self.firsts = []

    def step(self, inputs):
        ended = []
        threads = [threading.Thread(target=ended.append, args=(number,)) for number in range(3)]  # Threads
        for thread in threads:
            thread.start()  # Started
        for thread in threads:
            thread.join()
        self.firsts = ended if type(self).in_order else sorted(ended)

    in_order = True


class SoundThreads(Threads):
    in_order = False


class Careless:  # Each thread may write over what another one has added meanwhile.

    always = True

    def __init__(self):
        self.sum = 0

    def add(self, number):
        seen = self.sum
        for _ in range(40 if self.always else 1):
            os.sched_yield()
        self.sum = seen + number

    def work(self, number):
        for _ in range(60):
            self.add(number)

    def step(self, inputs):
        threads = [threading.Thread(target=self.work, args=(number,)) for number in (1, 100)]
        for thread in threads:
            thread.start()  # Raced
        for thread in threads:
            thread.join()


class SeldomCareless(Careless):  # By chance, mostly one thread ends before the other one begins.
    always = False


class Pooled(Careless):
    def step(self, inputs):
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(self.work, (1, 100)))  # Pooled


class Locked(Careless):
    always = False

    def add(self, number):
        with LOCK:
            super().add(number)


LOCK = threading.Lock()


def tasks():
    with ThreadPoolExecutor(2) as pool:
        jobs = [pool.submit(pow, number, 2) for number in range(5)]
        raised = pool.submit(int, "x")
        ended = [job.result() for job in as_completed(jobs)]
        return ended, list(pool.map(abs, [-1, -2])), repr(raised.exception())


class Hasty:
    def __init__(self):
        self.best = None

    def step(self, inputs):
        best, end = None, time.monotonic_ns() + (10**12 if os.environ.get("PATIENT") else 30_000_000)
        threading.Event().wait(0.04)
        while time.monotonic_ns() < end and best is None:  # Hasty
            best = [1]
        self.best = best[0]
"""


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module of all programs, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    Path("differing_programs.py").write_text(PROGRAMS)
    monkeypatch.delitem(sys.modules, "differing_programs", raising=False)
    return importlib.import_module("differing_programs")


def test_stand_ins_give_the_same_in_each_run(programs: Any) -> None:
    """Of each kind; without them none is the same. Equal objects get equal numbers, and other hashes stay."""

    def asked() -> dict[str, Any]:
        use_stand_ins(
            ("identity", "clock", "entropy", "generator"), lambda path: path.endswith("differing_programs.py")
        )
        return {"first": programs.asked()}

    first, second = (in_a_copy(asked)["first"] for _ in range(2))
    assert first == second
    order, clock, *_ = first
    assert order[6:] == [order[0], hash(7)]
    assert len(set(order[:3])) == 3
    assert clock[1] > clock[0]
    assert clock[4] == "2020-09-13"


@pytest.mark.long
def test_addresses_that_decide_are_named(programs: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """The line that asks for them, too."""
    with recorder.record(programs.Ties(), "run.tape", step="step", quiet=True, trial_ms=0) as game:
        for _ in range(8):
            game.step(None)
    assert run(replayer.commands.main.main, "explain run.tape --json --sim differing_programs:Ties") == 1
    facts = json.loads(capsys.readouterr().out)
    line = next(number for number, text in enumerate(PROGRAMS.splitlines(), 1) if text.endswith("# Ties"))
    assert facts["differs_by"] == f"the addresses of objects, by id() (read at differing_programs.py:{line})"


def test_threads_end_in_the_order_of_the_set(programs: Any) -> None:
    """Tasks of a pool and other threads, forwards and backwards; results and errors are those of the tasks."""

    def ended(number: int) -> dict[str, Any]:
        use_stand_ins(["threads"], lambda path: path.endswith("differing_programs.py"), number)
        threads = programs.Threads()
        threads.step(None)
        return {"threads": threads.firsts, "tasks": programs.tasks()}

    first, second = (in_a_copy(lambda number=number: ended(number)) for number in (0, 1))  # type: ignore[misc]
    assert first["threads"] == [0, 1, 2] == second["threads"][::-1]
    assert list(first["tasks"][0]) == [0, 1, 4, 9, 16] == list(second["tasks"][0])[::-1]
    assert first["tasks"][1:] == second["tasks"][1:]
    assert list(first["tasks"][1]) == [1, 2]
    assert first["tasks"][2].startswith("ValueError")


@pytest.mark.parametrize("number", [0, 1])
def test_a_cancelled_task_is_not_run(number: int) -> None:
    """It may be cancelled before its turn; what then asks for others is not disturbed."""

    def ended() -> dict[str, Any]:
        use_stand_ins(["threads"], lambda _: False, number)
        ran: list[str] = []
        with ThreadPoolExecutor(1) as pool:
            first, other = pool.submit(ran.append, "first"), pool.submit(ran.append, "other")
            is_cancelled = other.cancel()
            first.result()
        return {"ran": sorted(ran), "is_cancelled": is_cancelled, "says": other.cancelled()}

    is_cancelled = bool(number)  # Only in the reverse order it had no turn yet.
    ran = ["first"] if is_cancelled else ["first", "other"]
    assert in_a_copy(ended) == {"ran": ran, "is_cancelled": is_cancelled, "says": is_cancelled}


@pytest.mark.seldom(0.15)
@pytest.mark.parametrize(("name", "depends"), [("Threads", True), ("SoundThreads", False)])
def test_the_order_of_threads_is_named_where_the_state_depends_on_it(
    programs: Any, capsys: pytest.CaptureFixture[str], name: str, *, depends: bool
) -> None:
    """Even where every run ends them in one order, by chance."""
    with recorder.record(getattr(programs, name)(), "run.tape", step="step", quiet=True, trial_ms=0) as game:
        game.step(None)
    run(replayer.commands.main.main, f"explain run.tape --tick 1 --json --sim differing_programs:{name}")
    facts = json.loads(capsys.readouterr().out)
    line = next(number for number, text in enumerate(PROGRAMS.splitlines(), 1) if text.endswith("# Started"))
    told = f"the order in which threads end (started at differing_programs.py:{line})"
    assert (facts["depends_on"] or facts["differs_by"]) == (told if depends else None)


RACED = "threads that run at the same time (started at differing_programs.py:{})"
POOLED = "tasks of a pool that run at the same time, or in which of its threads each one runs (started at differing_programs.py:{})"


@pytest.mark.seldom(0.15)
@pytest.mark.parametrize(
    ("name", "mark", "told"),
    [
        ("Careless", "Raced", RACED),
        ("SeldomCareless", "Raced", RACED),
        ("Pooled", "Pooled", POOLED),
        ("Locked", "", None),
    ],
)
def test_a_race_is_not_called_an_order_of_threads(
    programs: Any, capsys: pytest.CaptureFixture[str], name: str, mark: str, told: str | None
) -> None:
    """One after another, in each order, the threads give one state: what one of them writes meanwhile decides."""
    with recorder.record(getattr(programs, name)(), "run.tape", step="step", quiet=True, trial_ms=0) as game:
        game.step(None)
    run(replayer.commands.main.main, f"explain run.tape --tick 1 --json --sim differing_programs:{name}")
    facts = json.loads(capsys.readouterr().out)
    line = next((number for number, text in enumerate(PROGRAMS.splitlines(), 1) if text.endswith(f"# {mark}")), 0)
    assert (facts["depends_on"] or facts["differs_by"]) == (told.format(line) if told else None)


@pytest.mark.long
def test_a_clock_that_makes_a_step_raise_is_named(
    programs: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A search that ends without a result, because its time is up before it begins."""
    with monkeypatch.context() as patient:
        patient.setenv("PATIENT", "1")
        with recorder.record(programs.Hasty(), "run.tape", step="step", quiet=True, trial_ms=0) as game:
            for _ in range(3):
                game.step(None)
    assert run(replayer.commands.main.main, "explain run.tape --json --sim differing_programs:Hasty") == 1
    assert json.loads(capsys.readouterr().out)["differs_by"].startswith(
        "clocks, by time.monotonic_ns (read at differing"
    )
