"""Going backwards tick by tick: each tick is simulated once, whatever the keyframe interval is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import replayer

from small_worlds import record
from viewed_worlds import Pond

TICKS, INTERVAL, ARRIVAL = 400, 200, 399


class CountedPond(Pond):
    """A pond that counts its steps."""

    steps = 0

    def step(self, inputs: Any) -> None:
        CountedPond.steps += 1
        super().step(inputs)


@pytest.mark.parametrize("stride", [1, 7])
def test_each_tick_is_simulated_once(tmp_path: Path, stride: int) -> None:
    """From the last tick to the first, over a keyframe; the states are those of a plain run."""
    path = tmp_path / "pond.tape"
    record(path, Pond(), [[]] * TICKS, keyframe_interval_ticks=INTERVAL)
    truth, hashes = Pond(), []
    for _ in range(TICKS + 1):
        hashes.append(truth.state.hash())
        truth.step([])
    with replayer.open(path, CountedPond) as run:
        run.seek(ARRIVAL)
        CountedPond.steps = 0
        while run.tick >= stride:
            run.seek(run.tick - stride)
            assert run.state.hash() == hashes[run.tick]
    assert CountedPond.steps <= ARRIVAL
