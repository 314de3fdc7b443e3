"""The messages of replay check for arguments that it cannot check."""

from __future__ import annotations

import contextlib
import os
import threading
import uuid
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import replayer.commands.main
from recorder import Recorder
from replayer.desync.object_diff import ObjectDiff
from replayer.desync.state_diff import FieldDifference
from replayer.diagnose.hidden_state import report
from replayer.diagnose.hidden_state.dependences import dependences

from oracle.command_lines import assert_one_line, run
from small_worlds import Walkers


def test_a_tape_in_place_of_a_scenario_is_named_as_a_tape(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    """Intact or with a damaged beginning; a file that is neither a tape nor a scenario is reported as invalid TOML."""
    monkeypatch.chdir(tmp_path)
    with Recorder("run.tape", Walkers()) as tape:
        tape.step([[0, 1]])
    Path("damaged.tape").write_bytes(b"xxxx" + Path("run.tape").read_bytes()[4:])
    Path("noise").write_bytes(b"\x89 is no text")

    for name in ("run.tape", "damaged.tape"):
        assert run(replayer.commands.main.main, f"check {name}") == 2
        assert_one_line(
            capsys.readouterr(), f"error: expected module:factory or a scenario, got the tape {name}; to verify"
        )
    assert run(replayer.commands.main.main, "check noise") == 2
    assert_one_line(capsys.readouterr(), "noise is not valid TOML")


OUTSIDE = """
import json, os, pickle, random, time, uuid
from sim import Field, Schema, State

class Still:
    def __init__(self):
        self.state = State(Schema(Field("tick", "i8"), Field("x", "f8")))
        self.wind = 0

    def step(self, inputs):
        self.state["tick"][()] += 1
        self.state["x"][()] = self.value()

class Clock(Still):
    def value(self):
        return time.time()

class Entropy(Still):
    def value(self):
        return uuid.uuid4().int % 1000

class Variable(Still):
    def value(self):
        return len(os.environ.get("PATH", ""))

class Address(Still):
    def value(self):
        self.wind = [object(), self.wind]
        return id(self.wind[0]) % 65536 / 16

class Attribute(Still):
    def value(self):
        self.wind += 1
        return self.wind

class Both(Still):
    def value(self):
        self.wind += 1
        return time.time() + self.wind * 1e6

class Names:
    def __init__(self):
        self.names, self.text = {8, 0, 16, 24}, ""

    def step(self, inputs):
        self.text = ",".join(map(str, self.names))

    def save(self):
        return json.dumps([sorted(self.names), self.text]).encode()

    def load(self, saved):
        names, self.text = json.loads(saved)
        self.names = set(names)

class Forgetful:
    def __init__(self):
        self.x = self.speed = 0

    def step(self, inputs):
        self.speed += 1
        self.x += self.speed

    def save(self):
        return json.dumps({"x": self.x, "speed": self.speed}).encode()

    def load(self, saved):
        self.x = json.loads(saved)["x"]

class Pickled:
    hidden = 0

    def __init__(self):
        self.x, self.word = 0, "a word"

    def step(self, inputs):
        type(self).hidden += 1
        self.x += self.hidden
        self.word = "".join(["a", " word"])

    def save(self):
        return pickle.dumps([self.word, "a word", self.x])

    def load(self, saved):
        self.word, _, self.x = pickle.loads(saved)
"""


@pytest.mark.parametrize(
    ("name", "verdict"),
    [
        ("Clock", "READS A CLOCK"),
        ("Entropy", "READS RANDOM NUMBERS OF THE SYSTEM"),
        ("Variable", "READS ENVIRONMENT VARIABLES"),
        ("Address", "DEPENDS ON MEMORY ADDRESSES"),
        ("Attribute", "HIDDEN STATE"),
        ("Both", "HIDDEN STATE"),
        ("Names", "USES THE ORDER OF A SET"),
        ("Forgetful", "LOAD LOSES STATE"),
        ("Pickled", "HIDDEN STATE"),
    ],
)
def test_only_what_a_restore_loses_is_called_hidden_state(
    name: str, verdict: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    """The first line says what was proved: a clock is no state, and neither is an address."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    Path(f"outside_{name}.py").write_text(OUTSIDE)
    assert run(replayer.commands.main.main, f"check outside_{name}:{name} --ticks 20") == 1
    printed = capsys.readouterr().out
    assert printed.startswith(f"outside_{name}:{name}: {verdict}, first seen at tick ")


def ended_threads() -> list[int]:
    """The numbers of threads in the order in which they end."""
    ended: list[int] = []
    threads = [threading.Thread(target=ended.append, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return ended


@pytest.mark.parametrize(("end", "names"), [(list, ["the order in which threads end"]), (sorted, [])])
def test_the_order_of_threads_is_proved_by_two_orders(end: Callable[[list[int]], list[int]], names: list[str]) -> None:
    """Even where they end as they were started in each run; sorted, nothing depends on it."""
    assert [one.name for one in dependences(lambda: end(ended_threads()), lambda _: False)] == names


def sum_of_threads(lock: Any) -> int:
    """What two threads add to one number, each of which may write over what the other one has added meanwhile."""
    total = [0]

    def work(number: int) -> None:
        for _ in range(200):
            with lock:
                seen = total[0]
                os.sched_yield()
                total[0] = seen + number

    threads = [threading.Thread(target=work, args=(number,)) for number in (1, 100)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return total[0]


@pytest.mark.parametrize(
    ("lock", "names"), [(contextlib.nullcontext, ["threads that run at the same time"]), (threading.Lock, [])]
)
def test_a_race_of_threads_is_proved_by_one_end_of_each_order(lock: Callable[[], Any], names: list[str]) -> None:
    """With a lock around it, nothing is lost."""
    held = lock()
    assert [one.name for one in dependences(lambda: sum_of_threads(held), lambda _: False)] == names


def test_what_ends_differently_each_time_is_not_proved() -> None:
    """One of the two sets would have to end in one way."""
    assert dependences(lambda: (uuid.uuid4(), ended_threads()), lambda _: False) == []


@pytest.mark.parametrize(("found", "left_out"), [([], 0), (["x"], 0), (["x"], 7), (["x"], None)])
def test_facts_for_programs_have_a_field_or_a_value_that_differs(
    monkeypatch: pytest.MonkeyPatch, found: list[str], left_out: int | None
) -> None:
    """The field where only the saved form differs; and how many values are not listed."""
    values: list[Any] = [SimpleNamespace(path=path, kind="value", first="1", second="2") for path in found]
    diff = ObjectDiff(values, left_out != 0, {"objects"}, left_out)
    monkeypatch.setattr(report, "compare_objects", lambda _: diff)
    difference = FieldDifference("objects", 1, [(0,)], np.array([1]), np.array([2]))
    finding = report.SyncFinding(2, 1, report.FRESH, 1, 2, [difference], [])
    (facts,) = report.report_facts(report.SyncReport(3, 1, [finding], [], []))["findings"]
    assert ([one["field"] for one in facts["fields"]], [one["path"] for one in facts["values"]]) == (
        [] if found else ["objects"],
        found,
    )
    assert facts["values_left_out"] == left_out
