"""Simulations that print, or that end their process: the output of a command stays what it promises."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import recorder

GAME = """
import os

class Noisy:
    def __init__(self):
        self.x = 0
        print("made")

    def advance(self):
        self.x += 1
        print("step", self.x)
        if self.x == 30 and "DIE" in os.environ:
            os._exit(9)
"""
COMMANDS = ["seek run.tape --tick 20", "verify run.tape", "check noisy_game:Noisy --step advance", "explain run.tape"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a game and a tape of 40 ticks."""
    (tmp_path / "noisy_game.py").write_text(GAME)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "noisy_game", raising=False)
    game_class = importlib.import_module("noisy_game").Noisy

    with recorder.record(game_class(), "run.tape", step="advance", quiet=True) as game:
        for _ in range(40):
            game.advance()
    return tmp_path


def replay(folder: Path, words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a command in its own process: the prints of its workers count, too."""
    sim = [] if words.startswith("check") else ["--sim", "noisy_game:Noisy"]
    command = [Path(sys.executable).with_name("replay"), *words.split(), *sim]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), *sys.path]), **variables}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.sample(2)
@pytest.mark.parametrize("words", COMMANDS)
def test_json_stands_alone_on_stdout(words: str, folder: Path) -> None:
    """What the simulation prints is on stderr."""
    done = replay(folder, f"{words} --json")

    facts: Any = json.loads(done.stdout)
    assert isinstance(facts, dict)
    assert done.returncode == 0, done.stderr


def test_errors_are_json_too(folder: Path) -> None:
    done = replay(folder, "seek run.tape --tick 99 --json")

    assert json.loads(done.stdout)["exit_code"] == done.returncode == 2


@pytest.mark.parametrize("words", ["verify run.tape", "extract run.tape -o data"])
def test_a_step_that_ends_its_process_is_one_line(words: str, folder: Path) -> None:
    """No traceback. A data set that was begun can be continued."""
    done = replay(folder, words, DIE="1")

    lines = [line for line in done.stderr.splitlines() if line.startswith(("error: ", "Traceback"))]
    assert len(lines) == 1
    assert lines[0].startswith("error: the process that ")
    assert lines[0].endswith(" died with exit code 9")
    assert done.returncode == 2
    assert {path.name for path in folder.iterdir()} - {"__pycache__", "data.unfinished"} == {
        "noisy_game.py",
        "run.tape",
    }
