"""The table of actions of an environment's tape: a row for each call, or for each agent that acted in it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from optional_packages import needs

import recorder
import replayer

needs("gymnasium", "pettingzoo", "pyarrow")

import gymnasium  # noqa: E402
from collected_environments import Camera, Changeable, Guests, loop, parallel_loop, turns_loop  # noqa: E402
from environment_runs import tictactoe  # noqa: E402


def actions_of(path: Path, **asked: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = (
        replayer.extract(path, tables="actions", **asked).table("actions").to_arrow().to_pylist()
    )
    return rows


def test_a_number_is_in_the_column_action(tmp_path: Path) -> None:
    """CartPole's actions with the ticks that they lead to, between the resets with their seeds."""
    path = tmp_path / "cart.tape"
    env = recorder.record(gymnasium.make("CartPole-v1", max_episode_steps=15), path, quiet=True)
    steps = loop(env, 40, 3)
    env.close()
    expected, tick = [], 0
    for one in steps:
        if one["step"] == 0:
            tick += 1
            expected.append((tick, "", "reset", one["seed"], None))
        tick += 1
        expected.append((tick, "", "step", None, int(one["action"])))

    found = actions_of(path)
    assert list(found[0]) == ["run", "tick", "agent", "call", "seed", "action"]
    assert [tuple(row[name] for name in ("tick", "agent", "call", "seed", "action")) for row in found] == expected


def test_parts_of_an_action_have_columns_of_their_own(tmp_path: Path) -> None:
    """A Dict action by the paths in it, arrays as JSON; options as JSON."""
    path = tmp_path / "camera.tape"
    env = recorder.record(gymnasium.wrappers.TimeLimit(Camera(), 9), path, quiet=True)
    steps = loop(env, 20, 1, lambda episode: {"x": 0.5} if episode else None)
    env.close()
    found = actions_of(path, world=lambda: gymnasium.wrappers.TimeLimit(Camera(), 9))

    acts = [row for row in found if row["call"] == "step"]
    assert len(acts) == len(steps)
    for row, one in zip(acts, steps, strict=True):
        assert row["action.fire"] == one["action"]["fire"]
        assert np.array_equal(np.float32(json.loads(row["action.move"])), one["action"]["move"])
    resets = [row["options"] for row in found if row["call"] == "reset"]
    assert resets == [None, *['{"x": 0.5}'] * (len(resets) - 1)]


def test_agents_have_rows_of_their_own(tmp_path: Path) -> None:
    """Of agents that act at once, and of agents in turn, whose agent is known from the environment."""
    path = tmp_path / "guests.tape"
    env = recorder.record(Guests(), path, quiet=True)
    steps = parallel_loop(env, 20, 1)
    env.close()
    found = [row for row in actions_of(path, world=Guests) if row["call"] == "step"]
    assert [(row["agent"], row["action"]) for row in found] == [(one["agent"], one["action"]) for one in steps]
    chosen = [row for row in actions_of(path, world=Guests, agents="cyd") if row["call"] == "step"]
    assert [row["action"] for row in chosen] == [one["action"] for one in steps if one["agent"] == "cyd"]

    env = recorder.record(tictactoe(), tmp_path / "turns.tape", quiet=True)
    turns = turns_loop(env, 12, 3)
    env.close()
    found = [row for row in actions_of(tmp_path / "turns.tape") if row["call"] == "step" and row["action"] is not None]
    for agent in {one["agent"] for one in turns}:
        expected = [one["action"] for one in turns if one["agent"] == agent]
        assert [row["action"] for row in found if row["agent"] == agent][: len(expected)] == expected


def test_a_call_that_raised_is_told_apart(tmp_path: Path) -> None:
    path = tmp_path / "raised.tape"
    env = recorder.record(Changeable(), path, quiet=True)
    env.reset(seed=1)
    for action in (1, 8, 2):
        try:
            env.step(action)
        except ValueError:
            assert action == 8
    env.close()
    found = actions_of(path, world=Changeable)
    assert [(row["call"], row["action"], row["raised"]) for row in found] == [
        ("reset", None, None), ("step", 1, None), ("step", 8, "ValueError"), ("step", 2, None),
    ]  # fmt: skip
