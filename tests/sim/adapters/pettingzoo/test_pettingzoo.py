"""The PettingZoo adapter: environments of several agents are restored bit for bit, and the wrappers stay wrappers."""

from __future__ import annotations

import random
import sys
import warnings
from pathlib import Path
from typing import Any, ClassVar

import pytest

pytest.importorskip("pettingzoo")
pytest.importorskip("pygame")

import gymnasium
import numpy as np

sys.path.insert(0, str(Path(__file__).parent))  # Another process finds this module there, too.
from continuation import Case, assert_continues
from gymnasium import spaces
from pettingzoo import AECEnv, ParallelEnv
from pettingzoo.classic.connect_four import connect_four
from pettingzoo.classic.rps import rps
from pettingzoo.classic.tictactoe import tictactoe
from pettingzoo.utils import parallel_to_aec

import recorder
import replayer
from recorder.conformance.contract_checks import Subject, check_run
from recorder.testing import SimulationContract
from sim.adapters import NotCapturedError, adapt
from sim.adapters.capture.values import encode_value

pytestmark = pytest.mark.share(0.18)


class Catch(ParallelEnv):
    """Agents chase a prey on a line that hides at random; an agent that catches it is out. Draws odd halves of words."""

    metadata: ClassVar[dict[str, Any]] = {"name": "catch_v0"}
    possible_agents: ClassVar[list[str]] = ["ann", "bob", "cy"]
    render_mode = None

    def __init__(self) -> None:
        self.agents: list[str] = []
        self.rng: Any = None
        self.places: dict[str, int] = {}
        self.views = {agent: spaces.Box(-100, 100, (3,), np.int64) for agent in self.possible_agents}
        self.moves = {agent: spaces.Discrete(3) for agent in self.possible_agents}

    def observation_space(self, agent: str) -> Any:
        return self.views[agent]

    def action_space(self, agent: str) -> Any:
        return self.moves[agent]

    def seen(self, agent: str) -> Any:
        noise = self.rng.integers(0, 2, dtype=np.uint32)
        return np.array([self.places[agent], self.prey, noise], np.int64)

    def reset(self, seed: int | None = None, options: Any = None) -> Any:
        if self.rng is None or seed is not None:
            self.rng = np.random.default_rng(seed)
        self.agents = self.possible_agents[:]
        self.places = {agent: 5 * index for index, agent in enumerate(self.agents)}
        self.prey, self.time = int(self.rng.integers(0, 20)), 0
        return {agent: self.seen(agent) for agent in self.agents}, {agent: {} for agent in self.agents}

    def step(self, actions: dict[str, Any]) -> Any:
        self.time += 1
        for agent, action in actions.items():
            self.places[agent] += int(action) - 1
        self.prey = int(np.clip(self.prey + self.rng.integers(-1, 2, dtype=np.int32), 0, 19))
        acted = self.agents
        caught = {agent: self.places[agent] == self.prey for agent in acted}
        result = (
            {agent: self.seen(agent) for agent in acted},
            {agent: float(caught[agent]) for agent in acted},
            caught,
            dict.fromkeys(acted, self.time >= 40),
            {agent: {} for agent in acted},
        )
        self.agents = [agent for agent in acted if not caught[agent] and self.time < 40]
        return result


class DrawsWhenAsked(AECEnv):
    """Each call of observe draws a new observation from the generator of the steps."""

    metadata: ClassVar[dict[str, Any]] = {"name": "asked_v0"}
    possible_agents: ClassVar[list[str]] = ["a", "b"]

    def __init__(self) -> None:
        self.rng = np.random.default_rng(5)

    def observation_space(self, agent: str) -> Any:
        return spaces.Discrete(1000)

    def action_space(self, agent: str) -> Any:
        return spaces.Discrete(2)

    def observe(self, agent: str) -> int:
        return int(self.rng.integers(1000))

    def reset(self, seed: int | None = None, options: Any = None) -> None:
        self.agents = self.possible_agents[:]
        self.rewards = self._cumulative_rewards = dict.fromkeys(self.agents, 0.0)
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        self.infos = {agent: {} for agent in self.agents}
        self.agent_selection = "a"

    def step(self, action: Any) -> None:
        self.rewards[self.agent_selection] = float(self.rng.random()) * action
        self.agent_selection = "b" if self.agent_selection == "a" else "a"


DECK = random.Random(0)


class DeckOutside(Catch):
    """Its cards lie outside it, as in some card games of other libraries."""

    def step(self, actions: dict[str, Any]) -> Any:
        self.prey = DECK.randrange(20)
        return super().step(actions)


class Hand:
    """A part of a game that a library keeps in objects in a list; it draws from the game's own generator."""

    __slots__ = ("cards", "rng")

    def __init__(self, rng: Any) -> None:
        self.cards, self.rng = [1, 2], rng


class Card:
    """A card on the table; there may be none."""

    def __init__(self, rank: int) -> None:
        self.rank = rank


class Game:
    """A game of a different library, which is not an environment."""

    def __init__(self) -> None:
        self.rng = np.random.RandomState(11)
        self.hands = [Hand(self.rng), Hand(self.rng)]
        self.table: Any = None
        self.pot = 0

    def play(self) -> None:
        hand = self.hands[self.pot % 2]
        hand.cards.append(int(hand.rng.randint(50)))
        self.pot += 1
        self.table = Card(int(self.rng.randint(50))) if self.pot % 3 else None


class Holdem(Catch):
    """Keeps such a game in an attribute that wrappers use for their environment."""

    def __init__(self) -> None:
        super().__init__()
        self.env = Game()

    def step(self, actions: dict[str, Any]) -> Any:
        self.env.play()
        self.prey = (self.prey + sum(map(sum, (hand.cards for hand in self.env.hands)))) % 20
        return super().step(actions)


def shown(simulation: Any) -> bytes:
    """The results that agents receive, as bytes."""
    env, last = simulation.env, simulation.last
    if simulation.is_parallel:
        told = [last.observations, last.rewards, last.terminations, last.truncations]
    else:
        names = ("rewards", "terminations", "truncations", "_cumulative_rewards")
        told = [last.observations, *(dict(vars(env.unwrapped).get(name, {})) for name in names)]
    return encode_value([vars(env.unwrapped).get("agents"), *told])


CASES = {
    "tictactoe": Case(lambda: adapt(tictactoe.env()), shown),
    "connect four": Case(lambda: adapt(connect_four.env()), shown),
    "rock paper scissors": Case(lambda: adapt(rps.env()), shown),
    "rock paper scissors, parallel": Case(lambda: adapt(rps.parallel_env()), shown),
    "catch": Case(lambda: adapt(Catch()), shown),
    "catch, one after the other": Case(lambda: adapt(parallel_to_aec(Catch())), shown),
}


@pytest.mark.parametrize("name", ["tictactoe", "catch"])  # All of them in the long one.
@pytest.mark.seldom(0.15)
def test_a_restored_environment_continues_as_the_live_one_did(name: str, tmp_path: Path) -> None:
    """From random ticks, here and in a fresh process, observations, rewards and states are equal bit for bit."""
    assert_continues("test_pettingzoo", name, tmp_path, steps=150, loads=4)


@pytest.mark.long
@pytest.mark.parametrize("name", CASES)
def test_restored_at_fifty_ticks_of_two_thousand_it_continues_as_the_live_one_did(name: str, tmp_path: Path) -> None:
    """The long version of the test above, for every kind of environment."""
    assert_continues("test_pettingzoo", name, tmp_path, steps=2000, loads=50)


class TestTicTacToe(SimulationContract):
    ticks = 15
    seeds = 4

    def make(self) -> Any:
        return tictactoe.env()


class TestCatch(SimulationContract):
    ticks = 20

    def make(self) -> Any:
        return Catch()


def drive(env: Any, seed: int, moves: int) -> list[Any]:
    """Drive an environment as in PettingZoo's documentation."""
    told: list[Any] = []
    while len(told) < moves:
        env.reset(seed=seed + len(told))
        for agent in env.agent_iter():
            observation, reward, terminated, truncated, _ = env.last()
            told.append((agent, encode_value([observation, reward, terminated, truncated])))
            if terminated or truncated:
                env.step(None)
            else:
                allowed = np.flatnonzero(observation["action_mask"])
                env.step(int(allowed[len(told) * 7 % len(allowed)]))
    return told


@pytest.mark.tried
def test_one_line_records_and_changes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Results equal those without a recorder; the tape makes the environment automatically; episodes are known."""
    env = recorder.record(tictactoe.env(), tmp_path / "run.tape")
    told = drive(env, 3, 60)
    env.close()

    assert told == drive(tictactoe.env(), 3, 60)
    assert (
        "tictactoe_v3: exact in the steps tried: OrderEnforcingWrapper, TerminateIllegalWrapper, raw_env"
        in capsys.readouterr().err
    )
    with replayer.open(tmp_path / "run.tape") as run:
        assert run.verify().ok
        assert len(run.episodes) > 5
        assert all(episode.over for episode in run.episodes)
        run.seek(episode=2, step=3)
        assert sum(map(bool, run.simulation.env.unwrapped.board.squares)) == 3


def test_recorded_environments_keep_their_interfaces(tmp_path: Path) -> None:
    """PettingZoo's own interface tests pass with recorded environments."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from pettingzoo.test import api_test, parallel_api_test

        one = recorder.record(connect_four.env(), tmp_path / "one.tape", quiet=True)
        api_test(one, num_cycles=30)
        one.close()
        other = recorder.record(Catch(), tmp_path / "other.tape", quiet=True)
        parallel_api_test(other, num_cycles=30)
        other.close()
    with replayer.open(tmp_path / "other.tape", world=Catch) as run:
        assert run.verify().ok


def test_rewards_are_summed_over_agents(tmp_path: Path) -> None:
    """The return of an episode is the sum of the rewards of all its agents."""
    env = recorder.record(Catch(), tmp_path / "run.tape", quiet=True)
    env.reset(seed=4)
    got = 0.0
    while env.agents:
        _, rewards, *_ = env.step(dict.fromkeys(env.agents, 2))
        got += sum(rewards.values())
    env.close()
    with replayer.open(tmp_path / "run.tape", world=Catch) as run:
        [episode] = run.episodes
        assert (episode.total, episode.over, episode.seed) == (got, True, 4)


def test_observing_does_not_draw_twice(tmp_path: Path) -> None:
    """An environment whose observations are random is observed once a step."""

    def play(env: Any) -> list[Any]:
        env.reset()
        seen = []
        for _ in range(20):
            seen.append(env.last()[:2])
            env.step(1)
        return seen

    env = recorder.record(DrawsWhenAsked(), tmp_path / "run.tape", quiet=True)
    seen = play(env)
    env.close()

    assert seen == play(DrawsWhenAsked())
    with replayer.open(tmp_path / "run.tape", world=DrawsWhenAsked) as run:
        assert run.verify().ok


def test_a_first_reset_without_a_seed_is_recorded_with_a_drawn_seed(tmp_path: Path) -> None:
    """A seed is drawn if there is no generator yet; an existing generator is part of the state and continues."""
    env = recorder.record(Catch(), tmp_path / "run.tape", quiet=True)
    first = {agent: seen.tolist() for agent, seen in env.reset()[0].items()}
    env.reset()
    env.close()
    with replayer.open(tmp_path / "run.tape", world=Catch) as run:
        assert run.verify().ok
        assert [episode.seed is None for episode in run.episodes] == [False, True]
        run.seek(1)
        assert {agent: seen.tolist() for agent, seen in run.simulation.last.observations.items()} == first


def test_state_outside_the_environment_is_caught() -> None:
    """A second instance, or a load, diverges, and the report names the field that differs."""
    subject = Subject(DeckOutside)
    found = check_run(subject, subject.live(1, 60))

    assert {"same seed twice", "save and load"} <= {one.trial for one in found}
    assert any("DeckOutside.prey" in one.fields for one in found)


def test_objects_in_lists_need_no_trust() -> None:
    """The hands of a card game of a different library are saved by their attributes, exactly."""
    subject = Subject(lambda: adapt(Holdem()))
    found = check_run(subject, subject.live(1, 30))

    assert not found, found[0]


@pytest.mark.parametrize("seeds", [2, pytest.param(8, marks=pytest.mark.long)])
def test_with_trust_they_are_exact(seeds: int) -> None:
    """Objects shared with values that are saved without pickle stay shared; temporary objects are restored."""
    subject = Subject(lambda: adapt(Holdem(), trust=True))
    found = [one for seed in range(seeds) for one in check_run(subject, subject.live(seed, 30))]

    assert not found, found[0]


def test_inputs_suffice_if_each_reset_has_its_seed(tmp_path: Path) -> None:
    """The game is built again from its seed at each reset."""

    class Fresh(Holdem):
        def reset(self, seed: int | None = None, options: Any = None) -> Any:
            self.env = Game()
            return super().reset(seed, options)

    env = recorder.record(Fresh(), tmp_path / "run.tape", quiet=True, level="inputs_only")
    parallel_api_play(env)
    env.close()
    with replayer.open(tmp_path / "run.tape", world=Fresh) as run:
        assert run.verify().ok
        run.seek(25)


def parallel_api_play(env: Any) -> None:
    """Make sixty steps, with resets."""
    env.reset(seed=2)
    for step in range(60):
        env.step(dict.fromkeys(env.agents, step % 3))
        if not env.agents:
            env.reset()


def test_other_objects_are_refused() -> None:
    """The message names the expected classes."""
    from sim.adapters.pettingzoo.adapter import ADAPTER

    with pytest.raises(NotCapturedError, match=r"^expected a PettingZoo AECEnv or ParallelEnv, got "):
        ADAPTER.adapt(gymnasium.make("CartPole-v1"))
