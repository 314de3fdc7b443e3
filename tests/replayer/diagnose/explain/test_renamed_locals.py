"""Two versions of the code in which harmless edits stand beside the one that makes the difference."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

import pytest

import recorder
import replayer.commands.main

from oracle.command_lines import run

KILN = """
class Kiln:
    def __init__(self):
        self.heat, self.hour = 20.0, 0

    def step(self, inputs):
        self.hour += 1
        self.heat += self.gain()

    def gain(self):
        {gain}
"""
OLD = "need = 90.0 - self.heat\n        share = 0.5 if need > 8.0 else 0.25\n        return min(share, need)"

RENAMED = """left = 90.0 - self.heat
        share = (0.5 if left > 8.0 else 0.25) * (2 if self.hour > 3 else 1)
        return min(share, left)"""
LAID_OUT = """left = (
            90.0 - self.heat
        )
        share = 0.5 if left > 8.0 else 0.25
        return min(share, left) + (self.hour > 3)"""


@pytest.fixture(autouse=True)
def _apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)


def explained(capsys: pytest.CaptureFixture[str], name: str, old: str, new: str, ticks: int = 6) -> dict[str, Any]:
    """Record the old version of a module, put the new one in its place, and explain the difference."""
    Path("old").mkdir()
    for path, text in ((Path("old/kiln.py"), old), (Path("kiln.py"), old)):
        path.write_text(text)
    sys.modules.pop("kiln", None)
    kiln = recorder.record(getattr(importlib.import_module("kiln"), name)(), "run.tape", step="step", trial_ms=0)
    for _ in range(ticks):
        kiln.step(None)
    kiln.close()
    Path("kiln.py").write_text(new)
    importlib.invalidate_caches()
    sys.modules.pop("kiln", None)
    assert run(replayer.commands.main.main, f"explain run.tape --json --sim kiln:{name} --code old") == 1
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


@pytest.mark.parametrize(
    ("gain", "line"),
    [(RENAMED, "share = (0.5 if left"), (LAID_OUT, "return min(share, left) +")],
    ids=["a variable has another name", "and another layout"],
)
def test_the_line_with_other_values_is_named_beside_renamed_variables(
    capsys: pytest.CaptureFixture[str], gain: str, line: str
) -> None:
    cause = explained(capsys, "Kiln", KILN.format(gain=OLD), KILN.format(gain=gain))["cause"]
    assert cause["kind"] == "edited"
    assert line in cause["other"]["text"]
    assert "absent" not in str(cause["value"])
