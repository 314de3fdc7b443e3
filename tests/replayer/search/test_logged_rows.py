"""A change log: who skips the intervals in which it has nothing of the value, where the log is right."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from watched_runs import INTERVAL, Marking, last_change, random_questions, recorded

import recorder
import replayer
from recorder.format.recording.change_replay import ChangeLog


@pytest.mark.parametrize(
    ("options", "is_proved"),
    [
        ({"changes": "scan"}, True),
        ({"changes": "marks"}, True),
        ({"changes": "marks", "full_every": 4}, True),
        ({"changes": "marks", "hashes": "changes"}, False),
    ],
)
def test_the_last_write_is_that_of_a_plain_loop(tmp_path: Path, options: dict[str, Any], *, is_proved: bool) -> None:
    """Each answer takes the steps of the intervals in which the value may have changed."""
    seed = random.randrange(1 << 20)
    path = tmp_path / "run.tape"
    states = recorded(path, seed, writes=False, mode="changes", **options)
    skipped = 0
    with replayer.open(path, Marking) as run:
        assert ChangeLog(run.tape.recording)
        for field, row, at in random_questions(states, seed):
            found = run.last_write(field, row, at=at, line=False)
            assert found.tick == last_change(states, field, row, at), (seed, field, row, at)
            assert is_proved <= found.is_proved
            skipped += found.skipped_intervals
        never = run.last_write("cells", 30, line=False)
    assert skipped > 10, seed
    assert never.tick is None
    assert never.is_proved is is_proved
    assert never.skipped_intervals == never.intervals or not is_proved


def test_a_write_without_a_mark_is_found(tmp_path: Path) -> None:
    """The log does not lead to the recorded hashes where a step did not mark: the steps are run."""

    class Flickering(Marking):
        def step(self, inputs: Any) -> None:
            super().step(inputs)
            tick = int(self.state["steps"])
            if tick in (2 * INTERVAL + 3, 2 * INTERVAL + 7):
                self.state["cells"][39] = tick == 2 * INTERVAL + 3  # It goes again before the next keyframe.

    path, nothing = tmp_path / "run.tape", {"cells": [], "born": False, "dies": False}
    options: dict[str, Any] = {"keyframe_interval_ticks": INTERVAL, "mode": "changes", "trial_ms": 0}
    with recorder.Recorder(path, Flickering(), changes="marks", hashes="states", **options) as tape:
        for _ in range(5 * INTERVAL):
            tape.step(nothing)
    plain, values = Flickering(), [0]
    for _ in range(5 * INTERVAL):
        plain.step(nothing)
        values.append(int(plain.state["cells"][39]))
    last = max(tick for tick in range(1, len(values)) if values[tick] != values[tick - 1])
    with replayer.open(path, world=Flickering) as run:
        found = run.last_write("cells", 39, line=False)
        assert found.tick == last
        assert found.is_proved
        assert found.skipped_intervals == 2
