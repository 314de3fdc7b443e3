"""Checkpoints are listed by time, newest first, with time, tick, run and size, by a command; a run continues from each."""

from __future__ import annotations

import json
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import Any

import pytest
from tiny_roles import Ring

import recorder.commands.main
from recorder.scenarios import run_with_scenario

from oracle.command_lines import assert_one_line, run


class Clock:
    """The time of day that checkpoints are written at."""

    hour = 0

    @classmethod
    def now(cls, _: tzinfo) -> datetime:
        return datetime(2026, 1, 2, cls.hour, tzinfo=UTC)


def run_at(hour: int, name: str, seed: int) -> Any:
    """Run a scenario with two checkpoints at this hour."""
    Clock.hour = hour
    return run_with_scenario(Ring(), {"name": name, "seed": seed, "checkpoint_interval": 3}, steps=7)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the checkpoints of two runs: the one of the later ticks was written first."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("recorder.session.tape_meta.datetime", Clock)
    run_at(9, "late", 1)
    run_at(11, "early", 2)
    Path("artifacts/late/checkpoint_6.tape").rename("artifacts/late/checkpoint_60.tape")
    Path("artifacts/late/checkpoint_7.tape").touch()
    return tmp_path


def test_checkpoints_are_listed_by_time_newest_first(capsys: pytest.CaptureFixture[str]) -> None:
    """By the time of writing, not by tick, name or folder; within a second, the later tick is the newer one."""
    run(recorder.commands.main.main, "checkpoints")
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "4 checkpoints"
    assert lines[1].split() == ["time", "tick", "run", "size", "checkpoint"]
    assert [line.split()[:2] for line in lines[2:6]] == [
        ["2026-01-02T11:00:00+00:00", "6"],
        ["2026-01-02T11:00:00+00:00", "3"],
        ["2026-01-02T09:00:00+00:00", "6"],
        ["2026-01-02T09:00:00+00:00", "3"],
    ]
    assert ["early, seed 2" in line for line in lines[2:6]] == [True, True, False, False]
    assert lines[6] == "ignored artifacts/late/checkpoint_7.tape: it is empty"
    assert lines[7] == "next: record run SCENARIO --from artifacts/early/checkpoint_6.tape"


def test_a_run_continues_from_each_listed_checkpoint(capsys: pytest.CaptureFixture[str]) -> None:
    """The facts of --json are those of the files, and each path leads to the end of its run."""
    run(recorder.commands.main.main, "checkpoints artifacts/late --json")
    facts = json.loads(capsys.readouterr().out)
    assert list(facts["ignored"]) == ["artifacts/late/checkpoint_7.tape"]
    scenario = {"name": "late", "seed": 1, "checkpoint_interval": 3}
    whole = run_with_scenario(Ring(), scenario, steps=9, artifacts=Path("other"))
    assert [entry["tick"] for entry in facts["checkpoints"]] == [6, 3]
    for entry in facts["checkpoints"]:
        path = Path(entry["path"])
        assert (entry["bytes"], entry["run"]) == (path.stat().st_size, "late, seed 1")
        rest = run_with_scenario(Ring(), scenario, steps=9, start=path, artifacts=Path("other"))
        assert rest.final_hash == whole.final_hash


def test_a_folder_that_is_none(capsys: pytest.CaptureFixture[str]) -> None:
    """One line, and exit code 2."""
    assert run(recorder.commands.main.main, "checkpoints nowhere") == 2
    assert_one_line(capsys.readouterr(), "nowhere is not a folder: runs with a checkpoint_interval write checkpoints")
