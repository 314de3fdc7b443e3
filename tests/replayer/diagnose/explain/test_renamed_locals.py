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
from replayer.diagnose.explain.versions import tested_functions

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


def explained(
    capsys: pytest.CaptureFixture[str], name: str, old: str, new: str, ticks: int = 6, *, has_state: bool = False
) -> dict[str, Any]:
    """Record the old version of a module, put the new one in its place, and explain the difference.

    has_state: the class saves and loads its state itself. The new version has another size: a compiled file may be as old.
    """
    Path("old").mkdir()
    for path, text in ((Path("old/kiln.py"), old), (Path("kiln.py"), old)):
        path.write_text(text)
    sys.modules.pop("kiln", None)
    made = getattr(importlib.import_module("kiln"), name)()
    if has_state:
        with recorder.Recorder("run.tape", made) as tape:
            for _ in range(ticks):
                tape.step()
    else:
        kiln = recorder.record(made, "run.tape", step="step", trial_ms=0)
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
    assert found["functions"] == {"names": [names], "removed": [names] * removed, "has_effect": True, "brought": []}
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


def test_functions_for_which_there_is_no_time_are_counted(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is said of those, nor of what all of them do together."""
    monkeypatch.setattr(tested_functions, "TESTED_MAX", 2)
    gain = "return sum([self.a(), self.b(), self.c()])"
    gain += "".join(f"\n\n    def {name}(self):\n        return 0.5" for name in "abc")
    found = explained(capsys, "Kiln", KILN.format(gain=gain), KILN.format(gain=gain.replace("0.5", "0.75")))
    assert found["functions"]["names"] == []
    told = "of 3 functions that differ, 2 of A were tried in B, each alone: none gives the state of A"
    assert told in found["notes"]


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
    assert found["functions"] == {"names": [], "removed": [], "has_effect": False, "brought": []}
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


def test_a_mix_of_two_versions_that_never_ends_is_ended(capsys: pytest.CaptureFixture[str]) -> None:
    """Each version counts to its own end; with a function of the other one, the step would count for ever."""
    old = KILN.format(
        gain="bricks, warmth = self.stock(), 0\n        while bricks != self.last():\n"
        "            bricks, warmth = bricks + 1, warmth + bricks\n        return warmth\n\n"
        "    def stock(self):\n        return 0\n\n    def last(self):\n        return 7"
    )
    found = explained(capsys, "Kiln", old, old.replace("return 0", "return 0.5").replace("return 7", "return 7.5"))
    assert found["functions"]["names"] == ["Kiln.stock", "Kiln.last"]
    assert not found["functions"]["is_none_alone"]


SAVED = """
import json

class Saved(Kiln):
    def __init__(self):
        self.load(b"[20.0, 0]")

    def save(self):
        return json.dumps([self.heat, self.hour]).encode()

    def load(self, saved):
        self.heat, self.hour = json.loads(saved)
        {made}
"""
RULE = """
def rule_of(rate):
    def rule(x):
        return x * rate * 2
    return rule
"""
WRAPPING = """
def watched(method):
    def inner(*arguments):
        return method(*arguments)
    return inner

"""


@pytest.mark.parametrize(
    ("gain", "made", "before"),
    [
        ("return self.rule(0.5)", "self.rule = rule_of(3)", RULE),
        (
            "return next(self.gains)\n\n    def all(self):\n        while True:\n            yield 1.5 * 2",
            "self.gains = self.all()\n        next(self.gains)",
            "",
        ),
        (
            "return self.ways[0](1.5)\n\n    @watched\n    def way(self, share):\n        return share * 2",
            "self.ways = [self.way]",
            WRAPPING,
        ),
    ],
    ids=["a closure", "a generator", "a bound method"],
)
def test_a_function_that_the_step_does_not_run_is_not_called_without_effect(
    capsys: pytest.CaptureFixture[str], gain: str, made: str, before: str
) -> None:
    """What was made of the function before the step runs on as it was: the test shows nothing."""
    old = before + KILN.format(gain=gain) + SAVED.format(made=made)
    found = explained(capsys, "Saved", old, old.replace("* 2", "* 12"), has_state=True)
    assert (found["cause"]["kind"], found["functions"]["has_effect"]) == ("edited", True)
    assert "* 2" in found["cause"]["text"]


def test_a_function_beside_the_line_without_an_effect_says_nothing_of_the_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The line reads a table that differs; what was tested is a function that the step runs for nothing."""
    old = "SHARES = {}\nSHARES[1] = 0.5\n" + KILN.format(
        gain="self.note()\n        return SHARES[1]\n\n    def note(self):\n        return len('told')"
    )
    new = old.replace("SHARES[1] = 0.5", "SHARES[1] = 0.75").replace("'told'", "'Told'")
    assert explained(capsys, "Kiln", old, new)["functions"] == {
        "names": [],
        "removed": [],
        "has_effect": True,
        "brought": [],
    }


def test_no_function_is_named_where_each_process_gives_another_state(capsys: pytest.CaptureFixture[str]) -> None:
    """The module draws a number on import: a run with a function of A shows nothing."""
    old = "import os\n\nDRAWN = int.from_bytes(os.urandom(4))\n" + KILN.format(
        gain="share = 0.5\n        return share + DRAWN"
    )
    found = explained(capsys, "Kiln", old, old.replace("share = 0.5", "share = 1.0 * 0.5"))
    assert found["functions"] is None
    assert any("the same step, run again in another process, gives another state" in note for note in found["notes"])


def test_a_method_with_the_name_of_a_function_that_it_calls(capsys: pytest.CaptureFixture[str]) -> None:
    """Taken from the other version, it does not call itself."""
    old = KILN.format(gain="return gain(2.0)") + "\n\ndef gain(rate):\n    return rate / 4\n"
    found = explained(capsys, "Kiln", old, old.replace("gain(2.0)", "gain(12.0)"))
    assert found["functions"]["names"] == ["Kiln.gain"]


def test_an_edited_constant_that_makes_no_difference_is_not_called_the_cause(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The line reads it, and it was edited; what makes the difference is a table that a loop fills."""
    old = KILN.format(gain="share = share_of(LOGS)\n        return share") + (
        "\n\nLOGS = 2\nSHARES = {}\nfor log in range(3):\n    SHARES[log] = 0.5\n\n"
        "def share_of(logs):\n    return SHARES[min(logs, 2)]\n"
    )
    new = old.replace("LOGS = 2", "LOGS = 12").replace("] = 0.5", "] = 0.75").replace("= share_of", "= 1.0 * share_of")
    found = explained(capsys, "Kiln", old, new)
    assert found["functions"] == {"names": [], "removed": [], "has_effect": False, "brought": []}
    assert found["cause"]["text"] == "share = share_of(LOGS)"


HELPED = """
EXTRA = {extra}


class Oven:
    def __init__(self):
        self.heat, self.hour = 20, 0

    def step(self, inputs):
        self.hour += 1
        self.heat += gain(self.hour)


{gain}
"""
WITH_HELPER = """def capped(value):
    return min(value, LIMIT)


LIMIT = 4


def gain(hour):
    return min(capped(hour), LIMIT)"""


@pytest.mark.parametrize("has_helper", [True, False])
def test_what_a_tested_function_uses_and_the_other_version_lacks_is_named(
    capsys: pytest.CaptureFixture[str],
    has_helper: bool,  # noqa: FBT001
) -> None:
    """The function alone would raise: B was given its helper, too. A function that uses what B has brings nothing."""
    old = WITH_HELPER if has_helper else "def gain(hour):\n    return min(hour, 4 + EXTRA)"
    new = HELPED.format(extra="0", gain="def gain(hour):\n    return min(hour, 5)")
    found = explained(capsys, "Oven", HELPED.format(extra="0", gain=old), new)
    assert found["functions"]["names"] == ["gain"]
    assert found["functions"]["brought"] == (["capped", "LIMIT"] if has_helper else [])
    run(replayer.commands.main.main, "explain run.tape --sim kiln:Oven --code old --tick 5")
    which = " (with capped, LIMIT, which B does not have)" if has_helper else ""
    assert f"tested: with gain of A alone{which}, B gives the state of A" in capsys.readouterr().out
