"""The last used block is cached: results do not depend on the order of requests."""

from __future__ import annotations

import random
from pathlib import Path

import replayer
from recorder import Recorder

from oracle.repair_runs import all_blocks, destroy
from small_worlds import Walkers

TICKS = 300


def test_frames_in_any_order(tmp_path: Path) -> None:
    """In any order, also across blocks, the ends of the tape, and lost blocks."""
    path = tmp_path / "run.tape"
    with Recorder(path, Walkers(), keyframe_interval_ticks=40) as tape:
        for tick in range(1, TICKS + 1):
            tape.step([[tick % 20, tick]])
            if tick % 23 == 0:
                tape.flush()
    data, blocks = path.read_bytes(), [block for block in all_blocks(path) if block.kind == 2]
    assert len(blocks) > 12
    for lost in (None, blocks[3], blocks[-1]):
        path.write_bytes(data if lost is None else destroy(data, lost, "payload"))
        numbers = random.Random(7)
        with replayer.Tape(path) as together:
            for _ in range(1000):
                tick = numbers.randrange(-1, TICKS + 3)
                try:
                    found = together.frame(tick).inputs
                except replayer.RecordingError:
                    found = None
                expected = [[tick % 20, tick]] if 1 <= tick <= TICKS else None
                if lost is not None and lost.first_tick <= tick < lost.first_tick + lost.tick_count:
                    expected = None
                assert found == expected, tick
