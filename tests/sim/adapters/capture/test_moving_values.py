"""Values that change the way in which they are written, since they move or are used: a replay is right, and is not accused.

``tools/campaigns/random_programs.py`` compares many more random runs.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from moving_values import Moving
from seen_in_each_way import compare

RUNS = 5


def test_random_runs_are_the_same_however_they_are_seen(tmp_path: Path) -> None:
    for _ in range(RUNS):
        seed = random.randrange(1 << 32)
        compare(Moving, seed, tmp_path / f"{seed}.tape")


@pytest.mark.parametrize("seed", [4, 42, 75, 103])
def test_runs_that_failed_once(seed: int, tmp_path: Path) -> None:
    """The recording ended, or a seek did."""
    compare(Moving, seed, tmp_path / "run.tape")
