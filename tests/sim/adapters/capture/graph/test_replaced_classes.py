"""A class that a step replaces in its module: its objects cannot be found by name, and are refused at that step."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

import recorder
import replayer
from sim.adapters import NotCapturedError


class Bird:
    """No object of it is there when the recording begins."""

    def __init__(self, weight: int) -> None:
        self.weight, self.age = weight, 0  # Two attributes, which tell the group of an object at once.


class Flock:
    """At one step its module gets another class of the name."""

    def __init__(self, replaced_at: int, hatched_until: int) -> None:
        self.replaced_at, self.hatched_until = replaced_at, hatched_until
        self.ticks = 0
        self.birds: list[Any] = []

    def step(self, _: Any = None) -> None:
        self.ticks += 1
        hatched = Bird
        if self.ticks == self.replaced_at:
            vars(sys.modules[__name__])["Bird"] = type("Bird", (), {"__module__": __name__})
        if self.ticks <= 3:
            self.birds.append(hatched(self.ticks))
        elif self.ticks <= self.hatched_until:
            self.birds[0] = hatched(self.ticks)  # The graph stays as large as it is.


@pytest.fixture(autouse=True)
def same_class_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    """The module has its own class again after each test."""
    monkeypatch.setattr(sys.modules[__name__], "Bird", Bird)


def test_objects_of_a_class_that_was_replaced_are_refused(tmp_path: Path) -> None:
    """Its objects were saved in the steps before."""
    recorded = recorder.record(Flock(6, 6), tmp_path / "run.tape", quiet=True, trial_ms=0)
    for _ in range(5):
        recorded.step()
    assert [bird.weight for bird in recorded.birds] == [5, 2, 3]
    with pytest.raises(NotCapturedError, match=r"birds\[0\] .* is not the one that has this name now"):
        recorded.step()
    recorded.close()


def test_a_class_that_stays_is_found_at_each_step(tmp_path: Path) -> None:
    recorded = recorder.record(Flock(-1, 4), tmp_path / "run.tape", quiet=True, trial_ms=0)
    for _ in range(6):
        recorded.step()
    recorded.close()
    with replayer.open(tmp_path / "run.tape", world=lambda: Flock(-1, 4)) as run:
        run.seek(5)
        assert [bird.weight for bird in run.subject.birds] == [4, 2, 3]
