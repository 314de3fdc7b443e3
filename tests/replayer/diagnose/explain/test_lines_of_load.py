"""What load() does not give back is named with its line, and what was not seen is not called a cause."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import replayer.commands.main
from recorder import Recorder

from oracle.command_lines import run

MODULE = """
import json
import threading
from collections import deque

import numpy as np


class Gun:
    def __init__(self, target):
        self.target = target


class Fort:
    def __init__(self):
        self.guns, self.shots = [Gun(n) for n in range(3)], np.zeros(4, np.int64)

    def step(self, inputs):
        for gun in self.guns:
            if gun.target is not None:
                self.shots[gun.target] += 1
            gun.target = None if gun.target is not None else 2

    def save(self):
        return {"targets": np.array([-1 if g.target is None else g.target for g in self.guns]), "shots": self.shots}

    def load(self, saved):
        self.shots = np.array(saved["shots"])
        for gun, target in zip(self.guns, saved["targets"], strict=True):
            gun.target = max(int(target), 0)  # Fort


class Houses:
    def __init__(self):
        self.houses, self.day = {"a": 1, "b": 1}, 0

    def step(self, inputs):
        self.day += len(self.houses)
        self.houses.pop("a", None)

    def save(self):
        return json.dumps([self.houses, self.day]).encode()

    def load(self, saved):
        houses, self.day = json.loads(saved)
        self.houses.update(houses)  # Houses


class Stack:
    def __init__(self):
        self.stacks, self.sum = [[3, 1], [9, 2]], 0

    def step(self, inputs):
        highest = max(self.stacks, key=len)
        self.sum = self.sum * 2 + highest[-1]  # Stack
        self.stacks[0].append(self.sum % 5)

    def save(self):
        return json.dumps([[sorted(stack) for stack in self.stacks], self.sum]).encode()

    def load(self, saved):
        self.stacks, self.sum = json.loads(saved)


class Line:
    def __init__(self, name, waiting, served=0):
        self.name, self.waiting, self.served = name, deque(waiting), served


class Shop:
    def __init__(self):
        self.lines, self.sold, self.hours = [Line("bread", [3, 8, 5]), Line("milk", [4, 6, 9])], 0, 0

    def step(self, inputs):
        self.hours += 1
        for line in self.lines:
            amount = line.waiting[0]  # reads
            self.sold += amount + self.hours
            line.served += 1
            line.waiting.rotate(1 if line.name == "bread" else 2)

    def save(self):
        return json.dumps([[[one.name, sorted(one.waiting), one.served] for one in self.lines], self.sold, self.hours]).encode()

    def load(self, saved):
        lines, self.sold, self.hours = json.loads(saved)
        self.lines = []
        for name, waiting, served in lines:
            line = Line(name, waiting)  # makes
            line.served = served
            self.lines.append(line)


class Engine:
    def __init__(self):
        self.h = 0.5


def pull(body):
    return body * 0.5 + 1.0


class Comet:
    def __init__(self):
        self.body, self.engine = np.array([1.0, 2.0]), Engine()

    def step(self, inputs):
        self.body = pull(self.body + self.engine.h)  # Comet
        self.engine.h *= 0.9

    def save(self):
        return {"body": self.body}

    def load(self, saved):
        self.body = np.array(saved["body"])


class Threads:
    made = 0

    def __init__(self):
        self.dug = 0

    def dig(self):
        self.dug += threading.get_native_id()

    def step(self, inputs):
        worker = threading.Thread(target=self.dig)
        worker.start()
        worker.join()

    def save(self):
        return {"dug": np.int64(self.dug)}

    def load(self, saved):
        self.dug = int(saved["dug"])
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A folder with the module."""
    (tmp_path / "loading_lines.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    yield
    sys.modules.pop("loading_lines", None)


def explained(name: str, capsys: Any, tick: int, *, as_json: bool = True) -> Any:
    """What explain says of a tick of a tape with keyframes every four ticks."""
    made = getattr(importlib.import_module("loading_lines"), name)()
    with Recorder("run.tape", made, trial_ms=0, keyframe_interval_ticks=4) as tape:
        for _ in range(8):
            tape.step()
    json_option = "--json" if as_json else ""
    line = f"explain run.tape --sim loading_lines:{name} --tick {tick} {json_option}"
    assert run(replayer.commands.main.main, line) == 1
    printed = capsys.readouterr().out
    return json.loads(printed) if as_json else printed


def marked(name: str) -> int:
    """The number of the marked line."""
    return MODULE[: MODULE.index(f"  # {name}")].count("\n") + 1


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", ["Fort", "Houses"])
def test_the_line_of_load_that_loses_a_value_is_the_cause(name: str, capsys: Any) -> None:
    """Shown by a test: save() right after load() returns other values, of fields and of texts of JSON."""
    printed = explained(name, capsys, 5 if name == "Houses" else 2, as_json=False)

    assert "cause: load() does not give back what save() saved\n" in printed
    assert f"  loading_lines.py:{marked(name)} in {name}.load\n" in printed
    assert "  the step reads it first in\n" in printed
    assert "was loaded, save() then returns" in printed
    assert "outside the state" not in printed


def test_a_line_that_only_fetches_an_object_is_not_the_cause(capsys: Any) -> None:
    """The line that reads the part that differs is; and load() is told to have given it, since save() lost the order."""
    printed = explained("Stack", capsys, 5, as_json=False)

    assert f"  loading_lines.py:{marked('Stack')} in Stack.step\n" in printed.partition("cause:")[2][:200]
    assert "this line reads state that a save and a load do not bring back" in printed
    assert "  B has it from load():\n" in printed


def test_the_line_that_reads_a_part_is_named_and_the_one_of_load_that_made_it(capsys: Any) -> None:
    """Not the next one, which reads what that made; nor the one that puts the object with the part into a list."""
    printed = explained("Shop", capsys, 5, as_json=False)

    cause, _, proved = printed.partition("proved: ")
    assert f"save and a load do not bring back\n  loading_lines.py:{marked('reads')} in Shop.step\n" in cause
    assert f"  B has it from load():\n  loading_lines.py:{marked('makes')} in Shop.load\n" in cause
    assert "Shop.lines[…].waiting (order of a deque): " in proved


def test_an_array_as_the_first_argument_of_a_function_is_seen(capsys: Any) -> None:
    """It is no object whose attributes are looked at in place of its elements."""
    cause = explained("Comet", capsys, 5)["cause"]

    assert cause["line"] == marked("Comet")
    assert [value["name"] for value in cause["outside"]] in (["self.engine"], ["self.h"])


@pytest.mark.seldom(0.15)
def test_lines_of_other_threads_are_not_seen_and_only_what_was_tested_is_claimed(capsys: Any) -> None:
    """The line that starts the thread is where a difference is seen first; it is not called the cause."""
    printed = explained("Threads", capsys, 1, as_json=False)

    assert "cause: the numbers of threads, by threading.get_native_id (read at loading_lines.py:" in printed
    assert "the first value seen to differ is of this line" in printed
