"""Runs of walkers for readers that follow a tape, and the expected result."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from recorder import Recorder
from recorder.format.blocks.frame import Frame
from replayer import Tape

from small_worlds import Walkers


def record_walk(path: Path, ticks: int = 60, **settings: Any) -> None:
    """Record walkers that are pushed a little."""
    with Recorder(path, Walkers(), **{"keyframe_interval_ticks": 7, "full_every": 3} | settings) as tape:
        for tick in range(1, ticks + 1):
            tape.step([[tick % 20, tick]])
            if tick % 4 == 0:
                tape.flush()  # For many small blocks.


def walk_on(tape: Recorder, ticks: int) -> None:
    """Continue to a tick, with the inputs of record_walk."""
    with tape:
        while tape.tick < ticks:
            tape.step([[(tape.tick + 1) % 20, tape.tick + 1]])


def truth_of(path: Path) -> list[Frame]:
    """The frames of a finished tape."""
    with Tape(path) as tape:
        return [tape.frame(tick) for tick in range(tape.first_tick + 1, tape.last_tick + 1)]
