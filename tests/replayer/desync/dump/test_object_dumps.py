"""A desync of plain objects: everything in the dump, and in the notebook, names values by their paths."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

import recorder
import replayer.commands.main
from replayer.report.report_text import report_facts
from replayer.tape.tape import Tape
from replayer.timeline.verify import VerificationReport, verify_tape

from oracle.command_lines import run

COLUMNS = ("graph.", "#counts", "cells.value")  # Names in the states of captured objects.


class Unit:
    """A unit of a game."""

    def __init__(self, name: str) -> None:
        self.name, self.hp, self.target = name, 100.0, None


class Hidden:
    """A game whose step reads a counter that is not in its state."""

    count = 0  # Of all games of this process.
    swaps = False

    def __init__(self) -> None:
        self.units = [Unit(f"u{number}") for number in range(20)]
        self.leader = self.units[2]
        self.bag = {"a": 1, "b": 2}
        self.turn = 0

    def step(self) -> None:
        """Hit a unit; on one call, another one, and what it carries changes."""
        type(self).count += 1
        self.turn += 1
        self.units[self.turn % 20].hp -= 9.0
        if type(self).count == 13:
            self.units[14].hp -= 1.5
            self.bag["a"] = self.bag.pop("a")
        if self.swaps and self.turn == 13:
            self.units[7], self.units[8] = self.units[8], self.units[7]
            self.leader = self.units[5]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with a tape that another process could not have made."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Hidden, "count", 0)
    with recorder.record(Hidden(), "run.tape", quiet=True, trial_ms=0, keyframe_interval_ticks=10) as game:
        for _ in range(40):
            game.step()


def desync(name: str = "run.tape") -> VerificationReport:
    """The report of a tape whose recording differs from each replay, as its counter has run on."""
    Hidden.count = 1000
    report = verify_tape(name, Hidden, dump_folder=Path(), jobs=1)
    assert report.first_bad == 13
    return report


@pytest.mark.seldom(0.15)
def test_every_file_of_the_dump_names_values_by_path() -> None:
    """The report, the table and both JSON files; of the states, everything can be read."""
    dump = desync().dump_path
    assert dump is not None
    text = {path.name: path.read_text() for path in dump.iterdir() if path.suffix in (".md", ".csv", ".json")}

    assert [name for name, content in text.items() if any(word in content for word in COLUMNS)] == ["tree.json"]
    assert not list(dump.glob("*.npz"))
    order = "order of bag: recorded b, a; replayed a, b"
    assert f"- `{order}`\n- `units[14].hp: recorded 89.5, replayed 91.0`\n" in text["report.md"]
    assert "`before.json`: the state at tick 12, on which recording and replay agree" in text["report.md"]
    rows = list(csv.DictReader(text["differences.csv"].splitlines()))
    assert [(row["field"], row["recorded"], row["replayed"]) for row in rows] == [
        ("order of bag", "b, a", "a, b"),
        ("units[14].hp", "89.5", "91.0"),
    ]
    assert int(rows[1]["ulps"]) > 0
    facts = json.loads(text["finding.json"])
    assert facts["fields"] == []
    assert [(one["kind"], one["path"]) for one in facts["values"]] == [("order", "bag"), ("value", "units[14].hp")]
    before: dict[str, Any] = json.loads(text["before.json"])
    assert (before["turn"], before["leader"]["name"], before["units"][2]) == (12, "u2", "leader")
    assert [json.loads(text[f"keyframe_{which}.json"])["units"][14]["hp"] for which in ("recorded", "replayed")] == [
        89.5,
        91.0,
    ]


@pytest.mark.seldom(0.15)
def test_two_dumps_are_compared_by_path(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The states of their ticks, in values and order."""
    first = desync().dump_path
    monkeypatch.setattr(Hidden, "swaps", True)
    second = desync().dump_path
    capsys.readouterr()

    assert run(replayer.commands.main.main, f"diff {first} {second}") == 1
    printed = capsys.readouterr().out
    u7, u8 = "Unit(name='u7', hp=91.0, …)", "Unit(name='u8', hp=91.0, …)"
    assert printed.splitlines()[2:] == [
        f"  order of units: first … from [7]: {u7}, {u8}, …; second … from [7]: {u8}, {u7}, …",
        "  leader: first units[2], second units[5]",
    ]


@pytest.mark.seldom(0.18)
def test_notebooks_and_json_name_values_by_path() -> None:
    """The summary of a verification, and its facts for programs."""
    report = desync()
    shown = report._repr_html_()

    assert "units[14].hp: recorded 89.5, replayed 91.0" in shown
    assert "graph." not in shown
    assert {"path": "units[14].hp", "kind": "value", "recorded": "89.5", "replayed": "91.0"} in report_facts(report)[
        "values"
    ]


def test_the_summary_of_a_tape_lists_classes_and_no_columns() -> None:
    """Its folded list of fields."""
    with Tape("run.tape") as tape:
        shown = tape._repr_html_()
    assert "Hidden.turn" in shown
    assert "Unit" in shown
    assert not any(word in shown for word in COLUMNS)
