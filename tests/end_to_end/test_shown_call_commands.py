"""``replay shrink`` and ``influence`` of a recorded object: its calls are printed with their arguments."""

from __future__ import annotations

import enum
import json
from pathlib import Path
from typing import Any

import pytest

import recorder
import replayer.commands.main

from oracle.command_lines import run


class Kind(enum.Enum):
    """An order."""

    HIT = 1
    WAIT = 2


class Game:
    """Counts the hits that a target gets."""

    def __init__(self) -> None:
        self.targets: list[list[int]] = [[9], [9]]
        self.hits = 0

    def play(self, kind: Any = None, target: Any = None) -> None:
        """Hit a target, or wait."""
        if kind is Kind.HIT:
            target[0] -= 1
            self.hits += 1


@pytest.mark.parametrize("command", ["influence run.tape --field hits", "shrink run.tape --until hits>1 -o small.tape"])
def test_calls_are_printed_with_their_arguments(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As text and as JSON."""
    monkeypatch.chdir(tmp_path)
    with recorder.record(Game(), "run.tape", step="play", quiet=True, trial_ms=0) as game:
        for kind in (Kind.HIT, Kind.WAIT, Kind.HIT):
            game.play(kind, game.targets[1])
    sim = f"--sim {__name__}:Game"
    call: Any = {"play()": [["Kind.HIT", "targets[1]"], {}]}
    assert run(replayer.commands.main.main, f"{command} {sim}") == 0
    assert capsys.readouterr().out.count(json.dumps(call)) == 2
    assert run(replayer.commands.main.main, f"{command} {sim} --json".replace("small", "other")) == 0
    told = json.dumps(json.loads(capsys.readouterr().out))
    assert told.count(json.dumps(call)) == 2
