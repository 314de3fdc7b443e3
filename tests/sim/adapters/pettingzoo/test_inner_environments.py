"""An environment of several agents inside an attribute of another is state, as every other object."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pettingzoo")

import numpy as np
from gymnasium import spaces
from pettingzoo import ParallelEnv

import recorder
import replayer

TICKS = 20


class Inner(ParallelEnv):
    """Counts the actions of two agents."""

    metadata = {"name": "inner"}  # noqa: RUF012
    possible_agents = ["a", "b"]  # noqa: RUF012

    def __init__(self) -> None:
        self.agents: list[str] = []
        self.total = 0

    def observation_space(self, agent: str) -> Any:
        return spaces.Box(-1e9, 1e9, (1,), np.float64)

    def action_space(self, agent: str) -> Any:
        return spaces.Discrete(3)

    def reset(self, seed: int | None = None, options: Any = None) -> Any:
        self.agents, self.total = list(self.possible_agents), 0
        return {agent: np.zeros(1) for agent in self.agents}, {agent: {} for agent in self.agents}

    def step(self, actions: dict[str, int]) -> Any:
        self.total += 1 + sum(actions.values())
        agents = self.agents
        nothing = [dict.fromkeys(agents, value) for value in (0.0, False, False)]
        return {agent: np.zeros(1) for agent in agents}, *nothing, {agent: {} for agent in agents}


class Outer(Inner):
    """Leaves all work to an inner environment, and shows nothing of it."""

    metadata = {"name": "outer"}  # noqa: RUF012

    def __init__(self) -> None:
        super().__init__()
        self.hidden_env = Inner()

    def reset(self, seed: int | None = None, options: Any = None) -> Any:
        self.hidden_env.reset(seed)
        return super().reset(seed)

    def step(self, actions: dict[str, int]) -> Any:
        self.hidden_env.step(actions)
        return super().step(dict.fromkeys(actions, 0))


@pytest.mark.parametrize("interval", [1, 5, 300])
@pytest.mark.seldom(0.15)
def test_an_environment_in_an_attribute_is_restored(tmp_path: Path, interval: int) -> None:
    """At every tick, backwards and in any order."""
    path, env = tmp_path / "run.tape", Outer()
    live = recorder.record(env, path, quiet=True, keyframe_interval_ticks=interval)
    live.reset(seed=1)
    totals = [0, 0]
    for step in range(TICKS):
        live.step({"a": step % 3, "b": step % 2})
        totals.append(env.hidden_env.total)
    live.close()

    run = replayer.open(path, world=Outer)
    for tick in (12, 3, 21, 7, 20, 1):
        run.seek(tick)
        assert run.simulation.env.hidden_env.total == totals[tick], tick
    assert run.verify().ok
