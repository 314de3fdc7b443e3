"""Arrays in inputs whose numbers lie in another order in memory: a step sums them as every replay will."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import recorder
import replayer
from sim import Field, Schema, State

WAYS: dict[str, Callable[[Any], Any]] = {
    "transposed": lambda numbers: numbers.T,
    "Fortran": np.asfortranarray,
    "strided": lambda numbers: numbers[::3, ::2],
    "backwards": lambda numbers: numbers[::-1, ::-1],
    "big-endian": lambda numbers: numbers.astype(">f8"),
    "as it is": lambda numbers: numbers,
}


class Sums:
    """Adds up floating-point numbers: the order decides the last bits."""

    def __init__(self) -> None:
        self.state = State(Schema(Field("sums", "f8", (2,))))

    def step(self, inputs: Any) -> None:
        numbers = inputs["numbers"]
        self.state["sums"][0] += numbers.sum()
        self.state["sums"][1] += float(np.dot(numbers[0], numbers[0])) if isinstance(numbers, np.ndarray) else 0.0


class Total:
    """The same as a plain object."""

    def __init__(self) -> None:
        self.total = 0.0

    def step(self, numbers: Any) -> float:
        self.total += float(numbers.sum())
        return self.total


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("options", [{}, {"mode": "changes", "changes": "scan"}])
def test_a_sound_simulation_verifies(tmp_path: Path, way: str, options: dict[str, Any]) -> None:
    """On both paths of a step; what the caller passed is left as it is."""
    path, chance = tmp_path / "sums.tape", np.random.default_rng(1)
    with recorder.Recorder(path, Sums(), keyframe_interval_ticks=10, trial_ms=0, **options) as tape:
        for _ in range(40):
            numbers = WAYS[way](chance.random((50, 37)))
            before = numbers.tobytes(), numbers.strides
            tape.step({"numbers": numbers})
            assert (numbers.tobytes(), numbers.strides) == before
            tape.step({"numbers": np.ones((2, 2))})
    assert replayer.verify_tape(path, Sums).ok


def test_so_does_an_object(tmp_path: Path) -> None:
    """The state that a step leaves is that of the numbers as they are on the tape."""
    path, chance = tmp_path / "total.tape", np.random.default_rng(2)
    with recorder.record(Total(), path, quiet=True, trial_ms=0) as total:
        for _ in range(40):
            total.step(chance.random((50, 37)).T)
    assert replayer.verify_tape(path, Total).ok
