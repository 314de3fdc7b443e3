"""A misspelt name of a file: the one that is named exists, and no other is named."""

from __future__ import annotations

from pathlib import Path

import pytest

import replayer.commands.main
from recorder.console.near_files import files_near

from oracle.command_lines import run


@pytest.mark.parametrize(
    ("typed", "hint"),
    [
        ("harbour.tape", "; did you mean harbor.tape?"),
        ("HARBOR.tape", "; did you mean harbor.tape?"),
        ("harbor", "; did you mean harbor.tape?"),
        ("rnus/a.tape", ""),
        ("runs/harber.tape", "; did you mean runs/harbor.tape?"),
        ("harbour.toml", ""),
        ("meadow.tape", ""),
        ("b.tape", ""),
        ("gone.tape", ""),
        ("s3://bucket/harbour.tape", ""),
        ("x" * 5_000, ""),
    ],
)
def test_files_that_are_near(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, typed: str, hint: str) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").mkdir()
    for name in ("harbor.tape", "a.tape", "ash.txt", "runs/harbor.tape"):
        (tmp_path / name).write_bytes(b"")
    (tmp_path / "gone.tape").symlink_to(tmp_path / "nowhere")
    assert files_near(typed) == hint
    assert files_near(typed.encode()) == hint


def test_a_command_names_the_file_that_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "harbor.tape").write_bytes(b"")
    assert run(replayer.commands.main.main, "seek harbour.tape --tick 3") == 2
    assert capsys.readouterr().err == ("error: harbour.tape: No such file or directory; did you mean harbor.tape?\n")
