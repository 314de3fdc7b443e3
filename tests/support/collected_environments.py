"""Environments whose spaces are of every kind, and plain loops that collect what they return while they are recorded."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from pettingzoo import ParallelEnv

Row = dict[str, Any]


class Camera(gymnasium.Env):
    """A Dict observation with an image that is written in place, Dict actions, options at a reset, changing infos."""

    metadata = {"render_modes": []}  # noqa: RUF012
    observation_space = spaces.Dict(
        {
            "image": spaces.Box(0, 255, (8, 8, 3), np.uint8),
            "pose": spaces.Dict({"x": spaces.Box(-9, 9, (2,), np.float32), "turn": spaces.Discrete(3, start=-1)}),
            "flags": spaces.MultiBinary(4),
            "wheel": spaces.MultiDiscrete([3, 2]),
        }
    )
    action_space = spaces.Dict({"move": spaces.Box(-1, 1, (2,), np.float32), "fire": spaces.Discrete(2)})

    def __init__(self) -> None:
        self.image = np.zeros((8, 8, 3), np.uint8)
        self.x = np.zeros(2, np.float32)
        self.t = 0

    def _observed(self) -> dict[str, Any]:
        self.image[self.t % 8, :, 1] += 1
        return {
            "image": self.image,
            "pose": {"x": self.x.copy(), "turn": self.t % 3 - 1},
            "flags": self.np_random.integers(0, 2, 4).astype(np.int8),
            "wheel": np.array([self.t % 3, self.t % 2]),
        }

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.t = 0
        self.x[:] = (options or {}).get("x", 0)
        return self._observed(), {"start": True}

    def step(self, action: Any) -> Any:
        self.t += 1
        self.x = np.clip(self.x + action["move"], -9, 9).astype(np.float32)
        info = {"hits": self.t, "by": {"name": f"t{self.t}"}} if action["fire"] else {}
        return self._observed(), float(action["fire"]) - 0.1, bool(abs(self.x[0]) > 2), False, info


class Oddities(gymnasium.Env):
    """A Tuple of a Text, a Sequence, a stacked one, a Graph and a choice of one of two spaces."""

    metadata = {"render_modes": []}  # noqa: RUF012
    observation_space = spaces.Tuple(
        (
            spaces.Text(8, min_length=0),
            spaces.Sequence(spaces.Box(-1, 1, (2,), np.float32)),
            spaces.Sequence(spaces.Dict({"a": spaces.Discrete(5), "b": spaces.Box(0, 1, (3,))}), stack=True),
            spaces.Graph(spaces.Box(-1, 1, (2,)), spaces.Discrete(4)),
            spaces.OneOf((spaces.Discrete(3), spaces.Box(0, 1, (2,)))),
            spaces.Sequence(spaces.Text(4)),
            spaces.Box(0, 1, (0,)),
        )
    )
    action_space = spaces.Tuple((spaces.Text(5), spaces.MultiBinary(2)))

    def __init__(self) -> None:
        self.t = 0

    def _observed(self) -> Any:
        random, n = self.np_random, self.t % 3
        boxes = tuple(random.random(2).astype(np.float32) for _ in range(n))
        stacked = {"a": np.arange(n), "b": random.random((n, 3)).astype(np.float32)}
        edges = np.arange(n) if n else None
        links = np.array([[0, 1]] * n, np.int32) if n else None
        graph = spaces.GraphInstance(random.random((n + 1, 2)).astype(np.float32), edges, links)
        chosen = (np.int64(0), np.int64(n)) if n % 2 else (np.int64(1), random.random(2).astype(np.float32))
        return ("täxt"[:n], boxes, stacked, graph, chosen, tuple("ab"[:n]), np.zeros(0, np.float32))

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed, options=options)
        self.t = 0
        return self._observed(), {}

    def step(self, action: Any) -> Any:
        self.t += 1
        return self._observed(), len(action[0]), self.t % 5 == 0, self.t % 7 == 0, {}


def loop(env: Any, count: int, seed: int, options: Callable[[int], Any] = lambda _: None) -> list[Row]:
    """What a plain loop collects of an environment."""
    rows: list[Row] = []
    env.action_space.seed(seed)
    episode, is_over, seen, step, given, asked = -1, True, None, 0, None, None
    while len(rows) < count:
        if is_over:
            episode, step = episode + 1, 0
            given, asked = seed if episode % 3 == 0 else None, options(episode)
            seen, _ = copy.deepcopy(env.reset(seed=given, options=asked))
        action = env.action_space.sample()
        then, reward, terminated, truncated, info = copy.deepcopy(env.step(action))
        row = {"episode": episode, "step": step, "agent": "", "seed": given, "options": asked, "obs": seen}
        row |= {"action": copy.deepcopy(action), "reward": reward, "next": then}
        rows.append(row | {"terminated": terminated, "truncated": truncated, "info": info})
        seen, step, is_over = then, step + 1, terminated or truncated
    return rows


def autoreset_loop(env: Any, count: int, seed: int) -> list[Row]:
    """The same of Gymnasium's wrapper Autoreset: the step after an end resets, and is no transition."""
    rows: list[Row] = []
    env.action_space.seed(seed)
    seen, _ = env.reset(seed=seed)
    episode = step = 0
    is_over = False
    while len(rows) < count:
        action = env.action_space.sample()
        then, reward, terminated, truncated, info = copy.deepcopy(env.step(action))
        if is_over:
            episode, step = episode + 1, 0
        else:
            row = {"episode": episode, "step": step, "agent": "", "seed": None if episode else seed, "options": None}
            row |= {"obs": seen, "action": action, "reward": reward, "next": then}
            rows.append(row | {"terminated": terminated, "truncated": truncated, "info": info})
            step += 1
        seen, is_over = then, terminated or truncated
    return rows


def part(value: Any, index: int, like: Any = None) -> Any:
    """What belongs to one environment of a vector. like: a value with the same keys, without masks of who has them."""
    if isinstance(value, dict):
        return {key: part(value[key], index, one) for key, one in (value if like is None else like).items()}
    return value[index]


def vector_loop(envs: Any, count: int, seed: int, mode: str) -> list[Row]:
    """The same of a vector: a stream of episodes for each of its environments."""
    rows: list[Row] = []
    envs.action_space.seed(seed)
    n = envs.num_envs
    seen, _ = copy.deepcopy(envs.reset(seed=seed))
    episodes, steps, over = [0] * n, [0] * n, [False] * n
    seeds: list[Any] = [seed + i for i in range(n)]
    options: list[Any] = [None] * n

    def next_episode(i: int, asked: Any = None) -> None:
        episodes[i], steps[i], over[i], seeds[i], options[i] = episodes[i] + 1, 0, False, None, asked

    while len(rows) < count:
        actions = envs.action_space.sample()
        then, rewards, terminated, truncated, infos = copy.deepcopy(envs.step(actions))
        for i in range(n):
            if over[i] and mode == "NextStep":
                next_episode(i)
                continue
            over[i] = bool(terminated[i] or truncated[i])
            final = (
                part(infos["final_obs"], i, then if isinstance(then, dict) else None)
                if (over[i] and mode == "SameStep")
                else part(then, i)
            )
            row = {"episode": episodes[i], "step": steps[i], "agent": "", "env": i, "options": options[i]}
            row |= {"seed": seeds[i], "obs": part(seen, i), "action": part(actions, i), "reward": rewards[i]}
            rows.append(row | {"next": final, "terminated": bool(terminated[i]), "truncated": bool(truncated[i])})
            steps[i] += 1
            if over[i] and mode == "SameStep":
                next_episode(i)
        seen = then
        if mode == "Disabled" and any(over):
            mask = np.array(over)
            seen, _ = copy.deepcopy(envs.reset(options={"reset_mask": mask}))
            for i in np.flatnonzero(mask).tolist():
                next_episode(i, {"reset_mask": mask.tolist()})
    return rows


def parallel_loop(env: Any, count: int, seed: int) -> list[Row]:
    """The same of a PettingZoo environment whose agents act at once."""
    rows: list[Row] = []
    random = np.random.default_rng(seed)
    episode = -1
    while len(rows) < count:
        episode += 1
        seen, _ = copy.deepcopy(env.reset(seed=seed + episode))
        step = 0
        while env.agents:
            actions = {agent: int(random.integers(0, 3)) for agent in env.agents}
            then, rewards, terminated, truncated, infos = copy.deepcopy(env.step(actions))
            for agent, action in actions.items():
                row = {"episode": episode, "step": step, "agent": agent, "seed": seed + episode, "options": None}
                row |= {"obs": seen[agent], "action": action, "reward": rewards[agent], "next": then.get(agent)}
                row |= {"terminated": terminated[agent], "truncated": truncated[agent]}
                rows.append(row | {"info": infos.get(agent, {})})
            seen, step = then, step + 1
    return rows


def turns_loop(env: Any, count: int, seed: int) -> list[Row]:
    """The same of a PettingZoo environment whose agents act in turn."""
    rows: list[Row] = []
    random = np.random.default_rng(seed)
    episode = -1
    while len(rows) < count:
        episode += 1
        env.reset(seed=seed + episode)
        waiting: dict[str, Row] = {}
        turns: dict[str, int] = {}
        for agent in env.agent_iter():
            seen, reward, terminated, truncated, info = copy.deepcopy(env.last())
            if agent in waiting:
                row = waiting.pop(agent) | {"reward": reward, "next": seen, "info": info}
                rows.append(row | {"terminated": terminated, "truncated": truncated})
            action = None
            if not (terminated or truncated):
                mask = seen["action_mask"]
                action = int(random.choice(np.flatnonzero(mask)))
                turns[agent] = turns.get(agent, -1) + 1
                waiting[agent] = {"episode": episode, "step": turns[agent], "agent": agent, "seed": seed + episode}
                waiting[agent] |= {"options": None, "obs": seen, "action": action}
            env.step(action)
    return rows


class Guests(ParallelEnv):  # type: ignore[misc]
    """Agents that act at once, of whom some come late and others leave early."""

    metadata = {"name": "guests_v0"}  # noqa: RUF012
    possible_agents = ["ann", "bob", "cyd"]  # noqa: RUF012

    def __init__(self) -> None:
        self.agents: list[str] = []
        self.t = 0
        self.rng = np.random.default_rng(0)

    def observation_space(self, agent: str) -> Any:  # noqa: ARG002
        return spaces.Box(0, 1, (2,), np.float64)

    def action_space(self, agent: str) -> Any:  # noqa: ARG002
        return spaces.Discrete(3)

    def _observed(self) -> dict[str, Any]:
        return {agent: self.rng.random(2) for agent in self.agents}

    def reset(self, seed: int | None = None, options: Any = None) -> Any:  # noqa: ARG002
        if seed is not None:
            self.rng = np.random.default_rng(seed)
        self.t, self.agents = 0, ["ann", "bob"]
        return self._observed(), {agent: {} for agent in self.agents}

    def step(self, actions: dict[str, Any]) -> Any:
        self.t += 1
        acting = list(self.agents)
        observed = self._observed()
        ended = {agent: self.t == 3 and agent == "bob" for agent in acting}
        cut = dict.fromkeys(acting, self.t == 6)
        self.agents = [agent for agent in acting if not (ended[agent] or cut[agent])]
        if self.t == 2:
            self.agents.append("cyd")
            observed["cyd"] = self.rng.random(2)
        rewards = {agent: float(actions[agent]) for agent in acting}
        return observed, rewards, ended, cut, {agent: {"t": self.t} for agent in acting}


class Changeable(gymnasium.Env):
    """Its observation has a part that comes late, and a number whose dtype changes; its steps may raise."""

    metadata = {"render_modes": []}  # noqa: RUF012
    observation_space = spaces.Dict({"x": spaces.Box(-9, 9, (2,), np.float32)})
    action_space = spaces.Discrete(9)

    def __init__(self) -> None:
        self.t = 0

    def _observed(self) -> dict[str, Any]:
        late = {"late": self.t, "wide": np.arange(self.t % 4)} if self.t > 150 else {}
        return {"x": np.full(2, 0.1, np.float32 if self.t < 160 else np.float64), **late}

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed, options=options)
        return self._observed(), {}

    def step(self, action: Any) -> Any:
        if action == 8:
            raise ValueError("not allowed")
        self.t += 1
        return self._observed(), 0 if self.t % 2 else 0.5, False, self.t % 50 == 0, {}
