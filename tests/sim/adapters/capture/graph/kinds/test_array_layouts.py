"""Arrays in containers whose layout changes in place, among arrays that stay: each tick comes back as it was."""

from __future__ import annotations

import random
import warnings
from collections import deque
from pathlib import Path
from typing import Any

import numpy as np

import recorder
import replayer


class Shelves:
    """Arrays in a list and in a deque that is full: they come, go, and change their values or their layout."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.arrays = [np.arange(index % 5 * 4, dtype="i4") for index in range(20)]
        self.recent: deque[tuple[int, np.ndarray[Any, Any]]] = deque(maxlen=8)

    def step(self) -> None:
        """Change a few arrays in one of many ways."""
        for _ in range(3):
            place = self.random.randrange(len(self.arrays))
            array = self.arrays[place]
            match self.random.randrange(7):
                case 0 if array.flags.writeable:
                    array[: array.size // 2] += 1
                case 1:
                    array.setflags(write=not array.flags.writeable)
                case 2 if array.size % 2 == 0 and array.ndim == 1:
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore", DeprecationWarning)  # Newer NumPy advises against it.
                        array.shape = (2, array.size // 2)
                case 3 if array.flags.writeable and array.ndim == 1:
                    array.resize(self.random.randrange(9), refcheck=False)
                case 4:
                    self.arrays[place] = array.astype(self.random.choice(["i4", "f8", "u1"]))
                case 5:
                    self.arrays[place] = np.zeros((3, 2), "f4", order=self.random.choice(["C", "F"]))
                case _:
                    self.recent.append((place, array))

    def layout(self) -> list[Any]:
        """All that can be seen of the arrays."""
        arrays = [*self.arrays, *(one for _, one in self.recent)]
        shared = [[one is other for one in self.arrays] for _, other in self.recent]
        return [
            shared,
            # Strides of an array without elements mean nothing.
            [
                (one.shape, one.dtype.str, one.size and one.strides, one.flags.writeable, one.tobytes())
                for one in arrays
            ],
        ]


def test_arrays_change_their_layout_in_place(tmp_path: Path) -> None:
    seed = random.randrange(1 << 32)
    shelves, truth = Shelves(seed), []
    with recorder.record(shelves, tmp_path / "run.tape", quiet=True, keyframe_interval_ticks=3) as recorded:
        truth.append(shelves.layout())
        for _ in range(60):
            recorded.step()
            truth.append(shelves.layout())
    with replayer.open(tmp_path / "run.tape", world=lambda: Shelves(seed)) as run:
        assert run.verify().ok, seed
        for tick in random.sample(range(61), 20):
            run.seek(tick)
            assert run.simulation.subject.layout() == truth[tick], (seed, tick)
