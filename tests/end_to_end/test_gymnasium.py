"""A third-party simulation: a Gymnasium environment in the save/load form, recorded and sought."""

from __future__ import annotations

import random
import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import recorder
import replayer

from project_paths import EXAMPLES

STEPS = 2000

pytest.importorskip("gymnasium")


@pytest.fixture(scope="module")
def cartpole() -> Any:
    """The class of the example, as its file defines it."""
    example = EXAMPLES / "gymnasium_cartpole.py"
    return runpy.run_path(str(example))["CartPole"]


def same(left: dict[str, Any], right: dict[str, Any]) -> bool:
    """Return True if keys, dtypes, shapes and bytes are equal."""
    return list(left) == list(right) and all(
        (left[key].dtype, left[key].shape, left[key].tobytes())
        == (right[key].dtype, right[key].shape, right[key].tobytes())
        for key in left
    )


@pytest.mark.seldom(0.18)
def test_an_environment_continues_from_any_step_as_the_live_one_did(cartpole: Any, tmp_path: Path) -> None:
    """At fifty random steps the sought environment continues past the next reset exactly as the live one did."""
    seed = random.randrange(1 << 30)
    print("seed", seed)
    actions = np.random.Generator(np.random.PCG64(seed)).integers(0, 2, STEPS).tolist()
    live: list[dict[str, Any]] = []
    with recorder.Recorder(tmp_path / "run.tape", cartpole(seed=seed), keyframe_interval_ticks=100) as tape:
        live.append(tape.simulation.inner.save())
        for action in actions:
            tape.step(action)
            live.append(tape.simulation.inner.save())
    assert live[-1]["episodes"] > 20, "the run must cross many resets, or the random generator is never asked"

    with replayer.open(tmp_path / "run.tape", cartpole) as run:
        for tick in random.Random(seed).sample(range(STEPS - 40), 50):
            run.seek(tick)
            environment = run._cursor.simulation.inner
            assert same(environment.save(), live[tick])
            for ahead in range(tick, tick + 40):
                environment.step(actions[ahead])
                assert same(environment.save(), live[ahead + 1])
            run._cursor.leave()
        assert run.verify().ok


def test_a_save_that_forgets_the_random_generator_is_caught(cartpole: Any, tmp_path: Path) -> None:
    """Without the generator in save() the replay diverges at the first reset after a keyframe."""

    class Forgetful(cartpole):  # type: ignore[misc]
        def save(self) -> dict[str, Any]:
            return {name: value for name, value in super().save().items() if name != "rng"}

        def load(self, saved: dict[str, Any]) -> None:
            super().load({**saved, "rng": cartpole(seed=99).save()["rng"]})

    with recorder.Recorder(tmp_path / "run.tape", Forgetful(seed=1), keyframe_interval_ticks=50) as tape:
        first_reset = None
        for tick in range(1, 200):
            tape.step(1)
            if first_reset is None and tape.simulation.inner.episodes == 2:
                first_reset = tick
    with replayer.open(tmp_path / "run.tape", Forgetful) as run:
        report = run.verify()

        assert report.first_bad == first_reset
        assert "observation" in {difference.field for difference in report.findings[0].differences}
