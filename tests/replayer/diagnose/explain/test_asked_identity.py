"""A line that asks whether two equal values are one object: of a restore they may be two."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

import recorder
import replayer.commands.main

from oracle.command_lines import run

CISTERN = """
class Cistern:
    def __init__(self):
        self.level, self.brim, self.hours, self.spilt = 1000, 1000, 0, 0

    def is_full(self):
        return self.level IS self.brim  # ASKED

    def step(self, inputs):
        self.hours += 1
        self.spilt += 7 if self.hours > 4 and self.is_full() else 1
"""


@pytest.mark.parametrize("operator", ["is", "is not"])
def test_what_is_one_object_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], operator: str
) -> None:
    """The number is one object in the run that was recorded, and two after a restore: no value differs before the line."""
    module = f"cistern_{operator.replace(' ', '_')}"
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    text = CISTERN.replace("IS", operator)
    Path(f"{module}.py").write_text(text)
    made = importlib.import_module(module).Cistern()
    cistern = recorder.record(made, "run.tape", step="step", trial_ms=0, keyframe_interval_ticks=4)
    for _ in range(6):
        cistern.step(None)
    cistern.close()
    capsys.readouterr()

    assert run(replayer.commands.main.main, f"explain run.tape --sim {module}:Cistern --tick 5") == 1
    printed = capsys.readouterr().out
    line = next(number for number, one in enumerate(text.splitlines(), 1) if "# ASKED" in one)
    assert (
        "cause: self.level and self.brim are one object in A and two equal ones in B, and this line asks whether they "
        f"are one (is)\n  {module}.py:{line} in Cistern.is_full" in printed
    )
