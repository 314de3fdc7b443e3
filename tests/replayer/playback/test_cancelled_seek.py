"""Ending a seek on its way: no further step, and the timeline is at a tick of the run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import replayer

from small_worlds import CountedWalkers, Saved, record

TICKS = 40


def after(asked: int) -> Callable[[], bool]:
    """A callback that returns False this many times, then True."""
    answers = iter([False] * asked)
    return lambda: next(answers, True)


@pytest.mark.parametrize("asked", [0, 1, 12, 39])
@pytest.mark.parametrize("factory", [CountedWalkers, Saved])
def test_no_step_is_run_after_it(tmp_path: Path, factory: Any, asked: int) -> None:
    """The state reached is the run's, and the next seek continues from it."""
    inputs = [[[0, tick]] for tick in range(TICKS)] if factory is CountedWalkers else list(range(TICKS))
    live = record(tmp_path / "run.tape", factory(), inputs, keyframe_interval_ticks=100)
    with replayer.Timeline(tmp_path / "run.tape", factory) as run:
        CountedWalkers.steps = 0
        with pytest.raises(
            replayer.SeekCancelledError, match=f"to tick {TICKS} was cancelled at tick {asked}"
        ) as error:
            run.seek(TICKS, cancelled=after(asked))

        assert (error.value.tick, error.value.reached, run.tick) == (TICKS, asked, asked)
        assert run.state.arena.tobytes() == live[asked]
        assert run.seek(TICKS, cancelled=after(TICKS - asked)).simulated_ticks == TICKS - asked
        assert run.state.arena.tobytes() == live[TICKS]
        assert CountedWalkers.steps == (TICKS if factory is CountedWalkers else 0)


def test_it_is_not_asked_without_a_step(tmp_path: Path) -> None:
    """A seek to where the timeline is, or to a keyframe, is never cancelled."""
    record(tmp_path / "run.tape", CountedWalkers(), [None] * TICKS, keyframe_interval_ticks=20)
    with replayer.Timeline(tmp_path / "run.tape", CountedWalkers) as run:
        assert run.seek(20, cancelled=after(0)).simulated_ticks == 0
        assert run.seek(20, cancelled=after(0)).tick == 20


def test_a_tick_that_differs_is_not_shown_as_reached(tmp_path: Path) -> None:
    """Where a cancelled seek ends, the state is compared with the recording like any other."""

    class Drifting(CountedWalkers):
        def step(self, inputs: Any) -> None:
            super().step(inputs)
            self.state["x"][0] += 1

    record(tmp_path / "run.tape", CountedWalkers(), [None] * TICKS, keyframe_interval_ticks=100)
    with replayer.Timeline(tmp_path / "run.tape", Drifting) as run:
        with pytest.raises(replayer.DesyncError, match=r"tick 1\b"):
            run.seek(TICKS, cancelled=after(10))
        assert run.tick is None
