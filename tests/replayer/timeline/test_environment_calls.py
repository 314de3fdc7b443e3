"""run.call(tick) is what was called, and an episode knows its options and its end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from optional_packages import needs

import recorder
import replayer
from recorder.errors import MissingTickError

from small_worlds import Herd

needs("gymnasium", "pettingzoo")

import gymnasium  # noqa: E402
from collected_environments import Camera, Guests  # noqa: E402


def test_calls_are_those_that_were_made(tmp_path: Path) -> None:
    """With the types that were passed; nothing is simulated, so the environment is not needed."""
    actions: list[Any] = [
        {"move": np.array([0.5, -0.5], np.float32), "fire": np.int64(1)},
        {"move": np.array([1.0, 0.25], np.float32), "fire": 0},
    ]
    env = recorder.record(Camera(), tmp_path / "run.tape", quiet=True)
    env.reset(seed=4, options={"x": (1.0, 2)})
    for action in actions:
        env.step(action)
    env.reset()
    env.close()

    with replayer.open(tmp_path / "run.tape") as run:
        first = run.call(1)
        assert (first.tick, first.kind, first.seed, first.options, first.action) == (
            1,
            "reset",
            4,
            {"x": (1.0, 2)},
            None,
        )
        assert first.begins
        for tick, action in enumerate(actions, 2):
            call = run.call(tick)
            assert (call.kind, call.begins, call.raised) == ("step", False, None)
            assert call.action["move"].dtype == np.float32
            assert call.action["move"].tobytes() == action["move"].tobytes()
            assert type(call.action["fire"]) is type(action["fire"])
        assert (run.call(-1).kind, run.call(-1).seed, run.call(-1).options) == ("reset", None, None)
        assert run.tick is None
        with pytest.raises(MissingTickError):
            run.call(0)
        with pytest.raises(MissingTickError):
            run.call(9)


def test_calls_of_several_agents_are_maps(tmp_path: Path) -> None:
    env = recorder.record(Guests(), tmp_path / "run.tape", quiet=True)
    env.reset(seed=1)
    env.step({"ann": 1, "bob": np.int64(2)})
    env.close()
    with replayer.open(tmp_path / "run.tape") as run:
        assert run.call(2).action == {"ann": 1, "bob": np.int64(2)}


def test_a_step_at_which_an_environment_resets_itself_begins_an_episode(tmp_path: Path) -> None:
    made = gymnasium.wrappers.Autoreset(gymnasium.make("CartPole-v1", max_episode_steps=3))
    env = recorder.record(made, tmp_path / "run.tape", quiet=True)
    env.reset(seed=1)
    for _ in range(5):
        env.step(0)
    env.close()
    with replayer.open(tmp_path / "run.tape") as run:
        assert [run.call(tick).begins for tick in range(1, 7)] == [True, False, False, False, True, False]
        assert [run.call(tick).kind for tick in range(1, 7)] == ["reset", *["step"] * 5]


def test_a_tape_of_something_else_has_no_calls(tmp_path: Path) -> None:
    with recorder.Recorder(tmp_path / "run.tape", Herd()) as tape:
        tape.step(None)
    with (
        replayer.open(tmp_path / "run.tape") as run,
        pytest.raises(ValueError, match="expected the tape of an environment"),
    ):
        run.call(1)


def test_episodes_have_their_options_and_their_end(tmp_path: Path) -> None:
    """Terminated, truncated, cut by the next reset, and cut by the end of the recording."""
    env = recorder.record(gymnasium.make("CartPole-v1", max_episode_steps=20), tmp_path / "run.tape", quiet=True)
    for seed, options, count in ((1, {"low": -0.01, "high": 0.01}, 99), (2, None, 99), (3, {}, 2), (4, None, 1)):
        env.reset(seed=seed, options=options)
        for step in range(count):
            action = 0 if seed == 1 else step % 2
            if any(env.step(action)[2:4]):
                break
    env.close()
    with replayer.open(tmp_path / "run.tape") as run:
        assert [episode.options for episode in run.episodes] == [{"low": -0.01, "high": 0.01}, None, {}, None]
        assert [(episode.terminated, episode.truncated) for episode in run.episodes] == [
            (True, False), (False, True), (False, False), (False, False),
        ]  # fmt: skip
        assert run.episodes[0].options is not run.episodes[0].options


def test_the_info_of_a_step_is_returned_again(tmp_path: Path) -> None:
    """It is not on the tape: the call is made again."""
    env = recorder.record(Camera(), tmp_path / "run.tape", quiet=True)
    env.reset(seed=4)
    info = env.step({"move": np.zeros(2, np.float32), "fire": 1})[4]
    env.close()
    with replayer.open(tmp_path / "run.tape", world=Camera) as run:
        run.seek(1)
        run.step()
        assert run.simulation.info == info == {"hits": 1, "by": {"name": "t1"}}
