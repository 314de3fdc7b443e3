"""What tests of the search for the first bad commit share."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from git_histories import History


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of temporary folders: it must be empty after each command."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.fixture
def history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> History:
    """An empty repository, in which the commands are called."""
    made = History(tmp_path / "game")
    monkeypatch.chdir(made.folder)
    return made
