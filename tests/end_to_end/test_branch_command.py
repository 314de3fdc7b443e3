"""``replay branch``: what it prints, with which commands its tape works, and one line for each mistake."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from asked_worlds import Garden, battle_run, garden_run

import recorder.commands.main
import replayer
import replayer.commands.main
from recorder.format.blocks.block import BlockKind
from replayer.tape.tape import Tape

from oracle.command_lines import assert_one_line, files, run
from project_paths import ROOT

GARDEN = "--sim asked_worlds:Garden"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with a tape of fields and one of objects, of 60 ticks each, and files of inputs."""
    monkeypatch.chdir(tmp_path)
    garden_run(tmp_path / "garden.tape", 3, 60, 20)
    battle_run(tmp_path / "battle.tape", 3, 60, 20)
    (tmp_path / "gift.jsonl").write_text('{"tick": 45, "inputs": {"row": 2, "food": 7}}\n')
    (tmp_path / "none.jsonl").write_text("")
    (tmp_path / "early.jsonl").write_text('{"tick": 3, "inputs": null}\n')
    (tmp_path / "bad.jsonl").write_text('{"tick": 45, "inputs": {"row": 77, "food": 7}}\n')
    (tmp_path / "broken.jsonl").write_text('{"tick": 45\n')


def asked(capsys: pytest.CaptureFixture[str], line: str, code: int = 0) -> str:
    """What a command prints."""
    assert run(replayer.commands.main.main, line) == code
    return capsys.readouterr().out


def test_a_branch_is_an_ordinary_tape(capsys: pytest.CaptureFixture[str]) -> None:
    """Seek, verify, diff, ls, find, who, cut and extract work with its own ticks; seek with those of the parent, too."""
    out = asked(capsys, f"branch garden.tape --at 40 --override gift.jsonl -o way.tape {GARDEN}")
    assert out.splitlines()[0].startswith("way.tape: ticks 40 to 60, a branch of garden.tape at tick 40, ")
    assert out.splitlines()[1:] == [
        "  the same to tick 44, first different at tick 45",
        f"  next: replay diff garden.tape way.tape {GARDEN}",
    ]
    out = asked(capsys, f"diff garden.tape way.tape {GARDEN}", code=1)
    assert out.startswith("garden.tape and way.tape: the same to tick 44, first different at tick 45 of 40 to 60")
    assert "all 21 ticks match" in asked(capsys, f"verify way.tape {GARDEN}")
    assert "tick 50 of way.tape: keyframe at tick 40" in asked(capsys, f"seek way.tape --tick 50 {GARDEN}")
    assert "tick 33 of way.tape: keyframe at tick 20" in asked(capsys, f"seek way.tape --tick 33 {GARDEN}")
    row = next(line for line in asked(capsys, "ls .").splitlines() if line.startswith("way.tape"))
    assert "  20 (40 to 60)  " in row
    assert "a branch of garden.tape at tick 40" in asked(capsys, "info way.tape")
    assert "ticks 45 to 60" in asked(capsys, f"find 'tick >= 45' way.tape {GARDEN}")
    assert "at tick 45" in asked(capsys, f"who way.tape --field plants.energy --row 2 --tick 45 --no-line {GARDEN}")
    assert "ticks 45 to 50" in asked(capsys, f"cut way.tape --ticks 45..50 --exact -o part.tape {GARDEN}")
    assert run(replayer.commands.main.main, f"seek part.tape --tick 42 {GARDEN}") == 2
    assert_one_line(capsys.readouterr(), "the tape has ticks 45 to 50")  # Those before are not the parent's.
    assert "tick 40 of part.tape" in asked(capsys, f"seek part.tape --tick 40 {GARDEN}")
    asked(capsys, f"extract way.tape -o data {GARDEN}")


@pytest.mark.seldom(0.1)
def test_a_branch_is_explained_against_its_parent(capsys: pytest.CaptureFixture[str]) -> None:
    """By the inputs that differ."""
    asked(capsys, f"branch garden.tape --at 40 --override gift.jsonl -o way.tape {GARDEN}")
    explained = asked(capsys, f"explain garden.tape way.tape {GARDEN}", code=1)
    assert "cause: the inputs of tick 45: None in A" in explained


def test_without_arguments_nothing_differs(capsys: pytest.CaptureFixture[str]) -> None:
    """As JSON, too; with --standalone all ticks are in one file, which needs no other."""
    facts = json.loads(asked(capsys, f"branch garden.tape --at 33 -o way.tape --standalone --json {GARDEN}"))
    assert facts == {
        "path": "way.tape",
        "parent": "garden.tape",
        "fork_tick": 33,
        "first_tick": 0,
        "last_tick": 60,
        "first_different": None,
        "compared_to": 60,
        "size_bytes": Path("way.tape").stat().st_size,
    }
    assert "the same" in asked(capsys, "diff garden.tape way.tape")
    Path("garden.tape").unlink()
    assert "tick 5 of way.tape" in asked(capsys, f"seek way.tape --tick 5 {GARDEN}")


def test_all_inputs_can_be_given(capsys: pytest.CaptureFixture[str]) -> None:
    """Ticks without a line have none; the branch may be longer than its parent, and be continued."""
    line = f"branch garden.tape --at 50 --inputs none.jsonl --until 70 -o way.tape {GARDEN}"
    assert "ticks 50 to 70" in asked(capsys, line)
    with replayer.open("way.tape", Garden) as way:
        assert [way.tape.frame(tick).inputs for tick in range(51, 71)] == [None] * 20
    assert run(recorder.commands.main.main, f"resume way.tape --ticks 75 {GARDEN}") == 0
    capsys.readouterr()
    assert "all 26 ticks match" in asked(capsys, f"verify way.tape {GARDEN}")


def test_objects_and_a_tick_that_other_code_does_not_reach(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A keyframe is left without the parent's code; any other tick needs it, by --parent-sim."""
    source = (ROOT / "tests" / "support" / "asked_worlds.py").read_text(encoding="utf-8")
    (tmp_path / "fury.py").write_text(source.replace("knight.hp -= damage", "knight.hp -= 2 * damage"))
    monkeypatch.syspath_prepend(tmp_path)
    out = asked(capsys, "branch battle.tape --at 20 -o a.tape --sim fury:Battle")
    assert "first different at tick 2" in out
    line = "branch battle.tape --tick 33 -o b.tape --sim fury:Battle"
    assert run(replayer.commands.main.main, line) == 2
    assert_one_line(capsys.readouterr(), "name the simulation that was recorded with --parent-sim")
    assert not Path("b.tape").exists()
    out = asked(capsys, f"{line} --parent-sim asked_worlds:Battle")
    assert "b.tape: ticks 33 to 60" in out
    assert "all 28 ticks match" in asked(capsys, "verify b.tape --sim fury:Battle")


POND = """
import numpy as np
from sim import Field, Schema, State

class Pond:
    def __init__(self):
        self.state = State(Schema(Field("waves", "i8", (8,)), Field("stones", "i8"), Field("wind", "i8")))

    def step(self, inputs):
        state = self.state
        state["wind"][...] += 1
        state["waves"][...] //= 2
        if inputs:
            state["waves"][:] += inputs
            state["stones"][...] += 1
"""


def test_branches_that_come_back_but_for_a_counter(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """diff says which fields still differ at the last tick, if they are few; nothing if none does."""
    (tmp_path / "pond.py").write_text(POND)
    (tmp_path / "stone.jsonl").write_text('{"tick": 12, "inputs": 100}\n')
    monkeypatch.syspath_prepend(tmp_path)
    import pond  # type: ignore[import-not-found]

    with recorder.Recorder("pond.tape", pond.Pond(), trial_ms=0) as tape:
        for _ in range(30):
            tape.step(0)
    asked(capsys, "branch pond.tape --at 10 --override stone.jsonl -o ripples.tape --sim pond:Pond")
    out = asked(capsys, "diff pond.tape ripples.tape --sim pond:Pond", code=1)
    assert "  at tick 30: the same but for stones (1 row)\n" in out
    facts = json.loads(asked(capsys, "diff pond.tape ripples.tape --sim pond:Pond --json", code=1))
    assert facts["last_rows"] == {"stones": 1}
    facts = json.loads(asked(capsys, "diff pond.tape ripples.tape --sim pond:Pond --ticks 3 --json", code=1))
    assert facts["last_rows"] == {"waves": 8, "stones": 1}


def test_a_damaged_tape_is_left_where_it_can_be_reached(capsys: pytest.CaptureFixture[str]) -> None:
    """A tick that damage hides has exit code 4, and nothing is written; all others can be left."""
    content = bytearray(Path("garden.tape").read_bytes())
    with Tape("garden.tape") as whole:
        blocks = [entry for part in whole.segments[0].parts for entry in part.load().entries()]
        frames = next(one.offset for one in blocks if one.kind == BlockKind.FRAMES and one.first_tick == 21)
    content[frames + 100 : frames + 140] = bytes(40)
    Path("broken.tape").write_bytes(content)
    codes = {}
    for at in range(0, 60, 7):
        line = f"branch broken.tape --at {at} --inputs none.jsonl --until 60 -o at-{at}.tape {GARDEN}"
        codes[at] = run(replayer.commands.main.main, line)
        captured = capsys.readouterr()
        assert Path(f"at-{at}.tape").exists() == (codes[at] == 0)
        if codes[at]:
            assert captured.out == ""
            assert "error: " in captured.err
        else:
            assert run(replayer.commands.main.main, f"verify at-{at}.tape {GARDEN}") == 0
            capsys.readouterr()
    assert codes == {at: 4 if 20 < at < 40 else 0 for at in range(0, 60, 7)}


def test_a_tape_that_is_being_recorded_can_be_left(capsys: pytest.CaptureFixture[str]) -> None:
    """At a tick that is on it; the recording is not disturbed."""
    with recorder.Recorder("live.tape", Garden(3), keyframe_interval_ticks=10, trial_ms=0) as tape:
        for _ in range(25):
            tape.step(None)
        tape.flush()
        assert "ticks 13 to 20" in asked(capsys, f"branch live.tape --at 13 --until 20 -o way.tape {GARDEN}")
        for _ in range(5):
            tape.step(None)
    assert "all 31 ticks match" in asked(capsys, f"verify live.tape {GARDEN}")
    assert "all 8 ticks match" in asked(capsys, f"verify way.tape {GARDEN}")


def test_parameters_of_a_world(capsys: pytest.CaptureFixture[str]) -> None:
    """By --set, as they are called in the scenario."""
    assert run(recorder.commands.main.main, "run quiet-meadow --ticks 40 -o meadow.tape -q") == 0
    out = asked(capsys, "branch meadow.tape --at 25 --set seed=12 -o other.tape")
    assert "other.tape: ticks 25 to 40" in out
    with replayer.open("other.tape") as other:
        assert other.tape.meta["world"]["config"]["seed"] == 12
    assert run(replayer.commands.main.main, "branch meadow.tape --at 25 --set nonsense=12 -o b.tape") == 2
    assert_one_line(capsys.readouterr(), "nonsense")
    assert not Path("b.tape").exists()


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("branch garden.tape --at 61 -o way.tape", "the tape has ticks 0 to 60"),
        ("branch garden.tape --at 60 -o way.tape", "expected a later last tick"),
        ("branch garden.tape --at 30 --until 30 -o way.tape", "expected a later last tick"),
        ("branch garden.tape --at 30 --until 61 -o way.tape", "the inputs of tick 61 cannot be taken from the parent"),
        ("branch garden.tape --at 30 --override early.jsonl -o way.tape", "tick 3 is not one of the branch, 31 to 60"),
        ("branch garden.tape --at 30 --override broken.jsonl -o way.tape", "broken.jsonl, line 1"),
        (
            "branch garden.tape --at 30 --override bad.jsonl -o way.tape",
            "the step to tick 45 of the branch raised IndexErr",
        ),
        ("branch garden.tape --at 30 --override nothing.jsonl -o way.tape", "nothing.jsonl"),
        ("branch garden.tape --at 30 --override gift.jsonl --inputs gift.jsonl -o way.tape", "got both"),
        ("branch garden.tape --at 30 --set seed -o way.tape", "expected KEY=VALUE"),
        ("branch garden.tape --at 30 --set seed=3 -o way.tape", "no registered world"),
        ("branch garden.tape --at 30 -o garden.tape", "exists already"),
        ("branch garden.tape --at 30 -o nowhere/way.tape", "nowhere"),
        ("branch nothing.tape --at 30 -o way.tape", "nothing.tape"),
        ("branch gift.jsonl --at 30 -o way.tape", "gift.jsonl"),
        (
            "seek orphan.tape --tick 12",
            "orphan.tape begins at tick 40, and the tape of its parent, gone.tape, is missing",
        ),
        ("branch orphan.tape --at 12 -o way.tape", "is missing"),
    ],
)
def test_a_mistake_gets_one_line_and_writes_nothing(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, line: str, why: str
) -> None:
    """All files stay as they were."""
    if "orphan" in line:
        shutil.copy("garden.tape", "gone.tape")
        asked(capsys, f"branch gone.tape --at 40 -o orphan.tape {GARDEN}")
        Path("gone.tape").unlink()
    before = files(tmp_path)
    assert run(replayer.commands.main.main, f"{line} {GARDEN}") in (2, 5)
    assert_one_line(capsys.readouterr(), why)
    assert files(tmp_path) == before


def test_without_a_simulation_it_is_asked_for(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """In one line."""
    before = files(tmp_path)
    assert run(replayer.commands.main.main, "branch garden.tape --at 30 -o way.tape") == 2
    assert_one_line(capsys.readouterr(), "--sim")
    assert files(tmp_path) == before
