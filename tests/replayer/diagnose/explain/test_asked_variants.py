"""replay explain with a variant that the user names, of a tick that is known to have differed: more than that one is tried."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import replayer.commands.main
from recorder import Recorder
from replayer.diagnose.explain import explain

from oracle.command_lines import run

BAD_TICK = 15
OLD = '''
class Toll:
    """A toll by the road that was gone; it is asked at two ticks."""

    def __init__(self):
        self.way = self.paid = 0

    def step(self, inputs=None):
        self.way += 1
        if self.way in (12, 15):
            self.paid += self.rate()

    def rate(self):
        return self.way // 5

    def save(self):
        return bytes((self.way, self.paid))

    def load(self, saved):
        self.way, self.paid = saved
'''
# The rate of the first time is kept, where save() does not look.
NEW = OLD.replace("return self.way // 5", "self.kept = getattr(self, 'kept', self.way // 5)\n        return self.kept")


@pytest.fixture(autouse=True)
def _tape(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A tape of the version in the folder old; the other one is beside it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delenv("PYTHONHASHSEED", raising=False)
    Path("old").mkdir()
    Path("old", "asked_toll.py").write_text(OLD)
    Path("asked_toll.py").write_text(OLD)
    module: Any = importlib.import_module("asked_toll")
    with Recorder("run.tape", module.Toll(), keyframe_interval_ticks=10, trial_ms=0) as tape:
        for _ in range(20):
            tape.step()
    sys.modules.pop("asked_toll")
    importlib.invalidate_caches()
    yield
    sys.modules.pop("asked_toll", None)


def told(capsys: Any, options: str = "") -> tuple[int, str]:
    """The exit code of the command with --code, and what it prints."""
    code = run(replayer.commands.main.main, f"explain run.tape --sim asked_toll:Toll --code old{options}")
    return code, capsys.readouterr().out


def test_hidden_state_is_found_beside_the_code_that_was_asked_for(capsys: Any) -> None:
    """Put into the state before the step, both versions give the recorded one; an instance that ran up to it does not."""
    Path("asked_toll.py").write_text(NEW)
    code, out = told(capsys)
    assert code == 1, out
    assert out.startswith(f"run.tape: tick {BAD_TICK} differs between two variants")
    assert "cause: this line reads hidden state\n  asked_toll.py:" in out
    assert "Toll.kept (attribute): absent in A, 2 in B" in out


@pytest.mark.seldom(0.5)
def test_a_tick_that_nothing_tells_of_is_compared_with_the_asked_code_alone(capsys: Any) -> None:
    """No other variant runs, and the exit code says that nothing differs."""
    code, out = told(capsys, f" --tick {BAD_TICK}")
    assert (code, out.count("hash ")) == (0, 2)


@pytest.mark.seldom(0.5)
def test_a_tick_that_a_run_of_all_ticks_found_is_not_said_to_be_as_recorded(
    capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No step that runs again repeats it: that is told, with the exit code of a difference."""
    monkeypatch.setattr(explain, "find_tick", lambda *_: (BAD_TICK, []))
    code, out = told(capsys)
    assert code == 1, out
    assert "  it differed when all ticks up to it were run, and that was not repeated: the cause is not known" in out


DOOR = """
from dataclasses import dataclass


@dataclass(order=True)
class Guest:
    grade: int
    since: int


class Door:
    def __init__(self):
        self.now = self.let = 0

    def step(self, inputs=None):
        self.now += 1
        guests = [Guest(grade=self.now % 3, since=self.now), Guest(grade=2, since=self.now - 1)]
        first = min(guests)
        self.let += first.since % 3

    def save(self):
        return bytes((self.now, self.let))

    def load(self, saved):
        self.now, self.let = saved
"""


def test_a_class_statement_is_told_where_no_line_is_the_cause(capsys: Any) -> None:
    """The order of its fields is in no line that runs: none of these is called the cause. A folder is shown without steps back."""
    edited = DOOR.replace("    grade: int\n    since: int\n", "    since: int\n    grade: int\n")
    Path("old", "asked_door.py").write_text(DOOR)
    Path("asked_door.py").write_text(DOOR)
    module: Any = importlib.import_module("asked_door")
    with Recorder("door.tape", module.Door(), keyframe_interval_ticks=10, trial_ms=0) as tape:
        for _ in range(4):
            tape.step()
    sys.modules.pop("asked_door")
    Path("asked_door.py").write_text(
        f"{edited}# Edited.\n"
    )  # Of another size: within a second, Python takes the old one.
    importlib.invalidate_caches()
    assert run(replayer.commands.main.main, "explain door.tape --sim asked_door:Door --tick 1 --code old/../old") == 1
    sys.modules.pop("asked_door")
    out = capsys.readouterr().out
    assert "\ncause: " not in out
    assert "first difference: " in out
    assert "  the code: changed since the recording, or new: the fields of Guest (asked_door.py:6); not tested" in out
    assert f"the code in {Path('old').resolve()}: hash" in out
