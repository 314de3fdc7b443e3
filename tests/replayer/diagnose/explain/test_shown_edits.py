"""Two versions of the code: an edited line is the cause where a test showed that it decides, and else the first difference."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

import pytest

import replayer.commands.main
from recorder import Recorder

from oracle.command_lines import run

PURSE = """
import json

{parts}


class Purse:
    def __init__(self):
        self.coins, self.debts = 3, 8

    def step(self, inputs):
        self.coins += 1
        self.debts -= self.debts > 5

    def save(self):
        {save}

    def load(self, saved):
        for name, value in zip(PARTS, json.loads(saved)):
            setattr(self, name, value)
"""
OLD_SAVE = "values = [getattr(self, part) for part in PARTS]\n        return json.dumps(values).encode()"
NEW_SAVE = "return json.dumps([getattr(self, name) for name in PARTS]).encode()"


@pytest.fixture(autouse=True)
def _apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)


def explained(capsys: pytest.CaptureFixture[str], name: str, old: str, new: str) -> tuple[dict[str, Any], str]:
    """Record five steps of a class of the old module, and explain the difference to the new one: as data, and as text."""
    module = f"shown_{name.lower()}"
    Path("old").mkdir()
    Path("old", f"{module}.py").write_text(old)
    Path(f"{module}.py").write_text(old)
    sys.modules.pop(module, None)
    with Recorder("run.tape", getattr(importlib.import_module(module), name)()) as tape:
        for _ in range(5):
            tape.step(None)
    sys.modules.pop(module, None)
    Path(f"{module}.py").write_text(f"{new}# The new version has another size than the old one.\n")
    importlib.invalidate_caches()
    asked = f"explain run.tape --sim {module}:{name} --code old"
    assert run(replayer.commands.main.main, f"{asked} --json") == 1
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert run(replayer.commands.main.main, f"{asked} --tick {found['tick']}") == 1
    return found, capsys.readouterr().out


def test_a_value_that_load_and_save_read_is_tested_in_both(capsys: pytest.CaptureFixture[str]) -> None:
    """What load() has set by the one of B, save() would return by that of A: neither state is that of one version."""
    old = PURSE.format(parts='PARTS = ("coins", "debts")', save=OLD_SAVE)
    new = PURSE.format(parts='PARTS = ("debts", "coins")', save=NEW_SAVE)
    found, printed = explained(capsys, "Purse", old, new)
    assert found["functions"]["names"] == ["PARTS"]
    assert found["cause"]["text"] == 'PARTS = ("coins", "debts")'
    assert "cause: the two versions of the code differ in this line" in printed
    assert "tested: with PARTS of A alone, B gives the state of A" in printed


def test_an_edited_line_that_no_test_shows_to_decide_is_the_first_difference(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """No statement alone gives the list that differs; the line of save() that is found was only reworded."""
    parts = 'PARTS = []\nfor one in ("coins", "debts"):\n    PARTS.append(one)'
    old = PURSE.format(parts=parts, save=OLD_SAVE)
    new = PURSE.format(parts=parts.replace('"coins", "debts"', '"debts", "coins"'), save=NEW_SAVE)
    found, printed = explained(capsys, "Purse", old, new)
    assert (found["cause"]["kind"], found["functions"]["names"]) == ("edited", [])
    [line] = [one for one in printed.splitlines() if one.startswith("first difference: ")]
    assert line.endswith(
        "the cause is not known: none of the functions and values of A that could be put into B gives the state of A"
    )
    assert "cause: " not in printed.replace(line, "")


BOATS = """
class Boat:
    def __init__(self):
        self.water = 0

    def leak(self, rain):
        '''Rain, up to the rim.'''
        room = 90 - self.water
        self.water += min(rain, room)
        rain = 0
        return max(self.water, rain)


class Raft(Boat):
    pass


class Canoe(Boat):
    {leak}


class Fleet:
    def __init__(self):
        self.boats, self.wet = [Raft(), Canoe(), Raft(), Canoe()], 0

    def step(self, inputs):
        for boat in self.boats:
            self.wet += boat.leak(9)

    def save(self):
        return repr([self.wet, *(boat.water for boat in self.boats)]).encode()

    def load(self, saved):
        self.wet, *waters = eval(saved)
        for boat, water in zip(self.boats, waters):
            boat.water = water
"""
LEAK = """def leak(self, drops):
        room = 20 - self.water
        self.water += min(drops, room)
        drops = 0
        return max(self.water, drops)
"""


@pytest.mark.parametrize("has_old", [True, False], ids=["the method was merged", "the method was added"])
def test_a_method_of_one_version_is_compared_with_the_one_that_the_other_inherits(
    capsys: pytest.CaptureFixture[str],
    has_old: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    """Lines that both have at other places are no cause, and values of two moments belong to none."""
    texts = [BOATS.format(leak=leak) for leak in ((LEAK, "pass") if has_old else ("pass", LEAK))]
    found, printed = explained(capsys, "Fleet", *texts)
    cause, lines = found["cause"], ["room = 20 - self.water", "room = 90 - self.water"]
    assert [cause["text"], cause["other"]["text"]] == (lines if has_old else lines[::-1])
    assert {cause["function"], cause["other"]["function"]} == {"Canoe.leak", "Boat.leak"}
    assert (cause["kind"], cause["value"], cause["outside"], cause["way"]) == ("function", None, [], [])
    assert "and the other one inherits it" in printed
    assert (
        f"tested: {'with Canoe.leak of A' if has_old else 'without Canoe.leak'} alone, B gives the state of A"
        in printed
    )


LAMPS = """
import numpy as np


class Lamps:
    def __init__(self):
        self.oil, self.{name} = np.full(4, 60), np.full(4, 2)

    def step(self, inputs):
        self.{name} += 1
        for lamp in np.flatnonzero(self.{name} > 2):
            self.oil[lamp] -= 5

    def save(self):
        return {{"oil": self.oil, "lit": self.{name}}}

    def load(self, saved):
        self.oil = np.array(saved["oil"])
        self.{name} = np.array(saved{key})
"""


def test_what_load_loses_comes_before_an_edited_line_that_was_not_shown_to_decide(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """An array has another name in B, and so has the field that load() reads; save() gives it the old one."""
    old = LAMPS.format(name="lit", key='["lit"]')
    new = LAMPS.format(name="lit_for", key='.get("lit_for", np.zeros(4, np.int64))')
    found, printed = explained(capsys, "Lamps", old, new)
    [lost] = found["not_given_back"]
    assert lost["held_in"] == ["Lamps.lit_for"]
    assert (found["cause"]["kind"], found["cause"]["function"]) == ("load", "Lamps.load")
    assert found["cause"]["text"].startswith("self.lit_for = np.array(saved.get(")
    assert "first difference: load() does not give back what save() saved\n" in printed
    assert "the two versions of the code differ in this line" not in printed


OVEN = """
class Oven:
    def __init__(self):
        self.heat = 1

    def step(self, inputs):
        gain = self.heat * {}
        self.heat += gain

    def save(self):
        return str(self.heat).encode()

    def load(self, saved):
        self.heat = int(saved)
"""


def test_the_path_into_the_state_tells_the_version_of_its_lines(capsys: pytest.CaptureFixture[str]) -> None:
    """Both versions have files of one name, and other lines at one number."""
    _, printed = explained(capsys, "Oven", OVEN.format(2), f"# One line more.\n{OVEN.format(3)}")
    _, _, way = printed.partition("  path into the state:\n")
    assert way.splitlines()[0].split() == ["old/shown_oven.py:7", "gain", "gain", "=", "self.heat", "*", "2"]


KILN = """
import random


class Kiln:
    def __init__(self):
        self.draws, self.heat, self.smoke = 0, 0.0, 0.0

    def step(self, inputs):
        drawn = random.Random(self.draws)
        {}
        {}
        self.draws += 1
        self.heat += flame * 2
        self.smoke += draught * 3

    def save(self):
        return repr([self.draws, self.heat, self.smoke]).encode()

    def load(self, saved):
        self.draws, self.heat, self.smoke = eval(saved)
"""


def test_a_line_is_not_said_to_change_a_variable_of_another_one(capsys: pytest.CaptureFixture[str]) -> None:
    """Two draws have changed places: the path has the lines that a value went through, each with what it changes."""
    draws = "flame = drawn.random()", "draught = drawn.random()"
    found, printed = explained(capsys, "Kiln", KILN.format(*draws), KILN.format(*draws[::-1]))
    assert found["cause"]["text"] in draws
    lines = [(step["changed"], step["text"]) for step in found["cause"]["way"]]
    assert not [text for changed, text in lines if text in draws and not text.startswith(f"{changed} =")]
    assert "tested: with Kiln.step of A alone, B gives the state of A" in printed
