"""Functions that a step puts in the place of others are hidden state, and named; edited ones are not."""

from __future__ import annotations

import importlib
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import recorder
from replayer.diagnose.explain.answer.explanation import Explanation
from replayer.diagnose.explain.explain import explain_tape

MODULE = """
import functools
import swapped_rules


class Boss:
    def attack(self):
        return 2


def furious(self):
    return 5


@functools.singledispatch
def greet(person):
    return 1


def fee(weight, rate=3):
    return weight * rate


class Patched:
    def __init__(self):
        self.boss, self.health, self.day = Boss(), 100, 0

    def step(self):
        self.day += 1
        if self.day == 7:
            Boss.attack = furious
        self.health -= self.boss.attack()  # Patched


class Swapped:
    def __init__(self):
        self.coins, self.day = 0, 0

    def step(self):
        self.day += 1
        if self.day == 7:
            swapped_rules.toll = swapped_rules.bribed
        self.coins += swapped_rules.toll(4)  # Swapped


class Registered:
    def __init__(self):
        self.mood, self.day = 0, 0

    def step(self):
        self.day += 1
        if self.day == 7:
            greet.register(int, lambda _: 9)
        self.mood += greet(3)  # Registered


class Default:
    def __init__(self):
        self.paid = 0

    def step(self):
        self.paid += fee(4)
"""
RULES = """
def toll(weight):
    return weight

def bribed(weight):
    return 1
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A folder with the modules, which this process and others import."""
    (tmp_path / "swapped_game.py").write_text(MODULE)
    (tmp_path / "swapped_rules.py").write_text(RULES)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    for name in ("swapped_game", "swapped_rules"):
        sys.modules.pop(name, None)


def explained(name: str, **options: Any) -> Explanation:
    """Record 20 ticks, and explain the first divergent one as a new process does."""
    game = recorder.record(
        getattr(importlib.import_module("swapped_game"), name)(),
        "run.tape",
        step="step",
        keyframe_interval_ticks=5,
        trial_ms=0,
        quiet=True,
    )
    for _ in range(20):
        game.step()
    game.close()
    for module in ("swapped_game", "swapped_rules"):
        sys.modules.pop(module)
    if options:
        shutil.rmtree(
            "__pycache__", ignore_errors=True
        )  # The edited file has the same size, and may have the same time.
        Path("swapped_game.py").write_text(MODULE.replace("rate=3", "rate=4"))
    factory = getattr(importlib.import_module("swapped_game"), name)
    return explain_tape("run.tape", sim=f"swapped_game:{name}", factory=factory, **options)


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("name", "value", "first"),
    [
        ("Patched", "Boss.attack", "the function swapped_game.furious"),
        ("Swapped", "swapped_rules.toll", "the function swapped_rules.bribed"),
        ("Registered", "swapped_game.greet", "the function swapped_game.greet"),
    ],
)
@pytest.mark.seldom(0.15)
def test_a_function_that_the_step_replaced_is_named(name: str, value: str, first: str) -> None:
    """At the line that calls it, with what both variants have in its place."""
    explanation = explained(name)
    cause = explanation.cause
    assert explanation.tick == 11
    assert cause is not None
    assert (cause.kind, cause.place.line) == (
        "outside",
        next(number for number, line in enumerate(MODULE.splitlines(), 1) if line.endswith(f"# {name}")),
    )
    assert [(one.name, one.first) for one in cause.outside] == [(value, first)]


@pytest.mark.seldom(0.15)
def test_an_edited_default_is_not_called_hidden_state(tmp_path: Path) -> None:
    """The line of the definition differs in the two versions: that is named."""
    old = tmp_path / "old"
    old.mkdir()
    (old / "swapped_game.py").write_text(MODULE)
    cause = explained("Default", code=str(old)).cause
    assert cause is not None
    assert cause.kind == "function"  # With that of A alone, the step gives the state of A.
    assert cause.place.text == "def fee(weight, rate=3):"
