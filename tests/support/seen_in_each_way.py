"""Compare a recorded random program with its live run in each way that it can be seen: new and used timelines, and verify."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import recorder
import replayer
from sim.adapters import adapt, fields

TICKS, KEYFRAME_TICKS = 25, 5
NEW_TIMELINES, SEEKS, STEPS_BETWEEN_MAX = 2, 10, 4


class Program(Protocol):
    """A simulation that says all that a step of its own can tell of its values."""

    def step(self, _: Any = None) -> None:
        """Change something."""

    def values(self) -> str:
        """What is where, and what is one object."""


def compare(make: Callable[[int], Program], seed: int, tape: Path) -> None:
    """Record a run, and compare it as often as it is seen.

    Raises AssertionError with what differs, any error of the recording or the replay, and a warning that a keyframe had to be
    repaired.
    """
    live = make(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        recorded = recorder.record(live, tape, fields(), quiet=True, trial_ms=0, keyframe_interval_ticks=KEYFRAME_TICKS)
        truth = [live.values()]
        for _ in range(TICKS):
            recorded.step(None)
            truth.append(live.values())
        recorded.close()
    draw = random.Random(seed)

    def world() -> Any:
        return adapt(make(seed), fields())

    for tick in (draw.randrange(TICKS + 1) for _ in range(NEW_TIMELINES)):
        with replayer.open(tape, world=world) as run:
            run.seek(tick)
            assert run.subject.values() == truth[tick], f"seed {seed}, tick {tick}, a new timeline"
    with replayer.open(tape, world=world) as run:
        for tick in (draw.randrange(TICKS + 1) for _ in range(SEEKS)):
            run.seek(tick)
            assert run.subject.values() == truth[tick], f"seed {seed}, tick {tick}, a used timeline"
            for _ in range(draw.randrange(STEPS_BETWEEN_MAX + 1)):
                run.subject.step()  # What was handed out is used.
        report = run.verify()
        assert report.ok, f"seed {seed}: {report}"
        assert report.wrong_keyframes == [], f"seed {seed}: {report}"
