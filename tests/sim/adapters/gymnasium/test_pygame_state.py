"""pygame's rectangles, vectors and groups in an environment are state: they were taken for drawing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("gymnasium")
pytest.importorskip("pygame")

import gymnasium
import numpy as np
import pygame

import replayer
from sim.adapters.capture.native_objects import is_drawing

from gymnasium_runs import last_result, record_run


class Pong(gymnasium.Env[Any, Any]):
    """A game that keeps its state in pygame's rectangles, vectors and groups, as many do."""

    observation_space = gymnasium.spaces.Box(-1e6, 1e6, (2,), np.float64)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self) -> None:

        self.ball = pygame.Rect(3, 4, 5, 6)
        self.speed = pygame.Vector2(1, 2)
        self.sprites = pygame.sprite.Group()

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed, options=options)
        self.ball.topleft = (0, 0)
        return self.look(), {}

    def step(self, action: Any) -> Any:

        self.ball.move_ip(self.speed)
        self.speed.x += action
        self.sprites.add(pygame.sprite.Sprite())
        return self.look(), 0.0, False, False, {}

    def look(self) -> Any:
        return np.array([self.ball.x, len(self.sprites)], np.float64)


def test_the_numbers_and_groups_of_pygame_are_state_and_not_drawing(tmp_path: Path) -> None:
    """Each in an attribute of the environment itself."""
    results = record_run(tmp_path / "run.tape", Pong(), 60, 3, keyframe_interval_ticks=8)
    with replayer.open(tmp_path / "run.tape", world=Pong) as run:
        for tick in (41, 7, 60):
            run.seek(tick)
            assert last_result(run.simulation) == results[tick - 1]
            assert run.subject.look().tolist() == run.simulation.last.observation.tolist()
        assert run.verify().ok


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (pygame.Rect(1, 2, 3, 4), False),
        (pygame.Vector2(), False),
        (pygame.sprite.Group(), False),
        (pygame.Surface((1, 1)), True),
        (pygame.time.Clock(), True),
        (3, False),
    ],
    ids=lambda value: type(value).__name__,
)
def test_pictures_and_clocks_are_drawing(value: Any, *, expected: bool) -> None:
    """No step reads those."""
    assert is_drawing(value) is expected
