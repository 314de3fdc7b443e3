"""Questions about a tape whose code has changed since: one line, and findings that tell the tick that they are of."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import recorder
import replayer
from recorder.errors import MissingTickError
from replayer.commands.main import main
from sim import Field, Schema, State

CHANGED_AT = 7


class Till:
    """Counts; changed code counts otherwise from one tick on, and a second field from a later one on."""

    def __init__(self, *, changed: bool = False) -> None:
        self.state = State(Schema(Field("cash", "i8"), Field("late", "i8"), Field("tick", "i8")))
        self.changed = changed

    def step(self, inputs: Any) -> None:
        self.state["tick"][...] += 1
        tick = int(self.state["tick"])
        self.state["cash"][...] += 2 if self.changed and tick >= CHANGED_AT else 3
        self.state["late"][...] += int(self.state["cash"]) if tick > CHANGED_AT else 0
        del inputs


@pytest.fixture
def tape(tmp_path: Path) -> Path:
    """Of the code before, 30 ticks, with inputs of a thousand numbers."""
    path = tmp_path / "till.tape"
    with recorder.Recorder(path, Till(), keyframe_interval_ticks=20, blame="fields", trial_ms=0) as taped:
        for _ in range(30):
            taped.step(list(range(1000)))
    return path


def changed() -> Till:
    return Till(changed=True)


def test_who_wrote_a_value_of_a_tick_that_the_steps_do_not_reach(tape: Path) -> None:
    with replayer.open(tape, world=changed) as run:
        with pytest.raises(MissingTickError, match=f"tick {CHANGED_AT}: the steps give another state there"):
            run.last_write("cash", at=CHANGED_AT)
        assert run.last_write("cash", at=CHANGED_AT - 1, line=False).tick == CHANGED_AT - 1


def test_a_finding_names_the_fields_of_its_tick(tape: Path) -> None:
    """Those of the next keyframe are more."""
    finding = replayer.verify_tape(tape, changed).findings[0]
    assert [one.field for one in finding.differences] == ["cash", "late"]
    assert repr(finding) == f"<Finding: first bad tick {CHANGED_AT}, fields cash>"


def test_long_inputs_are_cut(tape: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["verify", str(tape), "--sim", f"{__name__}:changed"])
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("  inputs of the tick: [0, 1,")]
    assert line.endswith("… (4,890 characters in all)")
    assert len(line) < 2_100
