"""Resets without a seed do in a recorded environment what they do without a recording."""

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


class Deck:
    """Keeps the generator, as the inner games of PettingZoo's card games do."""

    def __init__(self, seed: int | None) -> None:
        self.np_random = np.random.RandomState(seed)
        self.cards: list[int] = []

    def deal(self) -> None:
        """Shuffle, and take five."""
        self.cards = self.np_random.permutation(50)[:5].tolist()


class Cards(ParallelEnv):
    """Deals at each reset. Only a reset with a seed makes a new generator."""

    metadata = {"name": "cards"}  # noqa: RUF012
    possible_agents = ["a"]  # noqa: RUF012

    def __init__(self) -> None:
        self.agents: list[str] = []
        self.deck = Deck(None)

    def observation_space(self, agent: str) -> Any:
        return spaces.Box(0, 49, (5,), np.int64)

    def action_space(self, agent: str) -> Any:
        return spaces.Discrete(2)

    def reset(self, seed: int | None = None, options: Any = None) -> Any:
        if seed is not None:
            self.deck = Deck(seed)
        self.deck.deal()
        self.agents = ["a"]
        return {"a": np.array(self.deck.cards)}, {"a": {}}

    def step(self, actions: dict[str, int]) -> Any:
        self.deck.cards[0] += actions["a"]
        return {"a": np.array(self.deck.cards)}, {"a": 0.0}, {"a": False}, {"a": False}, {"a": {}}


def played(env: Any, first_seed: int | None) -> list[list[int]]:
    """Some resets and steps; the observation of each call."""
    shown = []
    for number in range(4):
        observations, _ = env.reset(seed=first_seed if number == 0 else None)
        shown.append(observations["a"].tolist())
        shown += [env.step({"a": action})[0]["a"].tolist() for action in (0, 1, 1)]
    return shown


@pytest.mark.parametrize("level", [None, "inputs_only"])
def test_after_a_seed_the_run_is_that_without_a_recording(tmp_path: Path, level: Any) -> None:
    env = recorder.record(Cards(), tmp_path / "run.tape", level=level, quiet=True)
    live = played(env, 7)
    env.close()

    assert live == played(Cards(), 7)
    with replayer.open(tmp_path / "run.tape", world=Cards) as run:
        assert run.verify(jobs=1).ok


def test_a_generator_that_was_never_seeded_is_saved_and_not_replaced(tmp_path: Path) -> None:
    """It draws on where it was, and the tape has its state."""
    game, twin = Cards(), Cards()
    twin.deck.np_random.set_state(game.deck.np_random.get_state())
    env = recorder.record(game, tmp_path / "run.tape", quiet=True)
    live = played(env, None)
    env.close()

    assert live == played(twin, None)
    with replayer.open(tmp_path / "run.tape", world=Cards) as run:
        assert run.verify(jobs=1).ok
        run.seek(9)
        assert run.simulation.last.observations["a"].tolist() == live[8]
