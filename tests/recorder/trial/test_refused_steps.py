"""A step that a trial refuses something, such as to write a file, is not said to run in another way than recorded."""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path

import pytest

import recorder
from recorder import RecordingWarning

pytestmark = [pytest.mark.tried, pytest.mark.skipif(sys.platform != "linux", reason="a trial needs Linux")]


class Journal:
    """Sound: it writes a page and takes it away again, from the fifth step on."""

    def __init__(self) -> None:
        self.day = 0

    def advance(self, page: int) -> None:
        """Make a step."""
        self.day += page
        if self.day > 4:
            Path("page.txt").write_text(str(self.day))
            os.remove("page.txt")  # noqa: PTH107 - a call that a trial refuses


def test_a_sound_game_that_writes_files_has_no_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The steps before the first refused one are tried, and nothing is said of that one."""
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RecordingWarning)
        with recorder.record(Journal(), "run.tape", step="advance", trial_ms=2000) as game:
            for _ in range(12):
                game.advance(1)

    printed = capsys.readouterr().err
    assert "does not run again" not in printed
    assert "tried 1 run of 4 steps" in printed
