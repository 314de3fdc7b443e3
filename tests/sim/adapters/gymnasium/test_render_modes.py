"""An environment that draws when it is asked is made from its tape as it was recorded: its pictures may be observations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

import recorder
import replayer
from sim.adapters.gymnasium.layers import subject_of

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # Of pygame.


@pytest.fixture(autouse=True)
def _no_window(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")


def drawn() -> Any:
    return gymnasium.make("CartPole-v1", render_mode="rgb_array")


@pytest.mark.parametrize("render_only", [True, False])
def test_pictures_as_observations_are_replayed_and_extracted(tmp_path: Path, render_only: Any) -> None:
    """Without a factory; each picture equals the one that the loop got."""
    pytest.importorskip("pygame")
    pytest.importorskip("pyarrow")
    env: Any = gymnasium.wrappers.AddRenderObservation(drawn(), render_only=render_only)
    env = recorder.record(env, tmp_path / "run.tape", quiet=True)
    seen = [env.reset(seed=1)[0], *(env.step(tick % 2)[0] for tick in range(5))]
    env.close()
    pictures = [one if render_only else one["pixels"] for one in seen]

    with replayer.open(tmp_path / "run.tape") as run:
        assert run.verify().ok
        run.seek(4)
        last = run.simulation.last.observation
        assert np.array_equal(last if render_only else last["pixels"], pictures[3])
    table = replayer.extract(tmp_path / "run.tape").table("transitions")
    name = "" if render_only else ".pixels"
    assert np.array_equal(table.numpy(f"obs{name}"), np.stack(pictures[:-1]))
    assert np.array_equal(table.numpy(f"next{name}"), np.stack(pictures[1:]))


def test_the_environment_of_a_tape_draws(tmp_path: Path) -> None:
    """render() of the rebuilt environment gives the picture of its tick."""
    pytest.importorskip("pygame")
    live = drawn()
    env = recorder.record(live, tmp_path / "run.tape", quiet=True)
    env.reset(seed=1)
    env.step(1)
    expected = live.render()
    env.step(0)
    env.close()
    with replayer.open(tmp_path / "run.tape") as run:
        run.seek(2)
        assert np.array_equal(run.simulation.subject.render(), expected)


def test_modes_that_open_windows_are_left_out() -> None:
    def kept(mode: str) -> Any:
        described = subject_of(gymnasium.make("CartPole-v1", render_mode=mode))
        assert described is not None
        return described["kwargs"]

    assert kept("human") == {}
    assert kept("rgb_array") == {"render_mode": "rgb_array"}
