"""Lines that wrote a field, of a simulation that saves its attributes: those of the step, not that of save()."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import replayer.commands.main
from recorder import Recorder

from oracle.command_lines import run

MODULE = """
import numpy as np


class Arena:
    damage = 2

    def __init__(self):
        self.health, self.turn, self.teams = np.full(5, 90), 0, [[1, 2], [3]]

    def step(self, inputs):
        self.turn += 1
        self.health[self.turn % 5] -= self.damage
        self.teams[0][0] += self.damage

    def save(self):
        return {"hp": self.health, "turn": np.int64(self.turn), "team": np.array(sum(self.teams, []))}

    def load(self, saved):
        self.health, self.turn = saved["hp"].copy(), int(saved["turn"])
        first, second, third = saved["team"].tolist()
        self.teams = [[first, second], [third]]


class Edited(Arena):
    damage = 3
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A folder with the module, and a tape of its first class."""
    (tmp_path / "saved_arena.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    with Recorder("run.tape", importlib.import_module("saved_arena").Arena(), trial_ms=0, blame="fields") as tape:
        for _ in range(4):
            tape.step()
    yield
    sys.modules.pop("saved_arena", None)


@pytest.mark.seldom(0.18)
def test_the_line_of_the_step_is_named_for_a_field_of_save(capsys: Any) -> None:
    """Each field that differs has the line that changed what save() returns as it; those that do not differ have none."""
    assert run(replayer.commands.main.main, "explain run.tape --sim saved_arena:Edited --tick 1") == 1
    written = capsys.readouterr().out.partition("lines that wrote")[2].partition("\n\n")[0]

    lines = MODULE.splitlines()
    numbers = {text: lines.index(f"        {text}") + 1 for text in map(str.strip, lines) if text.startswith("self.")}
    assert written.splitlines()[1:] == [
        f"    {f'saved_arena.py:{numbers[text]}':<20} {field}: {text}"
        for field, text in (
            ("hp", "self.health[self.turn % 5] -= self.damage"),
            ("team", "self.teams[0][0] += self.damage"),
        )
    ]
