"""Environments whose steps draw from their spaces; the last two are sound."""

import gymnasium
import numpy as np
from gymnasium import spaces


class DrawsActions(gymnasium.Env):
    """An opponent that plays random actions of the environment's own space."""

    def __init__(self):
        self.action_space = spaces.Discrete(3)
        self.observation_space = spaces.Box(-1e6, 1e6, (2,), np.float64)
        self.x = np.zeros(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x = np.zeros(2)
        return self.x.copy(), {}

    def step(self, action):
        self.x[0] += int(action)
        self.x[1] += int(self.action_space.sample())  # HERE: DrawsActions
        return self.x.copy(), 0.0, False, False, {}


class DrawsObservations(DrawsActions):
    """Noise of the space of observations."""

    def __init__(self):
        super().__init__()
        self.observation_space = spaces.Box(-1.0, 1.0, (2,), np.float64)

    def step(self, action):
        self.x = self.x / 2 + self.observation_space.sample() / 4  # HERE: DrawsObservations
        return self.x.copy(), 0.0, False, False, {}


class SeedsSpaces(DrawsActions):
    """A reset seeds the space, whose generator no recording saves."""

    def reset(self, *, seed=None, options=None):
        if seed is not None:
            self.action_space.seed(seed)
        return super().reset(seed=seed, options=options)

    def step(self, action):
        self.x[0] += int(action)
        self.x[1] += int(self.action_space.sample())  # HERE: SeedsSpaces
        return self.x.copy(), 0.0, False, False, {}


class DrawsInVain(DrawsActions):
    """Draws from the space, and uses nothing of it."""

    def step(self, action):
        self.x[0] += int(action)
        self.action_space.sample()
        return self.x.copy(), 0.0, False, False, {}


class OwnDraws(DrawsActions):
    """Draws from the environment's generator."""

    def step(self, action):
        self.x[0] += int(action)
        self.x[1] += int(self.np_random.integers(3))
        return self.x.copy(), 0.0, False, False, {}
