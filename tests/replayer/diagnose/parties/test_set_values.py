"""replay explain with two tapes: what the programs of the parties set before the step, outside the state."""

from __future__ import annotations

import decimal
import importlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import replayer.commands.main
from replayer.diagnose.parties.set_values.module_values import module_values, put_values, value_of
from replayer.diagnose.parties.set_values.set_lines import SetLines

from oracle.command_lines import run
from project_paths import SOURCES

LAWS = """
TAX, TITLE = 3, "toll"
LIMITS = {"low": 1}


class Road:
    width = 4
"""
TOLLS = """
import laws_set
import numpy as np
from laws_set import LIMITS, TAX, Road

SHARED = LIMITS


class Gate:
    def __init__(self):
        self.day, self.coins, self.rows = 0, 5, np.array([1.0, 3.0])
        self.sign = ""

    def step(self):
        self.day += 1
        if self.day == 8:
            with np.errstate(over="ignore"):
                self.coins += laws_set.Road.width * 10 + self.ratio()
        if self.day == 12:
            self.sign = str(self.rows / 7)

    def ratio(self):
        try:
            return int((self.rows / np.zeros(2))[0] > 2)
        except FloatingPointError:
            return 7


def plain():
    return Gate()


def strict():
    laws_set.TITLE = "gate"
    np.seterr(divide="raise")
    return Gate()


def wide():
    laws_set.LIMITS["low"] = 2
    laws_set.Road.width = 6
    return Gate()
"""
RECORD = """
import sys, recorder
import numpy as np
import tolls_set
if sys.argv[3:]:
    np.set_printoptions(precision=int(sys.argv[3]))
gate = recorder.record(getattr(tolls_set, sys.argv[2])(), sys.argv[1])
for _ in range(14):
    gate.step()
gate.close()
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A game of two modules."""
    (tmp_path / "laws_set.py").write_text(LAWS)
    (tmp_path / "tolls_set.py").write_text(TOLLS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(SOURCES), str(tmp_path)]))
    yield tmp_path
    for name in ("laws_set", "tolls_set"):
        sys.modules.pop(name, None)


def explained(capsys: pytest.CaptureFixture[str], other: str, *words: str) -> dict[str, Any]:
    for tape, name, *more in (("a.tape", "plain"), ("b.tape", other, *words)):
        subprocess.run([sys.executable, "-c", RECORD, tape, name, *more], check=True)
    command = f"explain a.tape b.tape --sim tolls_set:plain --other-sim tolls_set:{other} --json"
    assert run(replayer.commands.main.main, command) == 1
    facts: dict[str, Any] = json.loads(capsys.readouterr().out)
    return facts


@pytest.mark.long
def test_a_setting_of_the_process_that_a_factory_makes_is_the_cause_with_its_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """And not the factory as a whole; a value of a module that the same factory sets has no effect."""
    facts = explained(capsys, "strict")
    [cause] = facts["causes"]
    assert (cause["kind"], cause["name"]) == ("setting", "np.seterr() (floating-point errors)")
    assert (cause["first"], cause["second"]) == ("divide warn", "divide raise (set at tolls_set.py:35)")
    assert [(one["name"], one["decides"]) for one in facts["tested"]][1:] == [("laws_set.TITLE", False)]


@pytest.mark.long
def test_a_value_of_a_class_that_a_factory_sets_is_the_cause_with_its_lines(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """That of its class statement, which makes it. The dict that both modules name is the same one, and has no effect."""
    facts = explained(capsys, "wide")
    [cause] = facts["causes"]
    assert (cause["kind"], cause["name"]) == ("value", "laws_set.Road.width")
    assert (cause["first"], cause["second"]) == ("4 (set at laws_set.py:6)", "6 (set at tolls_set.py:41)")
    idle = [one["name"] for one in facts["tested"] if not one["decides"]]
    assert idle == ["laws_set.LIMITS", "tolls_set.SHARED"]


@pytest.mark.long
def test_a_setting_that_a_tape_notes_is_given_to_its_party(capsys: pytest.CaptureFixture[str]) -> None:
    """No factory makes it: the program that recorded did."""
    facts = explained(capsys, "plain", "3")
    assert facts["tick"] == 12
    [cause] = facts["causes"]
    assert (cause["kind"], cause["first"], cause["second"]) == ("setting", "precision 8", "precision 3")
    assert facts["told"][0]["name"] == "np.get_printoptions()"
    assert [one["as_recorded"] for one in facts["parties"]] == [True, True]


def test_values_of_modules_are_noted_and_put_in_place(folder: Path) -> None:
    """Those of dicts into the dict that all of the modules have; a place that is not there is an error."""
    tolls = importlib.import_module("tolls_set")
    files = {name: str(folder / f"{name}.py") for name in ("tolls_set", "laws_set")}
    noted = module_values(files)
    assert noted == {
        "tolls_set:TAX": "3",
        "tolls_set:SHARED": "{'low': 1}",
        "laws_set:TAX": "3",
        "laws_set:TITLE": "'toll'",
        "laws_set:LIMITS": "{'low': 1}",
        "laws_set:Road.width": "4",
    }
    put_values({"laws_set:LIMITS": "{'high': 5}", "laws_set:Road.width": "8", "tolls_set:TAX": "1"})
    assert (tolls.SHARED, tolls.Road.width, tolls.TAX, tolls.laws_set.TAX) == ({"high": 5}, 8, 1, 3)
    assert value_of("laws_set:Road.width") == "8"
    with pytest.raises(ValueError, match=r"laws_set\.Road\.height is not there in this process"):
        put_values({"laws_set:Road.height": "8"})


def test_the_line_that_sets_a_value_is_the_last_one_and_holds_for_the_present_value(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where a function of a library does it, and after a call of the user's code in the same line."""
    (folder / "tolls_set.py").write_text(
        "import decimal, laws_set\n"
        "def digits():\n"
        "    return 9\n"
        "def make():\n"
        "    laws_set.TAX = 7\n"
        "    decimal.getcontext().prec = digits()\n"
        "    laws_set.TAX = 8\n"
    )
    lines = SetLines(["decimal.getcontext()"], ["laws_set:TAX", "laws_set:TITLE"])
    with decimal.localcontext():
        with lines:
            tolls = importlib.import_module("tolls_set")
        with lines:
            tolls.make()
        assert lines.places() == {
            "decimal.getcontext()": "set at tolls_set.py:6",
            "laws_set:TAX": "set at tolls_set.py:7",
            "laws_set:TITLE": "set at laws_set.py:2",
        }
        monkeypatch.setattr(tolls.laws_set, "TAX", 9)
        assert "laws_set:TAX" not in lines.places()
