"""Gymnasium's RecordVideo works around a recorded environment and inside one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import pytest
from gymnasium.wrappers import RecordVideo

import recorder
import replayer

STEPS = 40


def cart_pole() -> Any:
    """A CartPole that renders."""
    return gymnasium.make("CartPole-v1", render_mode="rgb_array")


def filmed(env: Any, folder: Path) -> Any:
    """The environment with a wrapper that makes a video of every episode."""
    return RecordVideo(env, str(folder), episode_trigger=lambda _: True, disable_logger=True)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # Of pygame and moviepy, about each other.
@pytest.mark.sample(1)
@pytest.mark.parametrize("is_outside", [True, False])
@pytest.mark.seldom(0.15)
def test_a_video_and_a_tape(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_outside: bool) -> None:  # noqa: FBT001
    """There is a video for each episode; the tape replays, and the picture is not part of the state."""
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    path, folder = tmp_path / "run.tape", tmp_path / "films"
    if is_outside:
        env = filmed(recorder.record(cart_pole(), path, quiet=True), folder)
    else:
        env = recorder.record(filmed(cart_pole(), folder), path, quiet=True)
    env.action_space.seed(3)
    seen, episodes = [env.reset(seed=1)[0]], 1
    for _ in range(STEPS):
        observation, _, terminated, truncated, _ = env.step(env.action_space.sample())
        seen.append(observation)
        if terminated or truncated:
            seen.append(env.reset()[0])
            episodes += 1
    env.close()

    assert len(list(folder.glob("*.mp4"))) == episodes > 1
    with replayer.open(path) as run:
        assert run.verify().ok
        assert len(run.episodes) == episodes
        for tick in (1, 7, run.last_tick, 20):
            run.seek(tick)
            assert run.state["result.observation"].tobytes() == seen[tick - 1].tobytes()
