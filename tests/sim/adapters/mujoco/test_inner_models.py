"""MuJoCo inside other objects: data that an environment keeps in a part of itself, and models that a reset changes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("gymnasium")
pytest.importorskip("mujoco")

import gymnasium
import mujoco
import numpy as np
from gymnasium import spaces

import recorder
import replayer

PENDULUM = """
<mujoco>
  <worldbody>
    <body name="post" pos="0 0 1"><geom type="box" size=".1 .1 .1"/>
      <body><joint name="hinge" type="hinge" axis="0 1 0"/><geom type="capsule" fromto="0 0 0 0 0 -.8" size=".05"/>
    </body></body>
  </worldbody>
  <actuator><motor joint="hinge"/></actuator>
</mujoco>"""


class Robot:
    """A part of an environment that has the physics."""

    def __init__(self) -> None:
        self.model = mujoco.MjModel.from_xml_string(PENDULUM)
        self.data = mujoco.MjData(self.model)


class Swing(gymnasium.Env):
    """A pendulum. It shows nothing of it; a reset moves the post, and changes gravity."""

    observation_space, action_space = spaces.Box(-1e9, 1e9, (1,), np.float64), spaces.Discrete(2)

    def __init__(self) -> None:
        self.robot = Robot()

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        model, data = self.robot.model, self.robot.data
        mujoco.mj_resetData(model, data)
        if not (options or {}).get("as_made"):
            model.body_pos[1] = self.np_random.random(3)
            model.opt.gravity[2] = -5 - self.np_random.random()
        else:
            model.body_pos[1], model.opt.gravity[2] = (0, 0, 1), -9.81
        mujoco.mj_forward(model, data)
        return np.zeros(1), {}

    def step(self, action: Any) -> Any:
        self.robot.data.ctrl[0] = float(action) - 0.5
        mujoco.mj_step(self.robot.model, self.robot.data)
        return np.zeros(1), 0.0, False, False, {}


class Remade(Swing):
    """Makes its data again in each reset; if the seed is odd, the part that has it, with another model."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        if seed is not None and seed % 2:
            self.robot = Robot()
        self.robot.data = mujoco.MjData(self.robot.model)
        return super().reset(seed=seed, options=options)


def shown(env: Any) -> list[bytes]:
    """The physics and what the reset has changed."""
    model, data = env.unwrapped.robot.model, env.unwrapped.robot.data
    return [np.array(value).tobytes() for value in (data.qpos, data.qvel, data.xpos, model.body_pos, model.opt.gravity)]


@pytest.mark.sample(2)
@pytest.mark.parametrize("kind", [Swing, Remade])
@pytest.mark.parametrize("interval", [1, 5, 300])
def test_data_in_a_part_and_a_model_that_resets_change_are_restored(tmp_path: Path, interval: int, kind: Any) -> None:
    """At every tick, over episodes with different models and one with the model as it was made."""
    path, env = tmp_path / "run.tape", kind()
    live = recorder.record(env, path, quiet=True, keyframe_interval_ticks=interval)
    truth = [shown(env)]
    for seed in range(4):
        live.reset(seed=seed, options={"as_made": seed == 2})
        truth.append(shown(env))
        for step in range(5):
            live.step(step % 2)
            truth.append(shown(env))
    live.close()

    run = replayer.open(path, world=kind)
    for tick in (23, 3, 15, 9, 24, 6, 0, 13, 18):
        run.seek(tick)
        assert shown(run.simulation.env) == truth[tick], tick
    assert run.verify().ok
