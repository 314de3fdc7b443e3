"""An environment inside an attribute of another is state, as every other object; so are rewards of several numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("gymnasium")

import gymnasium
import numpy as np
from gymnasium import spaces

import recorder
import replayer

TICKS = 20


class Inner(gymnasium.Env):
    """Counts its actions."""

    observation_space, action_space = spaces.Box(-1e9, 1e9, (1,), np.float64), spaces.Discrete(2)

    def __init__(self) -> None:
        self.total = 0.0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.total = 0.0
        return np.zeros(1), {}

    def step(self, action: Any) -> Any:
        self.total += 1 + int(action)
        return np.array([self.total]), 0.0, False, False, {}


class Outer(gymnasium.Env):
    """Leaves all work to an inner environment, and shows nothing of it."""

    observation_space, action_space = Inner.observation_space, Inner.action_space

    def __init__(self) -> None:
        self.point_env = Inner()

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        return self.point_env.reset(seed=seed)

    def step(self, action: Any) -> Any:
        self.point_env.step(action)
        return np.zeros(1), 0.0, False, False, {}


class Objectives(Inner):
    """Its reward has a number for each of two objectives."""

    def step(self, action: Any) -> Any:
        observation, *_ = super().step(action)
        return observation, np.array([1.0, 0.5 * int(action)], np.float32), False, False, {}


@pytest.mark.parametrize("interval", [1, 5, 300])
@pytest.mark.seldom(0.15)
def test_an_environment_in_an_attribute_is_restored(tmp_path: Path, interval: int) -> None:
    """At every tick, backwards and in any order; the announcement names it."""
    path, env = tmp_path / "run.tape", Outer()
    live = recorder.record(env, path, quiet=True, keyframe_interval_ticks=interval)
    assert any(part.name == "Outer" and "point_env" in part.captured for part in live.tape.simulation.report().parts)
    live.reset(seed=1)
    totals = [0.0, 0.0]
    for step in range(TICKS):
        live.step(step % 2)
        totals.append(env.point_env.total)
    live.close()

    run = replayer.open(path, world=Outer)
    for tick in (12, 3, 21, 7, 20, 1):
        run.seek(tick)
        assert run.simulation.env.point_env.total == totals[tick], tick
    assert run.verify().ok


@pytest.mark.seldom(0.15)
def test_a_reward_of_several_numbers_is_recorded(tmp_path: Path) -> None:
    """Each step's reward comes back; the return of an episode is the sum of all its numbers."""
    path = tmp_path / "run.tape"
    live = recorder.record(Objectives(), path, quiet=True, keyframe_interval_ticks=4)
    rewards: list[Any] = [None]
    for seed in (1, 2):
        live.reset(seed=seed)
        rewards.append(0.0)
        rewards += [live.step(step % 2)[1] for step in range(6)]
    live.close()

    run = replayer.open(path, world=Objectives)
    assert [episode.total for episode in run.episodes] == [7.5, 7.5]
    for tick in (14, 5, 8, 2):
        run.seek(tick)
        restored = run.simulation.last.reward
        assert np.array_equal(restored, rewards[tick])
        assert getattr(restored, "dtype", None) == getattr(rewards[tick], "dtype", None)
    assert run.verify().ok
