"""Two versions of the code in which harmless edits stand beside the one that makes the difference."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

import pytest

import recorder
import replayer.commands.main

from oracle.command_lines import run

KILN = """
class Kiln:
    def __init__(self):
        self.heat, self.hour = 20.0, 0

    def step(self, inputs):
        self.hour += 1
        self.heat += self.gain()

    def gain(self):
        {gain}
"""
OLD = "need = 90.0 - self.heat\n        share = 0.5 if need > 8.0 else 0.25\n        return min(share, need)"

RENAMED = """left = 90.0 - self.heat
        share = (0.5 if left > 8.0 else 0.25) * (2 if self.hour > 3 else 1)
        return min(share, left)"""
LAID_OUT = """left = (
            90.0 - self.heat
        )
        share = 0.5 if left > 8.0 else 0.25
        return min(share, left) + (self.hour > 3)"""


@pytest.fixture(autouse=True)
def _apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)


def explained(capsys: pytest.CaptureFixture[str], name: str, old: str, new: str, ticks: int = 6) -> dict[str, Any]:
    """Record the old version of a module, put the new one in its place, and explain the difference."""
    Path("old").mkdir()
    for path, text in ((Path("old/kiln.py"), old), (Path("kiln.py"), old)):
        path.write_text(text)
    sys.modules.pop("kiln", None)
    kiln = recorder.record(getattr(importlib.import_module("kiln"), name)(), "run.tape", step="step", trial_ms=0)
    for _ in range(ticks):
        kiln.step(None)
    kiln.close()
    Path("kiln.py").write_text(new)
    importlib.invalidate_caches()
    sys.modules.pop("kiln", None)
    assert run(replayer.commands.main.main, f"explain run.tape --json --sim kiln:{name} --code old") == 1
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


@pytest.mark.parametrize(
    ("gain", "line"),
    [(RENAMED, "share = (0.5 if left"), (LAID_OUT, "return min(share, left) +")],
    ids=["a variable has another name", "and another layout"],
)
def test_the_line_with_other_values_is_named_beside_renamed_variables(
    capsys: pytest.CaptureFixture[str], gain: str, line: str
) -> None:
    cause = explained(capsys, "Kiln", KILN.format(gain=OLD), KILN.format(gain=gain))["cause"]
    assert cause["kind"] == "edited"
    assert line in cause["other"]["text"]
    assert "absent" not in str(cause["value"])


ADDED = """

class Muffle(Kiln):
{gain}
"""
OVERRIDE = """    def gain(self):
        added = super().gain()
        return added * 1.5 if self.hour > 3 else added"""
WRAPPED = "return min(self.whole(), 0.375 if self.hour > 3 else 1.0)\n\n    def whole(self):\n        "
DECORATOR = """
def halved(method):
    def inner(*arguments):
        return method(*arguments) / (2 if arguments[0].hour > 3 else 1)
    return inner

"""


@pytest.mark.parametrize(
    ("new", "names", "removed", "line"),
    [
        (
            KILN.format(gain=RENAMED.split(" * (2", maxsplit=1)[0]) + ADDED.format(gain=OVERRIDE),
            "Muffle.gain",
            True,
            "added = super()",
        ),
        (
            KILN.format(gain=WRAPPED + OLD.replace("need", "lack")) + ADDED.format(gain="    pass"),
            "Kiln.gain",
            False,
            "",
        ),
        (
            DECORATOR
            + KILN.format(gain=OLD.replace("need", "lack")).replace("    def gain", "    @halved\n    def gain")
            + ADDED.format(gain="    pass"),
            "Kiln.gain",
            False,
            "@halved",
        ),
    ],
    ids=["an override was added", "a wrapper was added", "a decorator was added"],
)
def test_a_function_that_was_added_is_named_if_the_step_needs_it(
    capsys: pytest.CaptureFixture[str], new: str, names: str, *, removed: bool, line: str
) -> None:
    """By a test: B as it is but for that function gives the state of A; the variables with new names do nothing."""
    new = new.replace(
        "share = (0.5 if left > 8.0 else 0.25)", "share = 0.5 if left > 8.0 else 0.25\n        return share"
    )
    found = explained(capsys, "Muffle", KILN.format(gain=OLD) + ADDED.format(gain="    pass"), new)
    assert found["functions"] == {"names": [names], "removed": [names] * removed, "has_effect": True}
    assert line in found["cause"]["other"]["text"] if found["cause"]["other"] else line in found["cause"]["text"]
    assert "absent" not in str(found["cause"])
    run(replayer.commands.main.main, "explain run.tape --sim kiln:Muffle --code old --tick 4")
    how = f"without {names}" if removed else f"with {names} of A"
    assert f"tested: {how} alone, B gives the state of A" in capsys.readouterr().out


def test_functions_that_do_it_only_together(capsys: pytest.CaptureFixture[str]) -> None:
    """Each of two was changed for a part of the difference; a third one was changed for nothing."""
    old = KILN.format(
        gain="return self.first() + self.second()\n\n    def first(self):\n        return 1.0\n\n"
        "    def second(self):\n        return 2.0"
    )
    new = old.replace("return 1.0", "return 1.0 + (self.hour > 3)").replace(
        "return 2.0", "return 2.0 + (self.hour > 3)"
    )
    found = explained(capsys, "Kiln", old, new.replace("self.hour += 1", "self.hour = self.hour + 1"))
    assert found["functions"]["names"] == ["Kiln.first", "Kiln.second"]


@pytest.mark.parametrize("value", ["0.75", "float(str(0.5 + 0.25))"])
def test_a_value_of_a_class_is_no_matter_of_functions(capsys: pytest.CaptureFixture[str], value: str) -> None:
    """The line that reads it was edited for nothing, as the test of its function shows: the line with the value is named."""
    old = KILN.format(gain="share = self.share\n        return share").replace(
        "class Kiln:", "class Kiln:\n    share = 0.5\n"
    )
    new = old.replace("share = 0.5", f"share = {value}").replace("share = self.share", "share = 1.0 * self.share")
    found = explained(capsys, "Kiln", old, new)
    assert found["functions"]["names"] == []
    assert (found["cause"]["text"], found["cause"]["read_at"]["text"]) == ("share = 0.5", "share = self.share")


def test_an_edited_line_without_an_effect_is_not_called_the_cause(capsys: pytest.CaptureFixture[str]) -> None:
    """What differs is a table that no line of the step defines in one place; the line that reads it is told as a first difference."""
    old = KILN.format(gain="share = SHARES.get(1)\n        return share") + "\n\nSHARES = {}\nSHARES[1] = 0.5\n"
    new = old.replace("SHARES[1] = 0.5", "SHARES[1] = 0.75").replace("share = SHARES", "share = 1.0 * SHARES")
    found = explained(capsys, "Kiln", old, new)
    assert found["functions"] == {"names": [], "removed": [], "has_effect": False}
    assert run(replayer.commands.main.main, "explain run.tape --sim kiln:Kiln --code old --tick 1") == 1
    printed = capsys.readouterr().out
    assert (
        "first difference: the two versions of the code differ in this line; the cause is not known: the function"
        in printed
    )
    assert "cause: the" not in printed.replace("difference: the", "")


def test_the_entry_of_a_table_of_several_lines_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    """The statement begins in another line than the one that was edited."""
    old = "SHARES = {\n    1: 0.25,\n    2: 0.5,\n    3: 1.0,\n}\n" + KILN.format(gain="return SHARES[2]")
    cause = explained(capsys, "Kiln", old, old.replace("2: 0.5", "2: 0.75"))["cause"]
    assert (cause["kind"], cause["text"], cause["other"]["text"]) == ("edited", "2: 0.5,", "2: 0.75,")
    assert cause["read_at"]["text"] == "return SHARES[2]"


def test_the_way_begins_at_the_line_that_only_one_version_has(capsys: pytest.CaptureFixture[str]) -> None:
    """The line before it is the last one that both ran, and changes nothing that differs."""
    gain = "self.air()\n        self.stoke()\n        return 0.5\n\n    def air(self):\n        return 0"
    old = KILN.format(gain=f"{gain}\n\n    def stoke(self):\n        self.hour += 2")
    found = explained(capsys, "Kiln", old, old.replace("        self.stoke()\n", ""))
    assert [place["text"] for place in found["cause"]["way"]][:1] == ["self.stoke()"]
    assert found["cause"]["text"] == "self.stoke()"
