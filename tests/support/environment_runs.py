"""Recordings of environments of every kind, each with what a plain loop collected meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
from collected_environments import (
    Camera,
    Guests,
    Oddities,
    Row,
    autoreset_loop,
    loop,
    parallel_loop,
    turns_loop,
    vector_loop,
)

import recorder

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


def cameras() -> Any:
    return gymnasium.vector.SyncVectorEnv([camera, camera], autoreset_mode="SameStep")


def hands() -> Any:
    from pettingzoo.classic.rps import rps

    return rps.parallel_env(max_cycles=20)


def tictactoe() -> Any:
    from pettingzoo.classic.tictactoe import tictactoe as game

    return game.env()


def options(episode: int) -> Any:
    return {"x": (episode % 5) / 4} if episode % 2 else None


CASES: dict[str, tuple[Callable[[], Any], Callable[[Any], list[Row]]]] = {
    "cart": (cart, lambda env: loop(env, COUNT, 3)),
    "lake": (lambda: gymnasium.make("FrozenLake-v1"), lambda env: loop(env, COUNT, 3)),
    "camera": (camera, lambda env: loop(env, COUNT, 3, options)),
    "oddities": (Oddities, lambda env: loop(env, COUNT, 3)),
    "autoreset": (resetting_cart, lambda env: autoreset_loop(env, COUNT, 3)),
    "next_step": (lambda: carts("NextStep"), lambda env: vector_loop(env, COUNT, 3, "NextStep")),
    "same_step": (lambda: carts("SameStep"), lambda env: vector_loop(env, COUNT, 3, "SameStep")),
    "disabled": (lambda: carts("Disabled"), lambda env: vector_loop(env, COUNT, 3, "Disabled")),
    "cameras": (cameras, lambda env: vector_loop(env, COUNT, 3, "SameStep")),
    "guests": (Guests, lambda env: parallel_loop(env, COUNT, 3)),
    "parallel": (hands, lambda env: parallel_loop(env, COUNT, 3)),
    "turns": (tictactoe, lambda env: turns_loop(env, COUNT, 3)),
}
REBUILT: dict[str, Any] = {
    "camera": camera,
    "cameras": cameras,
    "oddities": Oddities,
    "guests": Guests,
}  # Not registered: the user makes them.


def recorded(name: str, path: Path, **settings: Any) -> list[Row]:
    """Record an environment, and return what the plain loop collected."""
    make, collect = CASES[name]
    env = recorder.record(make(), path, quiet=True, keyframe_interval_ticks=40, trial_ms=0, **settings)
    rows = collect(env)
    env.close()
    return rows
