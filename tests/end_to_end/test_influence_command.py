"""``replay influence``: what it prints, as text and as JSON, and one line for each mistake."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from failing_worlds import Ledger, Till, record_inputs

import replayer.commands.main

from oracle.command_lines import assert_one_line, files, run

LEDGER = "--sim failing_worlds:Ledger"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with a tape of a ledger with two doors and a check."""
    monkeypatch.chdir(tmp_path)
    inputs = [[[2, 1]] for _ in range(40)]
    inputs[3], inputs[7], inputs[30] = [["door", 0]], [["door", 0], [1, 4]], [["check", 0]]
    record_inputs(tmp_path / "run.tape", Ledger(), inputs)
    with pytest.raises(KeyError):
        record_inputs(tmp_path / "till.tape", Till(), [[["lock", 0], ["sell", 1]], [["sell", 9]]])


def asked(capsys: pytest.CaptureFixture[str], line: str, code: int = 0) -> str:
    """What a command prints."""
    assert run(replayer.commands.main.main, line) == code
    return capsys.readouterr().out


def test_what_is_printed_says_what_was_tested(capsys: pytest.CaptureFixture[str]) -> None:
    """Inputs alone, sets, all others together, and what is not known."""
    lines = asked(capsys, f"influence run.tape --field alarm {LEDGER}").splitlines()
    assert lines[:-1] == [
        "alarm at tick 40 is 1: 1 of 40 inputs up to there change it when left out alone",
        '  tick 31, [["check", 0]]: without it 0',
        "  only together, 2 inputs:",
        '    tick 4, [["door", 0]]',
        '    tick 8, [["door", 0], [1, 4]]',
        "  all others left out together: the same value",
        "  not tested: inputs that cancel each other in a group; --each leaves out every one alone",
    ]
    text = asked(capsys, f"influence run.tape --field account --row 1 --tick 20 {LEDGER}")
    assert "  tick 8, item 1, [1, 4]: without it 0" in text
    assert "not tested" not in asked(capsys, f"influence run.tape --field alarm --each {LEDGER}")
    text = asked(capsys, f"influence run.tape --field account --row 0 {LEDGER}", 1)
    assert text.startswith("account[0] at tick 40 is 0: 0 of 40 inputs")


def test_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    """One object; what a step raises without an input is no value."""
    facts = json.loads(asked(capsys, f"influence run.tape --field alarm --json {LEDGER}"))
    assert facts["inputs"] == [{"tick": 31, "item": None, "value": [["check", 0]], "without": 0, "raised": None}]
    assert [[one["tick"] for one in group] for group in facts["together"]] == [[4, 8]]
    assert (facts["is_now"], facts["tick"], facts["others_change"], facts["each"]) == (1, 40, False, False)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (f"influence run.tape --field alrm {LEDGER}", "did you mean alarm?"),
        (f"influence run.tape --field account --row x {LEDGER}", "--row x"),
        (f"influence run.tape --field account --row 1 --id 3 {LEDGER}", "not both"),
        (f"influence run.tape --field alarm --at 41 {LEDGER}", "ticks 0 to 40"),
        (f"influence run.tape --field alarm --empty nothing {LEDGER}", "expected JSON"),
        (f"influence run.tape --field alarm --empty 3 {LEDGER}", "takes no empty input"),
        ("influence run.tape --field alarm", "--sim failing_worlds:Ledger"),
        (f"influence nothing.tape --field alarm {LEDGER}", "nothing.tape"),
    ],
)
def test_a_mistake_gets_one_line(capsys: pytest.CaptureFixture[str], tmp_path: Path, line: str, why: str) -> None:
    """And no file is made."""
    before = files(tmp_path)
    assert run(replayer.commands.main.main, line) in (2, 5)
    assert_one_line(capsys.readouterr(), why)
    assert files(tmp_path) == before
