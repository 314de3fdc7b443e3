"""replay explain where no line is the cause: what it tried is printed, and nothing is claimed that was not tested."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import replayer.commands.main
from recorder import Recorder
from replayer import verify_tape
from replayer.diagnose import explain_tape

from oracle.command_lines import assert_one_line, run

pytestmark = pytest.mark.share(0.18)

BAD_TICK = 15
MODULE = '''
import sys
from sim import Field, Schema, State


class Local:
    """Its load fails in every process but that of the tests: no variant reaches a step."""

    late = 1

    def __init__(self):
        self.x = 0

    def step(self, inputs):
        self.x += self.late if self.x == 14 else 1

    def save(self):
        return {"x": self.x.to_bytes(8, "little")}

    def load(self, saved):
        if "pytest" not in sys.modules:
            raise ValueError("not here")
        self.x = int.from_bytes(saved["x"], "little")


class LocalEdit(Local):
    late = 2
'''


@pytest.fixture(autouse=True)
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The module of simulations, in the present folder."""
    (tmp_path / "not_known.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delenv("PYTHONHASHSEED", raising=False)
    yield importlib.import_module("not_known")
    sys.modules.pop("not_known", None)


def record(simulation: Any, path: str = "run.tape") -> None:
    """Record twenty ticks, with a keyframe every ten."""
    with Recorder(path, simulation, keyframe_interval_ticks=10, trial_ms=0) as tape:
        for _ in range(20):
            tape.step()


def test_without_a_variant_that_ran_none_is_said_to_agree(module: Any, capsys: Any) -> None:
    """What verify found is printed with the reason; of a tick alone nothing is known."""
    record(module.Local())
    [finding] = verify_tape("run.tape", module.LocalEdit).findings
    explanation = explain_tape("run.tape", finding=finding, sim="not_known:LocalEdit", factory=module.LocalEdit)
    assert (explanation.tick, explanation.ran, explanation.agrees) == (BAD_TICK, [], False)
    assert explanation.known_tick == 20
    assert any("not here" in note for note in explanation.notes)

    assert run(replayer.commands.main.main, "explain run.tape --sim not_known:LocalEdit") == 1
    out = capsys.readouterr().out
    assert out.startswith("run.tape: tick 15: no variant reached the step")
    assert "gives the recorded state" not in out

    assert run(replayer.commands.main.main, f"explain run.tape --sim not_known:LocalEdit --tick {BAD_TICK}") == 2
    assert_one_line(capsys.readouterr(), "tick 15: no variant reached the step: ")
