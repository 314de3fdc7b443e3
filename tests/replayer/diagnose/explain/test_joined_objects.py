"""What load() splits is named with the line of load(), if joined again it gives the state of the run that loaded nothing."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from recorder import Recorder
from replayer.diagnose.explain.answer.explanation import Explanation
from replayer.diagnose.explain.explain import explain_tape
from replayer.report.before_step import before_step_lines

MODULE = """
import json


class Town:
    def __init__(self):
        purse = {"money": 500}
        self.purses, self.spent = [purse, purse, {"money": 90}], 0

    def step(self, inputs):
        for number, purse in enumerate(self.purses):
            purse["money"] -= 2 + number
            self.spent += purse["money"] % 7

    def save(self):
        return json.dumps([self.purses, self.spent]).encode()

    def load(self, saved):
        self.purses, self.spent = json.loads(saved)


class Station:
    def __init__(self, belt):
        self.belt, self.count = belt, 0


class Depot:
    def __init__(self):
        belt = []
        self.packer, self.loader, self.now = Station(belt), Station(belt), 0

    def step(self, inputs):
        self.now += 1
        if self.now == 8:
            self.packer.belt.append(3)
        while self.loader.belt:
            self.loader.count += self.loader.belt.pop()

    def save(self):
        stations = [[one.belt, one.count] for one in (self.packer, self.loader)]
        return json.dumps([stations, self.now]).encode()

    def load(self, saved):
        stations, self.now = json.loads(saved)
        self.packer = Station(stations[0][0])
        self.packer.count = stations[0][1]
        self.loader = Station(list(self.packer.belt))
        self.loader.count = stations[1][1]


class Cook:
    def __init__(self, name, tired):
        self.name, self.tired = name, tired

    def bake(self):
        self.tired += 1


class Kitchen:
    def __init__(self):
        self.cooks = [Cook(name, 0) for name in "abc"]
        self.tasks = [cook.bake for _ in range(4) for cook in self.cooks]

    def step(self, inputs):
        self.tasks.pop(0)()

    def save(self):
        tasks = [task.__self__.name for task in self.tasks]
        return json.dumps([[vars(cook) for cook in self.cooks], tasks]).encode()

    def load(self, saved):
        cooks, tasks = json.loads(saved)
        by_name = {cook.name: cook for cook in self.cooks}
        self.tasks = [by_name[name].bake for name in tasks]
        self.cooks = [Cook(**cook) for cook in cooks]


class Forgetful(Town):
    rate = 1

    def step(self, inputs):
        super().step(inputs)
        self.rate += 1
        self.spent += self.rate


def make_both():
    return Forgetful()
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A folder with the module, which this process and others import."""
    (tmp_path / "joined_town.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    sys.modules.pop("joined_town", None)


def explained(name: str, tick: int | None = None) -> Explanation:
    """Record 12 ticks, and explain one of them, by default the first divergent one."""
    factory = getattr(importlib.import_module("joined_town"), name)
    with Recorder("run.tape", factory(), keyframe_interval_ticks=5, trial_ms=0) as tape:
        for _ in range(12):
            tape.step()
    return explain_tape("run.tape", tick=tick, sim=f"joined_town:{name}", factory=factory)


def test_the_line_of_load_that_splits_objects_is_named() -> None:
    """With the purses joined again, the step gives what it gives where nothing was loaded."""
    explanation = explained("Town")
    cause = explanation.cause
    assert explanation.tick == 1
    assert cause is not None
    assert (cause.kind, cause.place.text) == ("split", "self.purses, self.spent = json.loads(saved)")


def test_the_line_is_the_one_that_makes_the_second_object() -> None:
    """Also where both are empty: until then the other name still leads to the object of the instance as it was made."""
    explanation = explained("Depot")
    cause = explanation.cause
    assert explanation.tick == 8
    assert cause is not None
    assert (cause.kind, cause.place.text) == ("split", "self.loader = Station(list(self.packer.belt))")


def test_the_line_that_makes_new_objects_is_named_where_the_old_ones_cannot_be_put_in() -> None:
    """A method that is kept holds its object: no name leads to that which could be given another one."""
    explanation = explained("Kitchen", tick=6)
    cause = explanation.cause
    assert cause is not None
    assert (cause.kind, cause.place.text) == ("identity", "self.tasks.pop(0)()")
    assert cause.loaded_at is not None
    assert cause.loaded_at.text == "self.cooks = [Cook(**cook) for cook in cooks]"
    pairs = "Kitchen.cooks[…] and Kitchen.tasks[…].__self__: one object in A, two in B (7 pairs; the first: "
    assert any(pairs in line for line in before_step_lines(explanation))


def test_what_is_joined_without_that_effect_is_not_called_the_cause() -> None:
    """The step also reads an attribute that load() leaves as it was, at a tick after a keyframe."""
    explanation = explained("make_both", tick=6)
    assert explanation.cause is None or explanation.cause.kind != "split"
