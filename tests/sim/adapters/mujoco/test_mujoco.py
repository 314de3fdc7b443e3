"""The MuJoCo adapter: the integration state, derived arrays, and Gymnasium's MuJoCo environments."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))  # Another process finds this module there, too.
from continuation import Case, assert_continues
from optional_packages import lazily

import recorder
import replayer
from recorder.conformance.contract_checks import Subject, check_run
from recorder.testing import SimulationContract
from sim.adapters import CapturedWarning, NotCapturedError, adapt
from sim.adapters.capture.values import encode_value
from sim.adapters.mujoco.mjdata import DERIVED, Bridge, model_hash
from sim.kernel.simulation import restore

mujoco = lazily("mujoco")

ROBOT = """
<mujoco>
  <option timestep="0.005"/>
  <worldbody>
    <geom type="plane" size="5 5 .1"/>
    <body name="trunk" pos="0 0 .6"><freejoint/><geom type="capsule" size=".1 .2"/>
      <body pos="0 0 .3"><joint name="hip" type="hinge" axis="0 1 0"/><geom type="capsule" size=".05 .2" pos="0 0 .2"/>
        <site name="tip" pos="0 0 .4"/></body></body>
    <body pos="0.05 0 1.2"><freejoint/><geom type="box" size=".1 .1 .1"/></body>
    <body name="hand" mocap="true" pos="1 0 .2"><geom type="sphere" size=".1"/></body>
  </worldbody>
  <actuator><position joint="hip" kp="20" ctrlrange="-1 1" ctrllimited="true"/></actuator>
  <sensor><framepos objtype="site" objname="tip"/><accelerometer site="tip"/></sensor>
  <keyframe><key name="high" qpos="0 0 1 1 0 0 0  .3  0 0 2 1 0 0 0"/></keyframe>
</mujoco>
"""


def robot(mass: str = "") -> Any:
    """A robot with a box that falls on it."""
    return mujoco.MjData(mujoco.MjModel.from_xml_string(ROBOT.replace("<freejoint/>", f"<freejoint/>{mass}", 1)))


def environment(name: str) -> Any:
    """A MuJoCo environment of Gymnasium."""
    gymnasium = pytest.importorskip("gymnasium")
    pytest.importorskip("imageio")
    return gymnasium.make(name)


def shown(simulation: Any) -> bytes:
    """The values that a controller reads: positions, velocities, and arrays that the step computed."""
    data = simulation.data
    return encode_value([np.array(one) for one in (data.qpos, data.qvel, data.sensordata, data.xpos, data.cvel)])


def shown_environment(simulation: Any) -> bytes:
    """The content of the results of the last call."""
    last = simulation.last
    seen = None if last.observation is None else np.array(last.observation)
    return encode_value([seen, last.reward, last.terminated, last.truncated])


CASES = {
    "robot": Case(lambda: adapt(robot()), shown),
    "HalfCheetah-v5": Case(lambda: adapt(environment("HalfCheetah-v5")), shown_environment),
    "Humanoid-v5": Case(lambda: adapt(environment("Humanoid-v5")), shown_environment),
    "Ant-v5": Case(lambda: adapt(environment("Ant-v5")), shown_environment),
}


@pytest.mark.seldom(0.15)
@pytest.mark.parametrize("name", ["robot", "Humanoid-v5"])  # All of them in the long one.
def test_a_restored_simulation_continues_as_the_live_one_did(name: str, tmp_path: Path, monkeypatch: Any) -> None:
    """From random ticks, here and in a fresh process, observations, rewards and states are equal bit for bit."""
    monkeypatch.chdir(tmp_path)  # MuJoCo writes its log where it runs.
    CASES[name].make()
    assert_continues("test_mujoco", name, tmp_path, steps=150, loads=4)


@pytest.mark.long
@pytest.mark.parametrize("name", CASES)
def test_restored_at_fifty_ticks_of_two_thousand_it_continues(name: str, tmp_path: Path, monkeypatch: Any) -> None:
    """The long version of the test above."""
    monkeypatch.chdir(tmp_path)
    CASES[name].make()
    assert_continues("test_mujoco", name, tmp_path, steps=2000, loads=50)


class TestRobot(SimulationContract):
    ticks = 40

    def make(self) -> Any:
        return robot()


@pytest.mark.long
class TestHumanoid(SimulationContract):
    ticks = 60

    def make(self) -> Any:
        return environment("Humanoid-v5")


def with_less(monkeypatch: pytest.MonkeyPatch, specification: int, derived: tuple[str, ...] = DERIVED) -> set[str]:
    """The trials that fail if less is saved."""
    monkeypatch.setattr("sim.adapters.mujoco.mjdata.SPECIFICATION", specification)
    monkeypatch.setattr("sim.adapters.mujoco.mjdata.DERIVED", derived)
    subject = Subject(lambda: environment("Humanoid-v5") if not derived else robot())
    return {one.trial for seed in range(3) for one in check_run(subject, subject.live(seed, 60))}


@pytest.mark.seldom(0.15)
@pytest.mark.parametrize("less", ["mjSTATE_PHYSICS", "mjSTATE_FULLPHYSICS"])
def test_a_smaller_state_is_not_exact(less: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even with the controls the warm start of the solver is missing, in contact with the ground."""
    assert "save and load" in with_less(
        monkeypatch, getattr(mujoco.mjtState, less).value | mujoco.mjtState.mjSTATE_CTRL.value
    )


@pytest.mark.seldom(0.4)
def test_rewards_that_read_the_previous_step_need_its_derived_arrays(monkeypatch: Any, tmp_path: Path) -> None:
    """Without the positions that the last step used, Humanoid's first reward after a load differs."""
    monkeypatch.chdir(tmp_path)
    assert "save and load" in with_less(monkeypatch, mujoco.mjtState.mjSTATE_INTEGRATION.value, ())


def test_one_line_records_the_values_set_between_steps(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Controls, forces, a mocap body, a keyframe, a teleport: all are inputs; the run equals one without a recorder."""

    def play(data: Any, step: Any, reset: Any) -> list[bytes]:
        seen = []
        reset(0)
        for index in range(60):
            data.ctrl[:] = np.sin(index / 5)
            if index == 20:
                data.xfrc_applied[1, :3] = 5.0
            if index == 30:
                data.xfrc_applied[:] = 0.0
                data.mocap_pos[0] = [0.1, 0.0, 0.3]
            if index == 40:
                data.qpos[2] += 0.5
            step()
            seen.append(np.array(data.qpos).tobytes())
        return seen

    data = robot()
    with recorder.record(data, tmp_path / "run.tape", keyframe_interval_ticks=25) as recorded:
        seen = play(recorded, recorded.step, recorded.reset)
    alone = robot()

    def reset(keyframe: int) -> None:
        mujoco.mj_resetDataKeyframe(alone.model, alone, keyframe)
        mujoco.mj_forward(alone.model, alone)

    assert seen == play(alone, lambda: mujoco.mj_step(alone.model, alone), reset)
    # A busy machine has no time for a trial.
    line = capsys.readouterr().err.replace("exact, untested", "exact in the steps tried")
    assert (
        "MjData: exact in the steps tried: data captured; no attribute of these objects, and of what they hold, is left out; model "
        in line
    )
    with replayer.open(tmp_path / "run.tape", world=robot) as run:
        assert run.verify().ok
        given = [set(run.tape.frame(tick).inputs) for tick in (1, 2, 22, 32, 42)]
        assert given[0] == {"reset", "keyframe"}
        assert [one - {"count", "ctrl"} for one in given[1:]] == [
            set(), {"xfrc_applied"}, {"xfrc_applied", "mocap_pos"}, {"qpos"},
        ]  # fmt: skip
        assert [episode.steps for episode in run.episodes] == [60]
        run.seek(30)
        assert run.state["data.qpos"].tobytes() == seen[28]


def test_a_different_model_is_refused(tmp_path: Path) -> None:
    """The hash of the compiled model decides, even if the sizes are equal."""
    with recorder.record(robot(), tmp_path / "run.tape", quiet=True) as recorded:
        recorded.step()
    heavier = ROBOT.replace('type="box" size=".1 .1 .1"', 'type="box" size=".1 .1 .1" density="999"')
    other = mujoco.MjData(mujoco.MjModel.from_xml_string(heavier))
    with replayer.open(tmp_path / "run.tape", world=lambda: other) as run:
        assert run.tape.meta["adapter"]["model"] == model_hash(robot().model)
        with pytest.raises(Exception, match=r"expected the MuJoCo model .* of the recorded state, got "):
            run.seek(1)


def test_a_model_that_changes_is_noticed() -> None:
    """The model is not part of the state: a change gives a warning, and later states are refused elsewhere."""
    simulation = adapt(robot())
    simulation.model.body_mass[1] *= 2
    with pytest.warns(CapturedWarning, match="the MjModel has changed"):
        step_often(simulation, 260)
    with pytest.raises(NotCapturedError, match=r"expected the MuJoCo model .* of the recorded state, got "):
        restore(adapt(robot()), simulation.state.snapshot())


def step_often(simulation: Any, steps: int) -> None:
    """Step the simulation this number of times."""
    for _ in range(steps):
        simulation.step({"count": 1})


def test_inputs_of_a_different_simulation_are_refused() -> None:
    """Each refusal is one sentence with the expected inputs."""
    simulation = adapt(robot())
    for inputs, why in (
        ({"count": 1, "ctrl": np.zeros(7)}, "expected a part of the model's state, got 'ctrl' of 7 numbers"),
        ({"reset": None, "keyframe": 3}, "keyframe: expected a number below 1, got 3"),
        ({"left": 1}, "expected the inputs of a MuJoCo simulation"),
    ):
        with pytest.raises(ValueError, match=why):
            simulation.step(inputs)
    with pytest.raises(NotCapturedError, match=r"expected a mujoco\.MjData, which holds the state, got MjModel"):
        adapt(simulation.model)
    with pytest.raises(ValueError, match=r"^level: expected 'exact', the only level of MuJoCo, .*, got 'canonical'$"):
        adapt(robot(), level="canonical")


def test_parts_make_up_the_complete_vector() -> None:
    """In MuJoCo's own order the parts, read one by one, equal the complete vector."""
    data = robot()
    bridge = Bridge(data.model, data)
    whole = np.zeros(mujoco.mj_stateSize(data.model, mujoco.mjtState.mjSTATE_INTEGRATION))
    data.qpos[:], data.ctrl[:] = np.arange(data.model.nq), 0.25
    mujoco.mj_getState(data.model, data, whole, mujoco.mjtState.mjSTATE_INTEGRATION)
    bridge.take()
    held = vars(bridge.arrays)

    names = ["time", "qpos", "qvel", "warmstart", "ctrl", "qfrc_applied", "xfrc_applied", "mocap_pos", "mocap_quat"]
    assert [name for name, *_ in bridge._parts] == names
    assert np.concatenate([held[name] for name in names]).tobytes() == whole.tobytes()
    assert held["qpos"].tobytes() == data.qpos.tobytes()
