"""Observations that are dicts: each value has a field, and what a seek restores is the dict that was returned."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

gymnasium = pytest.importorskip("gymnasium")

import numpy as np  # noqa: E402
from gymnasium import spaces  # noqa: E402

import recorder  # noqa: E402
import replayer  # noqa: E402

from gymnasium_runs import last_result, record_run  # noqa: E402


class Seen(gymnasium.Env):  # type: ignore[misc, name-defined]
    """Returns an image, a number, a text, a key that Gymnasium's own classes use, and a dict inside."""

    action_space = spaces.Discrete(2)
    observation_space = spaces.Dict({"image": spaces.Box(0, 255, (2, 2), np.uint8)})

    def __init__(self) -> None:
        self.steps = 0
        self.image = np.zeros((2, 2), np.uint8)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin."""
        super().reset(seed=seed)
        self.steps = 0
        return self.observed(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Write a random number into the image that every observation shares."""
        self.steps += 1
        self.image[self.steps % 2, action] = self.np_random.integers(256)
        return self.observed(), 1.0, self.steps == 60, False, {}

    def observed(self) -> Any:
        """The observation."""
        return {
            "image": self.image,
            "direction": self.steps % 4,
            "mission": f"go {self.steps // 20}",
            "spec": None if self.steps < 9 else self.steps,
            "inside": {"seen": self.image.copy(), "path": [self.steps]},
        }


class Changing(Seen):
    """Its observations change their kind."""

    def observed(self) -> Any:
        """Keys in another order, other keys, keys that cannot be names, no keys, one array under two keys, no dict."""
        seen = dict(super().observed())
        copied = self.image.copy()
        kinds: list[Any] = [
            seen,
            dict(reversed(seen.items())),
            {"image": copied, "again": copied},
            {"a b": 1, "a_b": 2},
            {1: copied, None: "x"},
            {},
            copied,
            {**seen, "(keys)": 4},
            None,
            {"image": "a text"},
        ]
        return kinds[self.steps // 5 % len(kinds)]


@pytest.mark.parametrize("make", [Seen, Changing])
@pytest.mark.seldom(0.15)
def test_what_a_seek_restores_is_the_dict_that_was_returned(make: Any, tmp_path: Path) -> None:
    """Values, types and the order of the keys, also of a run that continues; no step is found wrong."""
    path = tmp_path / "run.tape"
    results = record_run(path, make(), 200, 5, keyframe_interval_ticks=37, changes="audit")
    ticks = [1, 8, 36, 37, 60, 61, 150, 199]
    with replayer.open(path, world=make) as run:
        assert run.verify().ok
        for tick in ticks:
            run.seek(tick)
            assert last_result(run.simulation) == results[tick - 1]
            run.seek(tick - 1)
            run.step()
            assert last_result(run.simulation) == results[tick - 1]


def test_each_value_has_a_field(tmp_path: Path) -> None:
    """Fields have the names of the keys, so that the steps need no nodes in the graph of objects."""
    path = tmp_path / "run.tape"
    env = recorder.record(Seen(), path, quiet=True)
    observation, _ = env.reset(seed=1)
    for _ in range(12):
        observation, *_ = env.step(1)
    env.close()
    with replayer.open(path, world=Seen) as run:
        run.seek(13)
        state = run.state
        assert state["result.observation.image"].tobytes() == observation["image"].tobytes()
        assert (state["result.observation.direction"], state["result.observation.spec"]) == (12 % 4, 12)
        given = run.simulation.last.observation
        assert list(given) == list(observation)
