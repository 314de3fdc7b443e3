"""Memory of large blocks is given back to the system."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import recorder.storage.segmented_log
from recorder import Recorder
from recorder.format.blocks.full_keyframe import Changes
from recorder.writer.jobs import Baseline, KeyframeJob
from sim.kernel.memory.free_memory import give_back_free_memory

from small_worlds import Walkers


def test_it_can_be_called_anywhere() -> None:
    """It has no effect that can be seen, and raises nothing."""
    give_back_free_memory()


@pytest.mark.parametrize(("large_bytes", "is_large"), [(100, True), (10_000_000, False)])
def test_once_for_a_large_group_that_nothing_holds(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    large_bytes: int,
    is_large: bool,  # noqa: FBT001
) -> None:
    """After it is durable, and not for small ones."""
    calls: list[None] = []
    monkeypatch.setattr(recorder.storage.segmented_log, "LARGE_GROUP_BYTES", large_bytes)
    monkeypatch.setattr(recorder.storage.segmented_log, "give_back_free_memory", lambda: calls.append(None))
    with Recorder(tmp_path / "run.tape", Walkers(), sync="1h") as tape:
        tape.step([])
        tape.flush()
        tape.step([])
        tape.flush()
        assert bool(calls) is is_large


def test_the_size_of_a_job_stays_when_its_changes_are_released() -> None:
    """The queue subtracts what it has added."""
    state = Walkers().state
    changes = Changes({"x": None}, {"x": np.zeros((20, 8), np.uint8)})
    job = KeyframeJob(1, 0, Baseline(state.layout), changes)
    changes.release()

    assert (job.size_bytes, changes.taken()) == (160, [])
