"""What a save and a load change, lose or leave is told with the lines of save() and load() that do."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import pytest

from recorder import Recorder
from replayer.diagnose.explain.answer.explanation import Explanation
from replayer.diagnose.explain.explain import explain_tape
from replayer.report.before_step import before_step_lines

MODULE = """
import json


class Mine:  # Its keys are numbers, and texts after load().
    def __init__(self):
        self.shafts, self.dug = {}, 0

    def deepen(self, shaft):
        return self.shafts.get(shaft, 0) + 1  # Mine reads

    def step(self, inputs):
        shaft = self.dug % 3
        self.shafts[shaft] = self.deepen(shaft)
        self.dug += self.shafts[shaft]

    def save(self):
        return json.dumps({
            "shafts": self.shafts,
            "dug": self.dug,
        }).encode()

    def load(self, saved):
        values = json.loads(saved)
        self.dug = values["dug"]
        self.shafts = values["shafts"]  # Mine
"""


@pytest.fixture(autouse=True)
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    (tmp_path / "mine.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "mine", raising=False)
    importlib.invalidate_caches()
    return importlib.import_module("mine")


def line_of(mark: str) -> int:
    """The line of the module that ends with this mark."""
    return next(number for number, text in enumerate(MODULE.splitlines(), 1) if text.endswith(f"# {mark}"))


def explained(module: Any, name: str) -> Explanation:
    """A run of nine steps with keyframes at each fifth, explained."""
    factory = getattr(module, name)
    with Recorder("run.tape", factory(), keyframe_interval_ticks=5, trial_ms=0) as tape:
        for _ in range(9):
            tape.step()
    return explain_tape("run.tape", sim=f"mine:{name}", factory=factory)


def test_keys_of_another_type_are_of_load_and_no_order(module: Any) -> None:
    explanation = explained(module, "Mine")

    cause = explanation.cause
    assert cause is not None
    assert cause.kind == "outside"
    assert cause.loaded_at is not None
    assert cause.loaded_at.line == line_of("Mine")
    text = "\n".join(before_step_lines(explanation))
    assert "Mine.shafts (attribute): key 0 in A only, key '0' in B only; 3 of 3 keys are others" in text
    assert "the order of the keys" not in text
