"""The marks on values of recorded objects that a step changed, against the objects themselves."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

import recorder
import replayer
from replayer.view.states.object_leaves import object_leaves


class Herd:
    """Values whose short texts are the same before and after a step."""

    def __init__(self) -> None:
        self.grid = np.zeros((96, 128), np.int32)
        self.still = np.zeros((96, 128), np.int32)
        self.drawn = np.random.default_rng(3)
        self.kept = random.Random(3)
        self.text = "a" * 5000
        self.seen = set(range(200))
        self.zero = 0.0
        self.nothing = float("nan")
        self.tick = 0

    def step(self) -> None:
        """Change the middle of each, and leave the others."""
        self.tick += 1
        self.grid[48, 64 + self.tick] += 1
        self.drawn.random()
        self.text = self.text[:2500] + str(self.tick) + self.text[2501:]
        self.seen ^= {100 + self.tick, 1000 + self.tick}
        self.zero = -self.zero
        self.nothing = float("nan")


CHANGED = {"grid", "drawn", "text", "seen", "zero", "tick"}


@pytest.mark.parametrize("tick", [1, 4])
def test_a_value_is_marked_where_it_changed_and_not_where_its_text_did(tmp_path: Path, tick: int) -> None:
    """Arrays, texts and sets that are cut, a generator, and a zero that turns its sign; NaN stays NaN."""
    with recorder.record(Herd(), tmp_path / "herd.tape", trial_ms=0, quiet=True) as herd:
        for _ in range(5):
            herd.step()
    with replayer.open(tmp_path / "herd.tape", Herd) as run:
        run.seek(tick - 1)
        before = run.state.snapshot()
        run.seek(tick)
        leaves, has_more = object_leaves(run.state.snapshot(), before)
    assert not has_more
    assert {path for path, _, changed in leaves if changed} == CHANGED
    assert {path for path, _, changed in leaves if not changed} == {"still", "kept", "nothing"}
    assert not any(changed for *_, changed in object_leaves(before, None)[0])
