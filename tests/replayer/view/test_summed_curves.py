"""Which curves of the page are sums: those of arrays, and no others."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import recorder
import replayer
from replayer.view.states.figures import figures_of, summed_names


class Boat:
    """Has a number, and a place that is an array."""

    def __init__(self) -> None:
        self.speed = 1.5
        self.place = np.zeros(2)

    def step(self) -> None:
        self.place += (self.speed, 2.0)


def test_only_arrays_are_sums(tmp_path: Path) -> None:
    with recorder.record(Boat(), tmp_path / "boat.tape", quiet=True) as boat:
        for _ in range(3):
            boat.step()
    with replayer.open(tmp_path / "boat.tape", world=Boat) as run:
        run.seek(2)
        snapshot = run.state.snapshot()
        names = ["Boat.speed", "Boat.place", "Boat.none"]
        assert summed_names(snapshot, names) == ["Boat.place"]
        assert figures_of(snapshot, names) == {"Boat.speed": 1.5, "Boat.place": 7.0}
