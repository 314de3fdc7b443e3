"""PettingZoo's chess keeps a table of actions in a module, which each observation fills: a seek fills it as well."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any, ClassVar

import pytest

pytest.importorskip("pettingzoo")
pytest.importorskip("pygame")
pytest.importorskip("chess")

import numpy as np
from gymnasium import spaces
from pettingzoo import AECEnv
from pettingzoo.classic.chess import chess, chess_utils

import recorder
import replayer
from sim.adapters import CapturedWarning, adapt
from sim.kernel.simulation import restore

TICKS = 24
TABLES = (chess_utils.actions_to_moves, chess_utils.moves_to_actions)


def as_in_a_new_process() -> None:
    """Empty the tables of the module."""
    for table in TABLES:
        table.clear()


@pytest.mark.seldom(0.15)
def test_a_seek_in_a_new_process_plays_on(tmp_path: Path) -> None:
    """Boards and observations are those that a plain loop kept; without the tables the next action was a KeyError."""
    seen: list[tuple[str, Any]] = []
    env = recorder.record(chess.env(), tmp_path / "run.tape", quiet=True, trial_ms=0, keyframe_interval_ticks=8)
    env.reset(seed=1)
    for _ in range(TICKS):
        observation, *_ = env.last()
        seen.append((env.unwrapped.board.fen(), observation["observation"].copy()))
        env.step(random.choice(np.flatnonzero(observation["action_mask"]).tolist()))
    env.close()
    as_in_a_new_process()
    run = replayer.open(tmp_path / "run.tape")
    for tick in random.sample(range(1, TICKS + 1), 6):
        as_in_a_new_process()
        run.seek(tick)
        for board, observed in seen[tick - 1 : tick + 2]:
            assert run.subject.unwrapped.board.fen() == board
            assert np.array_equal(run.simulation.last.observations["observation"], observed)
            run.step()
    as_in_a_new_process()
    assert run.verify().ok


class ForgetsTheGone(AECEnv):
    """Has no observation for an agent that is gone, although that agent is still selected."""

    metadata: ClassVar[dict[str, Any]] = {"name": "forgets_v0"}
    possible_agents: ClassVar[list[str]] = ["a", "b"]

    def __init__(self) -> None:
        self.places: dict[str, int] = {}

    def observation_space(self, agent: str) -> Any:
        return spaces.Discrete(1000)

    def action_space(self, agent: str) -> Any:
        return spaces.Discrete(3)

    def observe(self, agent: str) -> int:
        return self.places[agent]

    def reset(self, seed: int | None = None, options: Any = None) -> None:
        self.agents = self.possible_agents[:]
        self.places = dict.fromkeys(self.agents, 0)
        self.rewards = self._cumulative_rewards = dict.fromkeys(self.agents, 0.0)
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        self.infos = {agent: {} for agent in self.agents}
        self.agent_selection = "a"

    def step(self, action: Any) -> None:
        agent = self.agent_selection
        if action == 2:
            del self.places[agent]
            return
        self.places[agent] += int(action)
        self.agent_selection = next(other for other in self.agents if other in self.places)


def test_a_load_tells_of_an_observation_that_raises_and_is_exact() -> None:
    """The load failed with the KeyError of the environment, although the state needs no observation."""
    live = adapt(ForgetsTheGone())
    live.step({"reset": 1})
    live.step(1)
    with pytest.raises(KeyError, match="a") as raised:
        live.step(2)
    assert live.attempted(2, raised.value) is not None
    other = adapt(ForgetsTheGone())
    told = r"^forgets_v0 was loaded, but what an observation keeps .*: last\(\) of agent a raised KeyError: 'a'$"
    with pytest.warns(CapturedWarning, match=told):
        restore(other, live.state.snapshot())
    assert other.env.places == {"b": 0}
    for call in ({"reset": 2}, 1, 0, 1):
        live.step(call)
        other.step(call)
        assert other.state.hash() == live.state.hash()
    assert other.env.places == {"a": 2, "b": 0}
