"""What a trial found is told once as a warning, and in a few words in the line about the recording."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import recorder
from recorder.errors import RecordingWarning
from recorder.trial.trial_report import AGAIN, HAPPENED, RESTORED, TrialFinding, TrialReport
from sim.adapters import fields


class Drift:
    """A generator without a seed, new in each step."""

    def __init__(self) -> None:
        self.x = 0.0

    def step(self) -> None:
        """Drift."""
        self.x += np.random.default_rng().random()


@pytest.mark.skipif(sys.platform != "linux", reason="a trial needs Linux")
@pytest.mark.tried
def test_the_line_about_the_level_has_what_the_trial_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It does not say "exact" alone of steps that did not repeat."""
    with (
        pytest.warns(RecordingWarning, match=HAPPENED[AGAIN]) as warned,
        recorder.record(Drift(), tmp_path / "run.tape", what=fields("x"), trial_ms=4000.0) as drift,
    ):
        drift.step()
    assert len([one for one in warned if HAPPENED[AGAIN] in str(one.message)]) == 1
    tried, recording, *_ = capsys.readouterr().err.splitlines()
    assert ": a difference was found, see the warning" in tried
    assert "Drift: exact by what it captures, but its steps did not repeat (" in recording


def test_differences_in_a_few_words() -> None:
    """Those of repeated steps first; none is no words."""
    again = TrialFinding(AGAIN, f"{HAPPENED[AGAIN]}: x differs")
    restored = TrialFinding(RESTORED, f"{HAPPENED[RESTORED]}: y differs")
    assert TrialReport().differences() == ""
    assert TrialReport(findings=(restored, again)).differences() == (
        f"its steps did not repeat (x differs), its trial found a difference ({HAPPENED[RESTORED]}: y differs)"
    )
