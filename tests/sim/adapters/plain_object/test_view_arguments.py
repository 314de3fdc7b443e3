"""Calls with views of arrays: they share their memory in a replay with what they shared it with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import recorder
import replayer


class Grid:
    """Keeps arrays, and writes to them later."""

    def __init__(self) -> None:
        self.cells = np.zeros((3, 4))
        self.layers = [np.zeros(6)]
        self.kept: list[Any] = []

    def play(self, *values: Any) -> None:
        """Keep the arguments."""
        self.kept.append(values)

    def paint(self) -> None:
        """Write to the first argument of each call."""
        for (first, *_), number in zip(self.kept, range(1, 99), strict=False):
            array = first[0] if isinstance(first, list) else first
            array += number


def cut(*places: Any) -> list[Any]:
    """Views of one array."""
    array = np.zeros(6)
    return [array[place] for place in places]


VIEWS: dict[str, Any] = {
    "a row of the game": lambda grid: [grid.cells[1]],
    "a part of an array in a list": lambda grid: [grid.layers[0][:3], 1],
    "two views": lambda _: cut(np.s_[:4], np.s_[2:]),
    "two views in a list": lambda _: [cut(np.s_[:4], np.s_[2:])],
    "an array and its view": lambda _: cut(np.s_[...], np.s_[2:4]),
    "a view alone": lambda _: [np.arange(6.0)[2:]],
    "another shape": lambda _: [np.arange(6.0).reshape(2, 3)],
    "a row of a small table": lambda _: [np.arange(40.0).reshape(10, 4)[3]],
}


@pytest.mark.parametrize("name", VIEWS)
def test_a_view_shares_its_memory_in_a_replay(name: str, tmp_path: Path) -> None:
    """Also where its bytes are in one piece, as those of an array of its own."""

    def state(grid: Any) -> Any:
        kept = [one.tolist() for values in grid.kept for value in values for one in (value if type(value) is list else [value])
                if isinstance(one, np.ndarray)]  # fmt: skip
        return grid.cells.tolist(), grid.layers[0].tolist(), kept

    with recorder.record(Grid(), tmp_path / "run.tape", step=("play", "paint"), quiet=True, trial_ms=0) as grid:
        grid.play(*VIEWS[name](grid.subject))
        grid.paint()
        live = state(grid.subject)
    with replayer.open(tmp_path / "run.tape", world=Grid) as run:
        assert run.verify().ok
        run.seek(2)
        assert state(run.subject) == live
