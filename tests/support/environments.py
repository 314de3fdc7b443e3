"""Small environments for tests of the adapter: correct ones, and ones with typical traps of foreign simulations."""

from __future__ import annotations

import random
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

CLASSIC = ("CartPole-v1", "Acrobot-v1", "MountainCar-v0", "Pendulum-v1", "FrozenLake-v1", "Taxi-v4", "Blackjack-v1")


class Drift(gymnasium.Env):
    """A random walk that draws 32-bit numbers: NumPy buffers half of a word for the next draw."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012
    observation_space = spaces.Box(-1e9, 1e9, (2,), np.float64)
    action_space = spaces.Discrete(3)

    def __init__(self, render_mode: str | None = None) -> None:
        self.render_mode = render_mode
        self.x = np.zeros(2)
        self.seen = self.x  # The same array under a second name.
        self.trail: list[int] = []

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.x[:] = (options or {}).get("start", 0.0)
        self.trail = []
        return self.x.copy(), {}

    def step(self, action: Any) -> Any:
        self.x[0] += int(action) - 1 + int(self.np_random.integers(0, 3, dtype=np.uint32)) - 1
        self.seen[1] += 0.5 * len(self.trail)
        self.trail.append(int(action))
        return self.x.copy(), float(self.x[0]), bool(abs(self.x[0]) > 6), len(self.trail) >= 40, {}

    def render(self) -> Any:
        return np.full((8, 8, 3), int(abs(self.x[0])) % 256, np.uint8)


class Windowed(Drift):
    """Its window is None until it is used, and is not for drawing: its steps read the numbers in it."""

    def __init__(self) -> None:
        super().__init__()
        self.window: Any = None

    def step(self, action: Any) -> Any:
        if len(self.trail) == 3:
            self.window = [1.0]
        if self.window is not None:
            self.window = [*self.window[-3:], float(action)]
            self.x[1] += sum(self.window)
        return super().step(action)


class ForgetsItsRandomState(Drift):
    """Draws from the random module."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        if seed is not None:
            random.seed(seed)
        return super().reset(seed=seed, options=options)

    def step(self, action: Any) -> Any:
        self.x[0] += random.random() - 0.5
        return super().step(action)


class OrderOfASet(Drift):
    """Its step depends on the order of a set of texts."""

    def step(self, action: Any) -> Any:
        self.x[1] += int(next(iter({str(number) for number in range(500)})))
        return super().step(action)


class Coroutine(Drift):
    """Its state is the position of a Python generator, which cannot be saved."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        result = super().reset(seed=seed, options=options)
        self.routine = self.run()
        next(self.routine)
        return result

    def run(self) -> Any:
        total = 0.0
        while True:
            total += float(self.np_random.normal()) * (yield total)

    def step(self, action: Any) -> Any:
        self.x[0] += self.routine.send(int(action))
        return super().step(action)


class Speed:
    """An object of an environment, with attributes that its steps change."""

    def __init__(self) -> None:
        self.now = 1
        self.past = np.zeros(3)


class NamedAsWrappersDo(Drift):
    """Keeps a foreign simulator under the name that wrappers use for their environment."""

    def __init__(self) -> None:
        super().__init__()
        self.env = Speed()

    def step(self, action: Any) -> Any:
        self.env.now = 1 + (self.env.now * 3 + int(action)) % 5
        self.x[1] += self.env.now
        return super().step(action)


class WithAnObject(Drift):
    """Keeps part of its state in an object."""

    def __init__(self) -> None:
        super().__init__()
        self.speed = Speed()

    def step(self, action: Any) -> Any:
        self.speed.now = 1 + (self.speed.now * 3 + int(action)) % 5
        self.speed.past[self.speed.now % 3] += self.speed.now
        self.x[1] += self.speed.now
        return super().step(action)


class Echo(gymnasium.Env):
    """Keeps the last action and its type as text, for actions of all kinds of spaces."""

    observation_space = spaces.Box(-1e9, 1e9, (1,), np.float64)

    def __init__(self, action_space: Any) -> None:
        self.action_space = action_space
        self.given: Any = None

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.given = repr(options)
        return np.zeros(1), {}

    def step(self, action: Any) -> Any:
        self.given = f"{type(action).__name__} {action!r}"
        return np.zeros(1), 0.0, False, False, {}


class Late(gymnasium.Wrapper):
    """Delays each action by one step, as sticky actions do."""

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self.last_action: Any = 0

    def step(self, action: Any) -> Any:
        now, self.last_action = self.last_action, action
        return self.env.step(now)
