"""At the level inputs_only, a reset without a seed is warned of where something that no seek restores may decide it."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

import recorder
import replayer
from sim.adapters.capture.captured_state import CapturedWarning
from sim.adapters.find_adapter import adapt
from sim.kernel.simulation import restore


class Engine:
    """A simulator with a generator of its own, which cannot be saved as long as it is among others in a list."""

    def __init__(self) -> None:
        self.draws = np.random.default_rng(5)
        self.lock = threading.Lock()


class Drawing(gymnasium.Env[Any, Any]):
    """Each episode begins at a place that is drawn."""

    observation_space = gymnasium.spaces.Box(-1e6, 1e6, (1,), np.float64)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self) -> None:
        self.engines = [Engine()]

    def draw(self) -> float:
        return float(self.engines[0].draws.random())

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        if seed is not None:
            self.engines[0].draws = np.random.default_rng(seed)
        self.x = np.array([self.draw()])
        return self.x, {}

    def step(self, action: Any) -> Any:
        self.x = self.x + action
        return self.x, 0.0, False, False, {}


class DrawingFromItsOwn(Drawing):
    """Draws from the generator that Gymnasium gives it, which each seek restores."""

    def __init__(self) -> None:
        self.engines = []
        self.other: Any = None  # Made by the first reset.

    def draw(self) -> float:
        if self.other is None:
            self.other = np.random.default_rng(8)
        return float(self.np_random.random() + self.other.random())

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        gymnasium.Env.reset(self, seed=seed)
        self.x = np.array([self.draw()])
        return self.x, {}


def test_the_generator_is_named_once(tmp_path: Path) -> None:
    """At the first reset without a seed; not at one with a seed."""
    env = recorder.record(Drawing(), tmp_path / "run.tape", level="inputs_only", quiet=True, trial_ms=0)
    env.reset(seed=3)
    with pytest.warns(
        CapturedWarning, match=r"reset\(\) without a seed.*Drawing\.engines\[0\]\.draws \(numpy\.random.*\) may decide"
    ):
        env.reset()
    env.reset()
    env.close()


def test_an_environment_whose_generator_is_restored_is_not_warned_of(tmp_path: Path) -> None:
    """Its resets without a seed are exact: in any order of seeks, and from a used instance to its first state."""
    env = recorder.record(DrawingFromItsOwn(), tmp_path / "run.tape", level="inputs_only", quiet=True)
    seen = [env.reset(seed=3)[0].tolist()]
    seen += [(env.reset() if tick % 10 == 0 else env.step(1))[0].tolist() for tick in range(2, 60)]
    env.close()
    with replayer.open(tmp_path / "run.tape", world=DrawingFromItsOwn) as run:
        for tick in (45, 1, 10, 59, 31, 9):
            run.seek(tick)
            assert run.simulation.last.observation.tolist() == seen[tick - 1]
        assert run.verify().ok


def test_what_the_first_reset_made_is_lost_by_a_used_instance() -> None:
    """The state before the first reset, restored in an instance that has been reset: the reset makes it again."""
    simulation = adapt(DrawingFromItsOwn(), level="inputs_only")
    first = simulation.state.snapshot()
    simulation.step({"reset": 4})
    expected = simulation.last.observation.tolist()
    simulation.step(1)
    restore(simulation, first)
    simulation.step({"reset": 4})
    assert simulation.last.observation.tolist() == expected
