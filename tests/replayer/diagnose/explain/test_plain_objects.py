"""replay explain names lines of the recorded object's program, never those of the code that captures it."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import recorder
import replayer.commands.main

from oracle.command_lines import run

GAMES = '''
class Recruit:
    count = 0  # Of all games of a process: no restore sets it.

    def __init__(self):
        self.number = Recruit.count
        Recruit.count = self.number + 1


class Numbered:
    """The number of a new object comes from its class."""

    def __init__(self):
        self.recruits = []
        self.total = 0

    def advance(self):
        self.recruits.append(Recruit())
        self.total += self.recruits[-1].number
        return self.total


class Slotted:
    __slots__ = ("number",)

    def __init__(self):
        self.number = Recruit().number


class Nested:
    """Objects with slots, in a dict."""

    def __init__(self):
        self.units = {}

    def advance(self):
        self.units["new"] = Slotted()


class Survey:
    def __init__(self):
        self.notes = {}


class Mine:
    """What it has seen is in an object that the user leaves out."""

    def __init__(self):
        self.ore = 0
        self.survey, self.sur = Survey(), 0

    def advance(self):
        self.survey.notes[len(self.survey.notes)] = self.ore
        self.ore += len(self.survey.notes)
'''


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with the module."""
    (tmp_path / "plain_games.py").write_text(GAMES)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    sys.modules.pop("plain_games", None)


def explained(name: str, capsys: Any) -> dict[str, Any]:
    """Record a game, and return what the command prints about it, without a trial, which would refuse the game."""
    game = getattr(importlib.import_module("plain_games"), name)()
    options: Any = {"step": "advance", "quiet": True, "trial_ms": 0, "keyframe_interval_ticks": 10}
    with recorder.record(game, f"{name}.tape", **options) as recorded:
        for _ in range(20):
            recorded.advance()
    sys.modules.pop("plain_games")
    assert run(replayer.commands.main.main, f"explain {name}.tape --sim plain_games:{name} --tick 11 --json") == 1
    facts: dict[str, Any] = json.loads(capsys.readouterr().out)
    return facts


@pytest.mark.parametrize(
    ("name", "field", "values"),
    [("Numbered", "total", ("55", "45")), ("Nested", "units['new'].number", ("10", "0"))],
)
def test_a_count_of_a_class_is_named(name: str, field: str, values: tuple[str, str], capsys: Any) -> None:
    """By the line that reads it in the making of an object; each line on the way from there is the program's."""
    facts = explained(name, capsys)

    cause = facts["cause"]
    assert cause["kind"] == "outside"
    assert [value["name"] for value in cause["outside"]] == ["Recruit.count"]
    assert GAMES.splitlines()[cause["line"] - 1].strip() == "self.number = Recruit.count"
    assert {Path(place["file"]).name for place in [cause, *cause["way"]]} == {"plain_games.py"}
    named = {one["field"]: one for one in facts["fields"]}
    assert (named[field]["first"], named[field]["second"]) == values
    assert not [name for name in named if name.startswith("graph.")]


@pytest.mark.seldom(0.15)
def test_values_that_differ_are_shown_by_paths(capsys: Any) -> None:
    """Of the tick's two states, and not the fields of the arena that hold them."""
    explained("Numbered", capsys)
    assert run(replayer.commands.main.main, "explain Numbered.tape --sim plain_games:Numbered --tick 11") == 1

    lines = capsys.readouterr().out.splitlines()
    assert lines[1:4] == ["  total: A 55, B 45", "  recruits[10].number: A 10, B 0", ""]
    assert not [line for line in lines if "graph." in line]


def test_what_the_user_left_out_is_named_where_it_is_the_cause(capsys: pytest.CaptureFixture[str]) -> None:
    """Beside the value that was proved; a name that only begins alike is another one."""
    game: Any = importlib.import_module("plain_games").Mine()
    ignored = ["Mine.survey", "Mine.sur"]
    options: Any = {"step": "advance", "quiet": True, "trial_ms": 0, "keyframe_interval_ticks": 10, "ignore": ignored}
    with recorder.record(game, "mine.tape", **options) as recorded:
        for _ in range(20):
            recorded.advance()
    capsys.readouterr()
    assert run(replayer.commands.main.main, "explain mine.tape --sim plain_games:Mine") == 1
    out = capsys.readouterr().out
    assert "Mine.survey.notes (attribute)" in out
    text = "note: Mine.survey was left out when this was recorded (ignore=['Mine.survey']), so no keyframe has what it holds"
    assert text in out
    assert out.count("was left out when this was recorded") == 1
