"""The episode in which an environment's tape was resumed has the totals of all of its steps."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from optional_packages import needs

import recorder
import replayer
from sim.adapters import adapt

needs("gymnasium", "pettingzoo")

import gymnasium  # noqa: E402
import numpy as np  # noqa: E402
from pettingzoo.classic.rps import rps  # noqa: E402

KILLED = """
import os, signal, sys
import gymnasium, recorder
env = recorder.record(gymnasium.make("CartPole-v1"), sys.argv[1], quiet=True, keyframe_interval_ticks=4, durability="tick")
env.reset(seed=1)
for step in range(9):
    env.step(step % 2)
os.kill(os.getpid(), signal.SIGKILL)
"""


def plain_episode(env: Any, seed: int) -> tuple[int, float]:
    """Steps and return of an episode of alternating actions, without a recording."""
    env.reset(seed=seed)
    steps, total, is_over = 0, 0.0, False
    while not is_over:
        _, reward, terminated, truncated, _ = env.step(steps % 2)
        steps, total, is_over = steps + 1, total + float(reward), terminated or truncated
    return steps, total


def finish(env: Any, steps: int) -> None:
    """Play the episode to its end."""
    while not any(env.step(steps % 2)[2:4]):
        steps += 1


def begun(path: Path, kept: Any) -> None:
    """A tape of ten ticks in its second episode."""
    env = recorder.record(gymnasium.make("CartPole-v1"), path, quiet=True, keyframe_interval_ticks=4)
    env.reset(seed=3)
    env.step(1)
    env.reset(seed=1)
    for step in range(kept):
        env.step(step % 2)
    env.close()


def resumed(path: Path, env: Any) -> tuple[Any, Any]:
    tape = recorder.resume(path, adapt(env))
    return tape, recorder.object_of(tape)


@pytest.mark.parametrize("kept", [0, 1, 7])
def test_a_closed_tape(tmp_path: Path, kept: int) -> None:
    """Closed after the reset, and in mid-episode, between keyframes and beyond one."""
    path = tmp_path / "run.tape"
    begun(path, kept)
    _, env = resumed(path, gymnasium.make("CartPole-v1"))
    finish(env, kept)
    env.reset(seed=4)
    env.close()
    episode = replayer.open(path).episodes[1]
    assert (episode.steps, episode.total) == plain_episode(gymnasium.make("CartPole-v1"), 1)
    assert episode.terminated


@pytest.mark.seldom(0.15)
def test_a_killed_recording(tmp_path: Path) -> None:
    path = tmp_path / "run.tape"
    assert subprocess.run([sys.executable, "-c", KILLED, str(path)], check=False).returncode == -signal.SIGKILL
    tape, env = resumed(path, gymnasium.make("CartPole-v1"))
    assert tape.tick == 10
    finish(env, 9)
    env.close()
    [episode] = replayer.open(path).episodes
    assert (episode.steps, episode.total) == plain_episode(gymnasium.make("CartPole-v1"), 1)


@pytest.mark.seldom(0.18)
def test_a_long_episode_has_the_totals_that_the_tape_states(tmp_path: Path, monkeypatch: Any) -> None:
    """Nothing is made again for it. Without such a statement the totals are not known."""
    monkeypatch.setattr("recorder.reopen.running_episode.STEPS_MAX", 3)
    path = tmp_path / "run.tape"
    begun(path, 7)
    tape, env = resumed(path, gymnasium.make("CartPole-v1"))
    assert tape.resumed.keyframe_tick >= 8
    env.step(1)
    tape.close({"reason": "elsewhere"})
    assert replayer.open(path).episodes[1].total is None
    _, env = resumed(path, gymnasium.make("CartPole-v1"))
    finish(env, 8)
    env.close()
    assert replayer.open(path).episodes[1].total is None

    begun(tmp_path / "stated.tape", 7)
    _, env = resumed(tmp_path / "stated.tape", gymnasium.make("CartPole-v1"))
    finish(env, 7)
    env.close()
    episode = replayer.open(tmp_path / "stated.tape").episodes[1]
    assert (episode.steps, episode.total) == plain_episode(gymnasium.make("CartPole-v1"), 1)


def test_vectors_and_agents(tmp_path: Path) -> None:
    """The sum over all environments, or over all agents."""
    path = tmp_path / "vector.tape"
    make = lambda: gymnasium.make_vec("CartPole-v1", 2, vectorization_mode="sync")  # noqa: E731
    env: Any = recorder.record(make(), path, quiet=True)
    env.reset(seed=1)
    rewards = [env.step(np.array([step % 2, 1]))[1].sum() for step in range(3)]
    env.close()
    _, env = resumed(path, make())
    rewards += [env.step(np.array([step % 2, 1]))[1].sum() for step in range(3)]
    env.close()
    assert replayer.open(path).episodes[0].total == sum(rewards)

    path = tmp_path / "hands.tape"
    env = recorder.record(rps.parallel_env(max_cycles=6), path, quiet=True)
    env.reset(seed=1)
    rounds = [sum(env.step(dict.fromkeys(env.agents, step % 3))[1].values()) for step in range(2)]
    env.close()
    _, env = resumed(path, rps.parallel_env(max_cycles=6))
    while env.agents:
        moves = {agent: index for index, agent in enumerate(env.agents)}
        rounds.append(sum(env.step(moves)[1].values()))
    env.close()
    [episode] = replayer.open(path).episodes
    assert (episode.steps, episode.total, episode.over, episode.truncated) == (len(rounds), sum(rounds), True, True)
