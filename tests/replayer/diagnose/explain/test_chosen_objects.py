"""Two runs that call one method for different objects diverge at the line that chose them, and not in the method."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import pytest

import recorder
import replayer.commands.main

from oracle.command_lines import run

MODULE = """
import functools
import os


class Goat:
    def __init__(self, name):
        self.name, self.milk = name, 0

    def graze(self, grass):
        self.milk += grass


def is_wet(day):
    sky = os.environ.get("SKY", "grey")  # SKY
    return day > 1 and sky == "black"


class Farm:
    def __init__(self):
        self.hill, self.barn = [Goat("a"), Goat("b")], [Goat("c"), Goat("d")]
        self.day = 0

    def outside(self):
        return self.barn if is_wet(self.day) else self.hill

    def step(self, inputs):
        self.day += 1
        for goat in self.outside():
            goat.graze(self.day)


class Market(Farm):
    def step(self, inputs):
        self.day += 1
        goats = {goat.name: goat for goat in (*self.hill, *self.barn)}
        sold = "c" if os.environ.get("SKY") else "a"  # SOLD
        goats[sold].graze(self.day)


def pay(goat, coins):
    goat.milk -= coins


class Fair(Farm):
    def step(self, inputs):
        self.day += 1
        for goat in (*self.hill, *self.barn):
            goat.graze(2)
        best = self.barn[0] if os.environ.get("SKY") else self.hill[0]  # BEST
        pay(best, 1)


def sparing(function):
    calls = 0

    @functools.wraps(function)
    def called(self, food):
        nonlocal calls
        calls += 1
        if calls % 5 == 0:  # SPARED
            return None
        return function(self, food)

    return called


class Food:
    def __init__(self, weight):
        self.weight = weight

    def amount(self):
        return self.weight + 1


class Trough:
    def __init__(self):
        self.left, self.spared = 0, 0

    @sparing
    def fill(self, food):
        self.left += food.amount()
        return food

    def step(self, inputs):
        if self.fill(Food(2)) is None:
            self.spared += 1


def resting():
    calls = 0

    def serve(stall):
        nonlocal calls
        calls += 1
        if calls % 5 == 0:  # REST
            return
        stall.take(2)

    return serve


serve = resting()


class Stall:
    def __init__(self):
        self.coins = 0

    def take(self, coins):
        self.coins += coins

    def step(self, inputs):
        serve(self)
"""


def _explained(capsys: pytest.CaptureFixture[str], name: str, more: str = "") -> dict[str, Any]:
    assert run(replayer.commands.main.main, f"explain run.tape --json --sim goat_farm:{name} {more}") == 1
    explained: dict[str, Any] = json.loads(capsys.readouterr().out)
    return explained


def _line(mark: str) -> int:
    return next(number for number, text in enumerate(MODULE.splitlines(), 1) if f"# {mark}" in text)


@pytest.fixture(autouse=True)
def _module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    Path("goat_farm.py").write_text(MODULE)


def _record(name: str, ticks: int, interval: int = 100) -> None:
    made = getattr(importlib.import_module("goat_farm"), name)()
    recorded = recorder.record(made, "run.tape", step="step", trial_ms=0, keyframe_interval_ticks=interval)
    for _ in range(ticks):
        recorded.step(None)
    recorded.close()


@pytest.mark.parametrize(("name", "mark"), [("Farm", "SKY"), ("Market", "SOLD"), ("Fair", "BEST")])
def test_the_line_that_chose_the_objects(capsys: pytest.CaptureFixture[str], name: str, mark: str) -> None:
    """Of a loop over one of two lists, of a key, and of an argument; what changes the objects is on the way."""
    _record(name, 4)
    cause = _explained(capsys, name, "--env SKY=black")["cause"]
    assert cause["line"] == _line(mark)
    assert cause["way"][-1]["changed"].endswith(".milk")


def test_a_method_that_one_of_the_two_does_not_call_is_no_difference(capsys: pytest.CaptureFixture[str]) -> None:
    """It is neither absent in one nor of another kind: the count of the decorator is what differs."""
    _record("Trough", 9, interval=3)
    explained = _explained(capsys, "Trough")
    assert explained["cause"]["line"] == _line("SPARED")
    changed = [one["changed"] for one in explained["cause"]["way"]]
    assert changed == ["calls", "after its branch, self.left"]  # And not Food.amount.


def test_an_attribute_is_named_by_the_parameter_of_the_function(capsys: pytest.CaptureFixture[str]) -> None:
    """A function outside of the class has no self."""
    _record("Stall", 9, interval=3)
    cause = _explained(capsys, "Stall")["cause"]
    assert cause["line"] == _line("REST")
    assert [one["changed"] for one in cause["way"]][-1] == "after its branch, stall.coins"
