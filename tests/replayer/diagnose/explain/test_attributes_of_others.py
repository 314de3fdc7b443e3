"""A line that reads or changes an attribute of another object: which object it is, of several of one class, is known."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

from recorder import Recorder
from replayer.diagnose.explain.explain import explain_tape

MODULE = """
import json


class Creep:
    def __init__(self, number):
        self.health = 20 + number

    def alive(self):
        return self.health > 0


class Tower:
    def __init__(self):
        self.kills, self.level = 0, 1

    def hit(self):
        return 4 * self.level  # Hits

    def shoot(self, creep):
        if creep.alive():
            creep.health -= self.hit()
            if creep.health <= 0:
                self.kills += 1


class Market:
    def __init__(self):
        self.rate, self.sales = 1, 0

    def sell(self, count):
        self.sales += count
        self.rate = self.rate % 5 + 1


class Board:
    def __init__(self):
        self.creeps, self.tower, self.money = [Creep(n) for n in range(4)], Tower(), 0
        self.near, self.far = Market(), Market()

    def step(self, inputs):
        for creep in self.creeps:
            self.tower.shoot(creep)
        self.near.sell(1)
        self.far.sell(2)
        self.money += 3 * self.far.rate  # Earns

    def save(self):
        sales = [self.near.sales, self.near.rate, self.far.sales]
        return json.dumps([[one.health for one in self.creeps], self.tower.kills, self.money, sales]).encode()

    def load(self, saved):
        healths, self.tower.kills, self.money, sales = json.loads(saved)
        for creep, health in zip(self.creeps, healths):
            creep.health = health
        self.near.sales, self.near.rate, self.far.sales = sales
"""


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "towers.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "towers", raising=False)
    importlib.invalidate_caches()


def line_of(comment: str) -> int:
    return next(number for number, text in enumerate(MODULE.splitlines(), 1) if text.endswith(f"# {comment}"))


def record(keyframes: int) -> None:
    with Recorder(
        "run.tape", importlib.import_module("towers").Board(), keyframe_interval_ticks=keyframes, trial_ms=0
    ) as tape:
        for _ in range(8):
            tape.step(None)


def test_an_object_that_another_one_changes_leads_to_the_edited_line() -> None:
    """Four creeps are hit, by a tower whose method was edited: their health differs first, and then who is dead."""
    record(8)
    Path("old").mkdir()
    Path("old/towers.py").write_text(MODULE.replace("return 4 *", "return 5 *"))
    make = importlib.import_module("towers").Board
    cause = explain_tape("run.tape", tick=5, sim="towers:Board", factory=make, code=str(Path("old").absolute())).cause

    assert cause is not None
    assert (cause.kind, cause.place.line) == ("edited", line_of("Hits"))


def test_hidden_state_of_one_of_two_objects_is_named_as_the_line_has_it() -> None:
    """The rate of one market is saved, and that of the other is not."""
    record(4)
    make = importlib.import_module("towers").Board
    explanation = explain_tape("run.tape", tick=5, sim="towers:Board", factory=make)

    assert explanation.cause is not None
    assert explanation.cause.kind == "outside"
    assert explanation.cause.place.function in ("Market.sell", "Board.step")
    assert explanation.given is not None
    assert [one.name for one in explanation.given.proved] == ["Board.far.rate"]
