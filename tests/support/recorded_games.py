"""A game whose step has a default, and the comparison of its recording with a plain run."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import recorder
import replayer


class Base:
    def __init__(self) -> None:
        self.x, self.ticks = 0.0, 0
        self.speed = 1.0
        self.random = random.Random(5)
        self.log: list[Any] = []
        self.grid = np.zeros(4)

    def advance(self, push: Any = 0, *, dt: float = 1.0, times: int = 1) -> float:
        self.ticks += 1
        self.x += (self.speed * dt * times) + self.random.random() + float(np.sum(push))
        self.log.append((type(push).__name__, repr(push)))
        return self.x


class Game(Base):
    """A step with a default, called from outside, by its own methods and by callbacks."""

    def __init__(self) -> None:
        super().__init__()
        self.depth = 0

    def advance(self, push: Any = 0, *, dt: float = 1.0, times: int = 1) -> float:
        result = super().advance(push, dt=dt, times=times)
        if times > 1:
            self.advance(dt=dt, times=times - 1)
        return result

    def run(self, steps: int) -> None:
        for _ in range(steps):
            self.advance()

    def explicit(self) -> None:
        Game.advance(self, 2)

    def itself(self) -> Game:
        return self


class Plain:
    """A step that returns the object itself, and no special methods."""

    def __init__(self) -> None:
        self.t = 0

    def step(self) -> Plain:
        self.t += 1
        return self


def image(game: Any) -> Any:
    """All attributes as plain data."""
    return game.x, game.ticks, game.speed, game.random.getstate(), list(game.log), game.grid.tolist()


def ensure_images(path: Path, live: list[Any], make: Callable[[], Any] = Game) -> None:
    """Every tick restores the image that a plain run had there."""
    with replayer.open(path, world=make) as run:
        assert run.verify().ok
        assert run.last_tick == len(live) - 1
        for tick in (*reversed(range(len(live))), 0, len(live) - 1):
            run.seek(tick)
            assert image(run.subject) == live[tick], tick


def recorded(path: Path, game: Any = None, **choices: Any) -> Any:
    return recorder.record(
        Game() if game is None else game, path, step="advance", quiet=True, keyframe_interval_ticks=4, **choices
    )
