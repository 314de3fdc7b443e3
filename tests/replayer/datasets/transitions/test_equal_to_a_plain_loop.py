"""Every transition that is extracted equals the one that a plain loop collected while it was recorded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from optional_packages import needs

import recorder
import replayer

from oracle.columns_of_values import ensure_row

needs("gymnasium", "pettingzoo", "pyarrow")

import gymnasium  # noqa: E402
from collected_environments import (  # noqa: E402
    Camera,
    Guests,
    Oddities,
    autoreset_loop,
    loop,
    parallel_loop,
    turns_loop,
    vector_loop,
)

COUNT = 200


def cart() -> Any:
    return gymnasium.make("CartPole-v1", max_episode_steps=30)


def resetting_cart() -> Any:
    return gymnasium.wrappers.Autoreset(cart())


def camera() -> Any:
    return gymnasium.wrappers.TimeLimit(Camera(), 20)


def carts(mode: str) -> Any:
    return gymnasium.make_vec(
        "CartPole-v1", 3, vectorization_mode="sync", vector_kwargs={"autoreset_mode": mode}, max_episode_steps=12
    )


def hands() -> Any:
    from pettingzoo.classic.rps import rps

    return rps.parallel_env(max_cycles=20)


def tictactoe() -> Any:
    from pettingzoo.classic.tictactoe import tictactoe as game

    return game.env()


def options(episode: int) -> Any:
    return {"x": (episode % 5) / 4} if episode % 2 else None


CASES: dict[str, tuple[Any, Any]] = {
    "cart": (cart, lambda env: loop(env, COUNT, 3)),
    "lake": (lambda: gymnasium.make("FrozenLake-v1"), lambda env: loop(env, COUNT, 3)),
    "camera": (camera, lambda env: loop(env, COUNT, 3, options)),
    "oddities": (Oddities, lambda env: loop(env, COUNT, 3)),
    "autoreset": (resetting_cart, lambda env: autoreset_loop(env, COUNT, 3)),
    "next_step": (lambda: carts("NextStep"), lambda env: vector_loop(env, COUNT, 3, "NextStep")),
    "same_step": (lambda: carts("SameStep"), lambda env: vector_loop(env, COUNT, 3, "SameStep")),
    "guests": (Guests, lambda env: parallel_loop(env, COUNT, 3)),
    "parallel": (hands, lambda env: parallel_loop(env, COUNT, 3)),
    "turns": (tictactoe, lambda env: turns_loop(env, COUNT, 3)),
}
REBUILT = {"camera": camera, "oddities": Oddities, "guests": Guests}  # Not registered: the user makes them.


def recorded(name: str, path: Path, **settings: Any) -> list[dict[str, Any]]:
    """Record an environment, and return what the plain loop collected."""
    make, collect = CASES[name]
    env = recorder.record(make(), path, quiet=True, keyframe_interval_ticks=40, **settings)
    rows: list[dict[str, Any]] = collect(env)
    env.close()
    return rows


@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize("name", CASES)
def test_every_transition_equals_the_one_of_the_loop(name: str, jobs: int, tmp_path: Path, monkeypatch: Any) -> None:
    """In order, values, dtypes, shapes and bytes, over many parts, in one process and in two."""
    monkeypatch.setattr("replayer.datasets.plan.PART_TICKS", 60)
    rows = recorded(name, tmp_path / "run.tape")
    made = replayer.extract(tmp_path / "run.tape", tmp_path / "set", world=REBUILT.get(name), jobs=jobs)

    assert made.code == 0
    assert made.tables == ("transitions",)
    table = made.table("transitions").to_arrow()
    found = table.to_pylist()
    if name == "turns":
        assert len(made.manifest["tables"]["transitions"]["files"]) > 1
    assert len(found) == len(rows)
    for row, expected in zip(found, rows, strict=True):
        ensure_row(row, expected, table.schema, Oddities.observation_space if name == "oddities" else None)
        if expected["options"] is not None:
            assert json.loads(row["options"]) == expected["options"]
