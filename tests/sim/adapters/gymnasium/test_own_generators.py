"""An environment with a generator of its own: resets without a seed continue with it, recorded or not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

import recorder
import replayer


class Own(gymnasium.Env[Any, Any]):
    """Seeds its own generator, and never Gymnasium's."""

    observation_space = gymnasium.spaces.Box(0, 1, (2,))
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self) -> None:
        self.rng: Any = np.random.default_rng(0)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        if seed is not None:
            self.rng = np.random.default_rng(seed)
        return self._look(), {}

    def step(self, action: int) -> Any:
        return self._look() * (action + 1), 0.0, False, False, {}

    def _look(self) -> Any:
        return self.rng.random(2)


class Holder:
    def __init__(self) -> None:
        self.rng = np.random.RandomState(0)


class Inner(Own):
    """Its generator is that of a part."""

    def __init__(self) -> None:
        self.part = Holder()

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        if seed is not None:
            self.part.rng = np.random.RandomState(seed)
        return self._look(), {}

    def _look(self) -> Any:
        return self.part.rng.random_sample(2)


class Late(Own):
    """Makes its generator at the first reset with a seed; before that there is none."""

    def __init__(self) -> None:
        self.rng = None

    def _look(self) -> Any:
        return self.rng.random(2) if self.rng is not None else np.zeros(2)


def played(env: Any, first_seed: int | None) -> list[list[float]]:
    """Resets, the first one with this seed, and steps; the observation of each call."""
    shown = []
    for number in range(4):
        shown.append(env.reset(seed=first_seed if number == 0 else None)[0].tolist())
        shown += [env.step(action)[0].tolist() for action in (0, 1, 1)]
    return shown


@pytest.mark.parametrize(("kind", "seed"), [(Own, 7), (Own, None), (Inner, 7), (Inner, None), (Late, 7)])
def test_a_recorded_run_is_the_run(kind: Any, seed: int | None, tmp_path: Path) -> None:
    env = recorder.record(kind(), tmp_path / "run.tape", quiet=True)
    live = played(env, seed)
    env.close()

    assert live == played(kind(), seed)
    with replayer.open(tmp_path / "run.tape", world=kind) as run:
        assert run.verify(jobs=1).ok
