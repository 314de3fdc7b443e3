"""Spaces of an environment that are neither its action nor its observation space: their generators are its own state."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import recorder
import replayer
from sim.adapters.capture.captured_state import CapturedWarning


class Mine(gymnasium.Env[Any, Any]):
    """Ore is drawn from spaces of its own, which each reset seeds."""

    def __init__(self) -> None:
        self.action_space = spaces.Discrete(3)
        self.observation_space = spaces.Box(-100.0, 100.0, (3,), np.float64)
        self.ore = spaces.Box(0.0, 9.0, (), np.float64)
        self.cart = spaces.Dict({"load": spaces.Discrete(50), "way": spaces.Tuple([spaces.Box(0, 1, (2,))])})
        self.same = self.ore
        self.moves = self.action_space
        self.found, self.last = 0.0, 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.ore.seed(int(self.np_random.integers(2**31)))
        self.cart.seed(int(self.np_random.integers(2**31)))
        self.found = 0.0
        return self._look(), {}

    def step(self, action: int) -> Any:
        self.found += float(self.ore.sample()) * action
        drawn = self.cart.sample()
        self.last = int(drawn["load"]) + round(float(drawn["way"][0].sum()))
        return self._look(), 1.0, False, False, {}

    def _look(self) -> Any:
        return np.array([self.found, self.last, float(self.same.sample())])


class Fresh(Mine):
    """Makes the space again at each reset."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        if seed is not None:
            self.ore = self.same = spaces.Box(0.0, 9.0, (), np.float64, seed=seed)
            self.cart.seed(seed)
        return super().reset(seed=seed)


def drive(env: Any) -> list[list[float]]:
    """Episodes whose actions the caller draws from the action space; the observation of each call."""
    env.action_space.seed(5)
    shown = []
    for number in range(40):
        view = env.reset(seed=number)[0] if number % 9 == 0 else env.step(env.action_space.sample())[0]
        shown.append(view.tolist())
    return shown


@pytest.mark.parametrize("kind", [Mine, Fresh])
@pytest.mark.parametrize("trial_ms", [0, 200])
def test_their_draws_are_restored(kind: Any, trial_ms: int, tmp_path: Path) -> None:
    plain = drive(kind())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        env = recorder.record(kind(), tmp_path / "a.tape", keyframe_interval_ticks=7, quiet=True, trial_ms=trial_ms)
        assert drive(env) == plain
        env.close()
    with replayer.open(tmp_path / "a.tape", world=kind) as run:
        assert run.verify(jobs=1).ok
        for tick in (5, 12, 26, 39):  # Restored in the middle of an interval, it goes on as the live run did.
            run.seek(tick)
            assert run.simulation.last.observation.tolist() == plain[tick - 1]


class Greedy(Mine):
    """Draws from the space that the caller draws from, under another name."""

    def step(self, action: int) -> Any:
        self.last = int(self.moves.sample())
        return super().step(action)


def test_the_callers_space_under_another_name_is_not_saved(tmp_path: Path) -> None:
    env = recorder.record(Greedy(), tmp_path / "a.tape", quiet=True, trial_ms=0)
    env.reset(seed=1)
    with pytest.warns(CapturedWarning, match=r"Greedy\.action_space, .*since the caller may draw from it"):
        env.step(1)
    env.close()
