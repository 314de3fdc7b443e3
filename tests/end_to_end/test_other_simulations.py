"""Tapes of other simulations, ticks in the wrong order, fields that come and go: the message says what is wrong."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import recorder
import replayer.commands.main

from oracle.command_lines import assert_one_line, run


class Market:
    """Its step is called day."""

    def __init__(self) -> None:
        self.count = 0

    def day(self) -> None:
        """One day."""
        self.count += 1


class Dungeon:
    """Its step is called command; it has an array from the second tick to the fourth."""

    def __init__(self) -> None:
        self.count = 0

    def command(self) -> None:
        """One command."""
        self.count += 1
        if self.count == 2:
            self.light = np.ones(3)
        elif self.count == 5:
            del self.light


HERE = "--sim tests.end_to_end.test_other_simulations"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with a tape of each."""
    monkeypatch.chdir(tmp_path)
    with recorder.record(Market(), tmp_path / "market.tape", step="day", quiet=True, trial_ms=0) as market:
        for _ in range(20):
            market.day()
    with recorder.record(Dungeon(), tmp_path / "dungeon.tape", step="command", quiet=True, trial_ms=0) as dungeon:
        for _ in range(20):
            dungeon.command()


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (
            f"verify market.tape {HERE}:Dungeon",
            "test_other_simulations.Market, and what was given makes a tests.end_to_end.test_other_simulations.Dungeon",
        ),
        ("cut market.tape --ticks 9..3 -o part.tape", "--ticks 9..3: the first tick is after the last one"),
        (f"seek market.tape --episode 9 {HERE}:Market", "error: there is no episode 9: the tape has no episodes"),
        (f"extract dungeon.tape --table states -o out {HERE}:Dungeon", "with --ticks 2..-1"),
        (f"extract dungeon.tape --table states -o out {HERE}:Dungeon --ticks 2..-1", "with --ticks ..4"),
        (
            f"extract dungeon.tape --table states -o out {HERE}:Dungeon --field Dungeon.light",
            "there is no field Dungeon.light at tick 0; fields there: ",
        ),
    ],
)
def test_what_is_wrong_is_said(capsys: pytest.CaptureFixture[str], line: str, why: str) -> None:
    """In one line, and nothing is written."""
    assert run(replayer.commands.main.main, line) == 2
    assert_one_line(capsys.readouterr(), why)
    assert sorted(path.name for path in Path().iterdir()) == ["dungeon.tape", "market.tape"]


def test_the_ticks_that_are_named_can_be_extracted(capsys: pytest.CaptureFixture[str]) -> None:
    """Those in which the field is there."""
    line = f"extract dungeon.tape --table states -o out {HERE}:Dungeon --field Dungeon.light --ticks 2..4"
    assert run(replayer.commands.main.main, line) == 0
    assert "3 rows" in capsys.readouterr().out


def test_a_difference_of_two_simulations_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    """With both classes; of two tapes of one class it says nothing."""
    assert run(replayer.commands.main.main, "diff market.tape dungeon.tape") == 1
    out = capsys.readouterr().out
    assert (
        "  simulations: the tapes were recorded from tests.end_to_end.test_other_simulations.Market and tests." in out
    )
    assert run(replayer.commands.main.main, "diff market.tape dungeon.tape --json") == 1
    assert json.loads(capsys.readouterr().out)["simulations"][1].endswith(".Dungeon")
    assert run(replayer.commands.main.main, "diff market.tape market.tape") == 0
    assert "simulations" not in capsys.readouterr().out
