"""``replay find`` and ``replay who``: what they print, as text and as JSON, and one line for each mistake."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from asked_worlds import battle_run, garden_run
from tests.replayer.search import test_written_kinds

import recorder
import replayer.commands.main

from oracle.command_lines import assert_one_line, run

TICKS = 60


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """A folder with a tape of fields and one of objects; the plain run of the fields."""
    monkeypatch.chdir(tmp_path)
    battle_run(tmp_path / "battle.tape", 3, TICKS, 20)
    return garden_run(tmp_path / "garden.tape", 3, TICKS, 20)


def asked(capsys: pytest.CaptureFixture[str], line: str, code: int = 0) -> str:
    """What a command prints."""
    assert run(replayer.commands.main.main, line) == code
    return capsys.readouterr().out


GARDEN = "--sim asked_worlds:Garden"


def test_find_prints_ranges_and_its_cost(capsys: pytest.CaptureFixture[str]) -> None:
    """All matches as ranges of ticks; the first one with the command that goes there."""
    assert asked(capsys, f"find 'steps % 20 < 2' garden.tape {GARDEN}").splitlines() == [
        "steps % 20 < 2: holds at 7 ticks of ticks 0 to 60",
        "  ticks 0 to 1",
        "  ticks 20 to 21",
        "  ticks 40 to 41",
        "  tick 60",
        "  61 states looked at, 60 steps simulated",
    ]
    assert asked(capsys, f"find 'steps > 33' garden.tape --first {GARDEN}").splitlines()[:2] == [
        "steps > 33: first holds at tick 34",
        f"  replay seek garden.tape {GARDEN} --tick 34 shows the state there",
    ]
    assert asked(capsys, f"find 'steps > 99' garden.tape {GARDEN}", 1).startswith(
        "steps > 99: holds at no tick of ticks"
    )
    assert "… 3 ranges more: --ranges 4, or --json" in asked(
        capsys, f"find 'steps % 20 < 2' garden.tape --ranges 1 {GARDEN}"
    )
    assert "--monotone was believed" in asked(capsys, f"find 'steps > 33' garden.tape --first --monotone {GARDEN}")
    assert "holds at 2 ticks of ticks 40 to 60" in asked(
        capsys,
        f"find 'steps in_range' garden.tape {GARDEN}".replace("steps in_range", "steps % 20 == 0") + " --ticks 40..-1",
    )


def test_find_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    """One object with all ticks, what it cost and what is not known."""
    facts = json.loads(asked(capsys, f"find 'steps % 30 == 0' garden.tape --json {GARDEN}"))

    assert facts["ticks"] == [0, 30, 60]
    assert (facts["proved"], facts["missing"], facts["examined"], facts["simulated"]) == (True, [], 61, 60)


def test_who_prints_value_line_and_inputs(capsys: pytest.CaptureFixture[str], folder: list[Any]) -> None:
    """Of a field with its phase, and of a path in objects."""
    lines = asked(capsys, f"who garden.tape --field steps {GARDEN}").splitlines()
    assert lines[0] == "steps: 59 → 60 at tick 60"
    assert lines[1].startswith("  line: ")
    assert lines[1].endswith("in Garden.step")
    assert lines[2] == '    self.state["steps"][...] += 1'
    assert lines[3].startswith("  inputs of tick 60: ")

    facts = json.loads(asked(capsys, "who battle.tape --field \"gold['red']\" --json --sim asked_worlds:Battle"))
    (write,) = facts["writes"]
    assert (write["tick"], write["before"], write["after"], write["inputs"]) == (56, 15, 18, 3)
    assert write["line"]["function"] == "Battle.step"
    still = asked(capsys, f"who garden.tape --field seed {GARDEN}", 1)
    assert still.startswith("seed: no step changed it since tick 0: 3")
    cell = next(cell for cell in np.ndindex(3, 4) if folder[-1]["heat"][cell] == 0.5)
    row = asked(capsys, f"who garden.tape --field heat --row {cell[0]},{cell[1]} --no-line {GARDEN}")
    assert row.startswith(f"heat[{cell[0]}, {cell[1]}]: ")
    assert "→ 0.5 at tick" in row


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (f"find 'stepz > 3' garden.tape {GARDEN}", "there is no 'stepz'; did you mean steps"),
        (f"find 'steps' garden.tape --first --last {GARDEN}", "--first or --last, not both"),
        (f"find 'steps > 3' garden.tape --monotone {GARDEN}", "--monotone needs --first"),
        (f"find 'heat > 3' garden.tape {GARDEN}", "one value for each row"),
        (f"find 'steps >' garden.tape {GARDEN}", "is not an expression"),
        (f"find 'steps = 4' garden.tape {GARDEN}", "; to compare, write =="),
        (f"find 'steps > 3' garden.tape --ticks 9 {GARDEN}", "expected A..B"),
        (f"find 'steps > 3' garden.tape --ticks 50..70 {GARDEN}", "the tape has ticks 0 to 60"),
        ("find 'steps > 3' nothing.tape", "nothing.tape"),
        (f"who garden.tape --field stepz {GARDEN}", "there is no 'stepz'"),
        (f"who garden.tape --field heat --row x {GARDEN}", "expected an index"),
        (f"who garden.tape --field heat --row 1,2,3 {GARDEN}", "has 2 axes"),
        (f"who garden.tape --field plants.energy --row 1 --id 2 {GARDEN}", "not both"),
        (f"who garden.tape --field steps --at 99 {GARDEN}", "the tape has ticks 0 to 60"),
        ("who battle.tape --field knights --sim asked_worlds:Battle", "name one value in it"),
    ],
)
def test_a_mistake_gets_one_line(capsys: pytest.CaptureFixture[str], line: str, why: str) -> None:
    """And the exit code of a mistake; nothing is written."""
    before = sorted(Path().iterdir())
    assert run(replayer.commands.main.main, line) in (2, 5)
    assert_one_line(capsys.readouterr(), why)
    assert sorted(Path().iterdir()) == before


def test_values_of_the_standard_library_are_printed_as_they_are(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Without quotes; in JSON as texts."""
    with recorder.record(test_written_kinds.Game(), tmp_path / "kinds.tape", quiet=True, trial_ms=0) as game:
        game.step()
    line = "who kinds.tape --sim tests.replayer.search.test_written_kinds:Game --field"
    assert asked(capsys, f"{line} money").startswith("money: 100 → 101 at tick 1\n")
    assert asked(capsys, f"{line} mood").startswith("mood: Mood.CALM → Mood.ANGRY at tick 1\n")
    assert json.loads(asked(capsys, f"{line} day --json"))["writes"][0]["after"] == "2024-03-02"
