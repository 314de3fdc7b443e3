"""``replay shrink``: what it prints, the test that it writes, and one line for each mistake."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from failing_worlds import LEVERS, Levers, Purse, Till, lever_inputs, record_inputs
from staging import staged
from tiny_roles import Ring

import replayer
import replayer.commands.main
from recorder import Recorder

from oracle.command_lines import assert_one_line, files, run
from project_paths import SUPPORT

LEVERS_OF = "--sim failing_worlds:Levers"
TILL = "--sim failing_worlds:Till"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with a tape that breaks, and one that a raising step ended."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "test_x.py").touch()
    record_inputs(tmp_path / "levers.tape", Levers(), lever_inputs(90, (12, 40, 71)))
    with pytest.raises(KeyError):
        record_inputs(tmp_path / "till.tape", Till(), [[["lock", 0], ["sell", 1]], [["sell", 2]], [["sell", 9]]])


def asked(capsys: pytest.CaptureFixture[str], line: str, code: int = 0) -> str:
    """What a command prints."""
    assert run(replayer.commands.main.main, line) == code
    return capsys.readouterr().out


def test_the_inputs_that_are_left_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    """With their ticks, what it cost, and that the new tape verifies."""
    lines = asked(capsys, f"shrink levers.tape --until 'broken == 1' -o small.tape {LEVERS_OF}").splitlines()
    assert lines[:5] == [
        "broken == 1: needs 3 of 72 inputs of levers.tape, and comes at tick 72",
        f"  tick 13: {LEVERS[0]}",
        f"  tick 41: {LEVERS[1]}",
        f"  tick 72: {LEVERS[2]}",
        "  without any one of them, it does not come up to that tick",
    ]
    assert lines[6:] == ["  small.tape: all 73 ticks match when they are replayed"]
    assert "all 73 ticks match" in asked(capsys, f"verify small.tape {LEVERS_OF}")
    assert "shrunk from levers.tape: broken == 1 at tick 72, with 3 of 72 inputs" in asked(capsys, "info small.tape")


def test_an_exception_with_its_test(capsys: pytest.CaptureFixture[str]) -> None:
    """Items of lists are shrunk one by one; the pytest file is that of replay cut."""
    text = asked(capsys, f"shrink till.tape --raises article -o small.tape --pytest test_small.py {TILL}")
    assert '  tick 1, item 0: ["lock", 0]' in text
    assert "in Till.sell: needs 2 of 3 inputs of till.tape, and comes at tick 3" in text
    assert "replayer.verify_tape(TAPE, failing_worlds.Till)" in Path("test_small.py").read_text(encoding="utf-8")
    assert "shrunk out of till.tape" in Path("test_small.py").read_text(encoding="utf-8")
    facts = json.loads(asked(capsys, f"shrink till.tape --raises '' -o other.tape --json {TILL}"))
    assert facts["verified"]
    assert [(one["tick"], one["item"], one["value"]) for one in facts["inputs"]] == [
        (1, 0, ["lock", 0]),
        (3, None, [["sell", 9]]),
    ]


def test_a_violated_property(capsys: pytest.CaptureFixture[str]) -> None:
    """Of the tape's scenario; the world acts by itself, so that no input is needed."""
    scenario: dict[str, Any] = {"properties": [{"name": "early", "kind": "always", "when": "tick < 6"}]}
    with Recorder("ring.tape", staged(scenario, Ring()), trial_ms=0) as tape:
        for _ in range(9):
            tape.step(None)
    text = asked(capsys, "shrink ring.tape --violation early -o small.tape --sim tiny_roles:Ring")
    assert text.startswith("violation of early: needs no input of ring.tape, and comes at tick 6")
    with replayer.Tape("small.tape") as read:
        assert [tick for tick, event in read.events() if event["kind"] == "violation"] == [6]
        assert read.missing_event_ticks() == []


def test_a_violated_property_of_inputs(capsys: pytest.CaptureFixture[str]) -> None:
    """Only those are left without which a property that is named is not violated."""
    scenario: dict[str, Any] = {
        "properties": [
            {"name": "solvent", "kind": "always", "when": "cash > -5"},
            {"name": "modest", "kind": "always", "when": "cash < 3"},
        ]
    }
    with Recorder("purse.tape", staged(scenario, Purse()), trial_ms=0) as tape:
        for amounts in ([1], [2, 2], [], [-1, 3], [-9, 1], [4], [-8], [-7, 2]):
            tape.step(amounts)
    text = asked(capsys, "shrink purse.tape --violation solvent -o small.tape --sim failing_worlds:Purse")
    assert text.splitlines()[:2] == [
        "violation of solvent: needs 1 of 6 inputs of purse.tape, and comes at tick 5 (7 in the recording)",
        "  tick 5, item 0: -9",
    ]
    assert "violation" in asked(capsys, "results small.tape --sim failing_worlds:Purse", 1)
    text = asked(capsys, "shrink purse.tape --violation modest -o other.tape --sim failing_worlds:Purse")
    assert "needs 2 of 2 inputs of purse.tape, and comes at tick 2" in text


DYING = """
import os, signal
from pathlib import Path
from failing_worlds import Levers

class Dying(Levers):
    steps = 0

    def step(self, inputs):
        Dying.steps += 1
        if Dying.steps > 700 and not Path("alive").exists():
            os.kill(os.getpid(), signal.NUMBER)
        super().step(inputs)
"""


@pytest.mark.parametrize(("signal", "code"), [("SIGKILL", -9), ("SIGINT", 130)])
@pytest.mark.seldom(0.15)
def test_a_search_that_is_killed_continues(tmp_path: Path, signal: str, code: int) -> None:
    """The same command uses the results that the first one had, and removes them when the tape is written."""
    (tmp_path / "dying.py").write_text(DYING.replace("NUMBER", signal))
    line = "shrink levers.tape --until 'broken == 1' -o small.tape --sim dying:Dying --json"
    command = [sys.executable, "-m", "replayer", *shlex.split(line)]
    environment = {**os.environ, "PYTHONPATH": str(SUPPORT)}
    shrink = partial(subprocess.run, command, env=environment, capture_output=True, text=True, check=False)

    first = shrink()
    assert first.returncode == code
    assert ("the same command continues" in first.stderr) == (code == 130)
    assert Path("small.tape.progress").exists()
    assert not Path("small.tape").exists()
    Path("alive").touch()
    facts = json.loads(shrink().stdout)

    assert [one["tick"] for one in facts["inputs"]] == [13, 41, 72]
    assert facts["reused"] > 5
    assert facts["verified"]
    assert not Path("small.tape.progress").exists()


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("shrink levers.tape -o small.tape", "one of --until"),
        ("shrink levers.tape -o small.tape --until 'broken == 1' --raises ''", "one of --until"),
        (f"shrink levers.tape -o small.tape --until 'broke == 1' {LEVERS_OF}", "did you mean broken?"),
        (f"shrink levers.tape -o small.tape --until 'broken ==' {LEVERS_OF}", "not an expression"),
        (f"shrink levers.tape -o small.tape --until 'broken == 7' {LEVERS_OF}", "holds at no tick of the tape"),
        (f"shrink levers.tape -o small.tape --raises '' {LEVERS_OF}", "no step on the tape raised"),
        (f"shrink till.tape -o small.tape --raises ValueError {TILL}", "an exception with 'ValueError'"),
        (f"shrink levers.tape -o small.tape --violation few {LEVERS_OF}", "no property few"),
        (f"shrink levers.tape -o till.tape --until 'broken == 1' {LEVERS_OF}", "exists already"),
        (f"shrink levers.tape -o no/small.tape --until 'broken == 1' {LEVERS_OF}", "no/small.tape"),
        (f"shrink nothing.tape -o small.tape --until 'broken == 1' {LEVERS_OF}", "nothing.tape"),
        ("shrink levers.tape -o small.tape --until 'broken == 1'", "--sim failing_worlds:Levers"),
        (f"shrink levers.tape -o small.tape --until 'broken == 1' --empty '{{' {LEVERS_OF}", "expected JSON"),
        (f"shrink levers.tape -o small.tape --until 'broken == 1' --empty '\"x\"' {LEVERS_OF}", "no empty input"),
        (f"shrink levers.tape -o small.tape --until 'broken == 1' --pytest small.py {LEVERS_OF}", "test_*.py"),
        (f"shrink levers.tape -o small.tape --until 'broken == 1' --pytest test_x.py {LEVERS_OF}", "exists already"),
    ],
)
def test_a_mistake_gets_one_line_and_writes_nothing(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, line: str, why: str
) -> None:
    """All files stay as they were."""
    before = files(tmp_path)
    assert run(replayer.commands.main.main, line) in (2, 5)
    assert_one_line(capsys.readouterr(), why)
    assert files(tmp_path) == before
