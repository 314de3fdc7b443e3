"""``replay tree``: each branch under the run that it leaves, by what the tapes say of themselves."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from asked_worlds import Garden, garden_run
from sharded_runs import record_in_shards

import replayer
import replayer.commands.main
from recorder.storage.tape_copy import TapeCopy, copied_meta
from replayer.tape.copied_range import copy_range
from replayer.tape.tape import Tape

from oracle.command_lines import assert_one_line, run

GIFT = {"row": 2, "food": 7}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two runs; branches of one of them, and of a branch."""
    monkeypatch.chdir(tmp_path)
    Path("runs/far").mkdir(parents=True)
    garden_run(Path("runs/run.tape"), 3, 60, 20)
    garden_run(Path("runs/other.tape"), 4, 60, 20)
    with replayer.open("runs/run.tape", Garden) as first:
        with first.branch("runs/a.tape", at=40) as branch:
            branch.run(50, instead={45: GIFT})
        with first.branch("runs/b.tape", at=20, standalone=True) as branch:
            branch.run(30)
    with replayer.open("runs/a.tape", Garden) as second, second.branch("runs/far/c.tape", at=46) as branch:
        branch.run(50, {47: GIFT})


def asked(capsys: pytest.CaptureFixture[str], line: str) -> str:
    """What a command prints."""
    assert run(replayer.commands.main.main, line) == 0
    return capsys.readouterr().out


def test_a_family_is_drawn(capsys: pytest.CaptureFixture[str]) -> None:
    """Branches in the order in which they leave, files that are not tapes at the end."""
    Path("runs/notes.tape").write_text("no tape")
    assert asked(capsys, "tree runs").splitlines() == [
        "runs: 5 tapes, 3 branches",
        "other.tape: ticks 0 to 60",
        "run.tape: ticks 0 to 60",
        "├─ at 20  b.tape: to tick 30, the same to tick 30",
        "└─ at 40  a.tape: to tick 50, first different at tick 45",
        "   └─ at 46  far/c.tape: to tick 50, first different at tick 47",
        "not read: notes.tape: this is not a tape",
    ]
    facts = json.loads(asked(capsys, "tree runs --json"))
    assert [(one["tape"], one["parent"], one["fork_tick"]) for one in facts["tapes"]] == [
        ("a.tape", "run.tape", 40),
        ("b.tape", "run.tape", 20),
        ("far/c.tape", "a.tape", 46),
        ("other.tape", None, None),
        ("run.tape", None, None),
    ]


def test_a_parent_that_was_moved_renamed_or_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    """It is found by its run and its state; otherwise that is said."""
    Path("runs/run.tape").rename("runs/far/renamed.tape")
    assert "far/renamed.tape: ticks 0 to 60\n├─ at 20  b.tape" in asked(capsys, "tree runs")
    Path("runs/far/renamed.tape").unlink()
    out = asked(capsys, "tree runs").splitlines()
    assert "a.tape: ticks 40 to 50 (its parent run.tape is not in this folder)" in out
    garden_run(Path("runs/run.tape"), 3, 60, 20)
    assert "a.tape: ticks 40 to 50 (runs/run.tape is another run than its parent)" in asked(capsys, "tree runs")


def test_a_name_in_a_tape_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever text it has."""
    with Tape("runs/a.tape") as tape:
        parent = {**tape.meta["parent"], "run": "x", "path": "\x1b[31mred\nline"}
        with TapeCopy("runs/odd.tape", tape.assembled.run_id, copied_meta(tape.assembled, parent=parent)) as copy:
            copy_range(tape, copy, 40, 50)
            copy.finish({"reason": "closed"})
    lines = asked(capsys, "tree runs").splitlines()
    assert "odd.tape: ticks 40 to 50 (its parent \\x1b[31mred line is not in this folder)" in lines


def test_what_is_not_a_folder_gets_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """A missing folder and a file; an empty folder has no tapes."""
    for name in ("nothing", "runs/run.tape"):
        assert run(replayer.commands.main.main, f"tree {name}") == 2
        assert_one_line(capsys.readouterr(), "expected a folder of tapes")
    Path("empty").mkdir()
    assert asked(capsys, "tree empty") == "empty: 0 tapes, 0 branches\n"


def test_tapes_of_shards_are_no_runs(capsys: pytest.CaptureFixture[str]) -> None:
    """The tape of the whole is; any other tape in a folder that is called so is one, too."""
    Path("sharded").mkdir()
    record_in_shards(Path("sharded/run.tape"), "boom-and-crash", 3, 2)
    shutil.copy("sharded/run.tape", "sharded/run.tape.shards/other.tape")
    listed = json.loads(asked(capsys, "tree sharded --json"))["tapes"]
    assert [one["tape"] for one in listed] == ["run.tape", "run.tape.shards/other.tape"]
