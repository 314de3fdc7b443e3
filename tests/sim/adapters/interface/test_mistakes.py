"""Mistakes of users: each gives a one-sentence message at once, instead of a recording that does not replay."""

from __future__ import annotations

import gc
import os
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import recorder
import replayer
from sim.adapters import CapturedWarning, NotCapturedError, adapt, fields

gymnasium = pytest.importorskip("gymnasium")

from gymnasium import spaces  # noqa: E402

import environments as zoo  # noqa: E402
from gymnasium_runs import drive, last_result  # noqa: E402

pytestmark = pytest.mark.share(0.18)


def cart_pole() -> Any:
    return gymnasium.make("CartPole-v1")


def test_a_recorded_environment_is_not_recorded_again_from_outside(tmp_path: Path) -> None:
    """Neither the environment nor a wrapper around it is recorded again; the present recording continues."""
    env = recorder.record(cart_pole(), tmp_path / "run.tape", quiet=True)
    for again in (env, gymnasium.wrappers.TimeLimit(env, 9)):
        with pytest.raises(NotCapturedError, match="CartPole-v1 is recorded already, inside this wrapper"):
            recorder.record(again, tmp_path / "again.tape")
    env.reset(seed=1)
    env.step(0)
    env.close()
    assert [path.name for path in tmp_path.iterdir()] == ["run.tape"]
    with replayer.open(tmp_path / "run.tape") as run:
        assert run.verify().ok


@pytest.mark.filterwarnings("ignore:the recording .* saw no step:recorder.RecordingWarning")
def test_one_environment_has_one_recording_at_a_time(tmp_path: Path) -> None:
    """Two recordings would step it in turns, and neither would replay; a second may begin after the first is closed."""
    bare = cart_pole()
    env = recorder.record(bare, tmp_path / "one.tape", quiet=True)
    with pytest.raises(NotCapturedError, match="CartPole-v1 is being recorded already"):
        recorder.record(bare, tmp_path / "two.tape")
    env.close()
    other = recorder.record(bare, tmp_path / "two.tape", quiet=True)
    other.tape.close()
    del other
    gc.collect()
    recorder.record(bare, tmp_path / "three.tape", quiet=True).close()
    with pytest.raises(FileExistsError, match="exists already"):
        recorder.record(cart_pole(), tmp_path / "three.tape")


def test_a_step_before_the_first_reset_is_refused(tmp_path: Path) -> None:
    """Without an order-enforcing wrapper the environment would draw from a source that no replay knows."""
    env = recorder.record(zoo.Drift(), tmp_path / "run.tape", quiet=True)
    with pytest.raises(gymnasium.error.ResetNeeded, match=r"expected reset\(\) before the first step\(\)"):
        env.step(1)
    drive(env, 40, 2)
    env.close()
    with pytest.raises(ValueError, match="this recorder is closed"):
        env.step(1)
    with replayer.open(tmp_path / "run.tape", world=zoo.Drift) as run:
        assert run.verify().ok

    begun = zoo.Drift()
    begun.reset(seed=4)  # Before it was recorded: its generator is there, and saved.
    env = recorder.record(begun, tmp_path / "begun.tape", quiet=True)
    for _ in range(9):
        env.step(1)
    env.close()
    with replayer.open(tmp_path / "begun.tape", world=zoo.Drift) as run:
        assert run.last_tick == 9


@pytest.mark.parametrize(
    ("subject", "choices", "error", "message"),
    [
        (zoo.Drift, {}, TypeError, r"expected an instance, such as Drift\(\), got the class Drift"),
        (zoo.Drift(), {"level": "Exact"}, ValueError, "expected one of exact, canonical, inputs_only, got 'Exact'"),
        (zoo.Drift(), {"ignore": "Drift.x"}, TypeError, r"ignore: expected a list of names, such as \['Drift.x'\], got"),
    ],
    ids=["class", "level", "ignore"],
)  # fmt: skip
def test_invalid_options_are_refused_in_one_sentence(
    subject: Any, choices: Any, error: Any, message: str, tmp_path: Path
) -> None:
    with pytest.raises(error, match=message):
        recorder.record(subject, tmp_path / "run.tape", **choices)
    assert not list(tmp_path.iterdir())


class Clock:
    """An object whose step takes no argument."""

    def __init__(self) -> None:
        self.t = 0

    def step(self) -> None:
        self.t += 1


def test_a_step_without_a_parameter_is_recorded(tmp_path: Path) -> None:
    """It was refused once."""
    with recorder.record(Clock(), tmp_path / "run.tape", fields("t"), quiet=True) as clock:
        clock.step()
        clock.step()
    with replayer.open(tmp_path / "run.tape", world=Clock) as run:
        assert run.verify().ok
        run.seek(2)
        assert run.subject.t == 2


class DrawsFromItsSpace(zoo.Drift):
    """Draws from its own spaces in a step, as some games of chance do."""

    def __init__(self, drawn: str = "action_space") -> None:
        super().__init__()
        self.action_space = spaces.Discrete(3)
        self.noise = spaces.Dict(a=spaces.Tuple([spaces.Box(-1, 1, (2,))]))
        self.drawn = drawn

    def step(self, action: Any) -> Any:
        if self.drawn == "action_space":
            self.x[0] += int(self.action_space.sample())
        if self.drawn == "noise":
            self.x += self.noise.sample()["a"][0]
        return super().step(action)


def test_a_step_that_draws_from_a_space_of_the_player_is_reported_at_once(tmp_path: Path) -> None:
    """Its generator cannot be saved, since players draw from it, too."""
    env = recorder.record(DrawsFromItsSpace("action_space"), tmp_path / "run.tape", quiet=True)
    env.reset(seed=1)
    named = r"DrawsFromItsSpace\.action_space"
    with pytest.warns(CapturedWarning, match=f"a step draws from {named}, whose random generator is not saved"):
        env.step(1)
    env.close()


@pytest.mark.parametrize("drawn", ["noise", "nothing"])
def test_a_player_may_draw_from_the_spaces_between_steps(drawn: str, tmp_path: Path) -> None:
    """A player may call action_space.sample(): there is no warning, and the recording replays. A space of the environment's own is saved."""
    made = DrawsFromItsSpace(drawn)
    made.noise.seed(1)
    env = recorder.record(made, tmp_path / "run.tape", quiet=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        env.reset(seed=1)
        for _ in range(300):
            if any(env.step(env.action_space.sample())[2:4]):
                env.reset()
    env.close()
    with replayer.open(tmp_path / "run.tape", world=lambda: DrawsFromItsSpace(drawn)) as run:
        assert run.verify().ok


def test_a_recording_of_an_environment_is_resumed(tmp_path: Path) -> None:
    """The resume uses a fresh instance, which has no generator yet; both halves replay."""
    path = tmp_path / "run.tape"
    env = recorder.record(cart_pole(), path, quiet=True, keyframe_interval_ticks=16)
    results = drive(env, 40, 3)
    env.close()
    with recorder.resume(path, adapt(cart_pole())) as tape:
        assert last_result(tape.simulation) == results[-1]
        for tick in range(40):
            last = tape.simulation.last
            tape.step({"reset": None} if last.terminated or last.truncated else tick % 2)
    with replayer.open(path) as run:
        assert run.last_tick == len(results) + 40
        assert run.verify().ok
    with pytest.raises((TypeError, recorder.RecordingError), match="CartPole"):
        recorder.resume(path, adapt(gymnasium.make("Pendulum-v1")))


OTHERS = {
    "observations": gymnasium.wrappers.NormalizeObservation,
    "rewards": gymnasium.wrappers.NormalizeReward,
    "frames": lambda env: gymnasium.wrappers.FrameStackObservation(env, 3),
    "limit": lambda env: gymnasium.wrappers.TimeLimit(env, 17),
    "transformed": lambda env: gymnasium.wrappers.TransformObservation(env, lambda seen: seen * 2, None),
}


@pytest.mark.parametrize("name", OTHERS)
def test_wrappers_with_a_memory_are_state_inside_and_keep_working_outside(name: str, tmp_path: Path) -> None:
    """Running means, frames and counters are restored inside the recording, and are unaffected outside."""
    make = lambda: OTHERS[name](zoo.Drift())  # noqa: E731
    alone = drive(make(), 150, 5)
    inside = recorder.record(make(), tmp_path / "inside.tape", quiet=True, keyframe_interval_ticks=40)
    outside = OTHERS[name](recorder.record(zoo.Drift(), tmp_path / "outside.tape", quiet=True))
    assert drive(inside, 150, 5) == drive(outside, 150, 5) == alone
    inside.close()
    outside.close()
    with replayer.open(tmp_path / "inside.tape", world=make) as run:
        assert run.verify().ok
        for tick in (121, 57, 80):
            run.seek(tick)
            assert last_result(run.simulation) == alone[tick - 1]
    with replayer.open(tmp_path / "outside.tape", world=zoo.Drift) as run:
        assert run.verify().ok


def test_a_wrapper_that_draws_has_to_be_inside(tmp_path: Path) -> None:
    """It draws from the environment's own generator: outside it does so between the steps, and a replay reports this."""
    make = lambda: gymnasium.wrappers.StickyAction(zoo.Drift(), 0.3)  # noqa: E731
    inside = recorder.record(make(), tmp_path / "inside.tape", quiet=True)
    outside = gymnasium.wrappers.StickyAction(recorder.record(zoo.Drift(), tmp_path / "outside.tape", quiet=True), 0.3)
    for env in (inside, outside):
        drive(env, 60, 5)
        env.close()
    for name, world, kept in (("inside", make, True), ("outside", zoo.Drift, False)):
        with replayer.open(tmp_path / f"{name}.tape", world=world) as run:
            assert run.verify().ok is kept


@pytest.mark.filterwarnings("ignore:the recording .* saw no step:recorder.RecordingWarning")
def test_environments_of_an_asynchronous_vector_have_a_tape_each(tmp_path: Path) -> None:
    """Each runs in its own process; the first is also made here, for its spaces, so that file names contain the process."""
    makes = [_Recorded(tmp_path, number) for number in range(2)]
    vector = gymnasium.vector.AsyncVectorEnv(makes, context="fork" if sys.platform == "linux" else None)
    vector.reset(seed=5)
    for _ in range(40):
        vector.step(np.array([0, 1]))
    vector.close()
    lengths = []
    for path in sorted(tmp_path.glob("*.tape")):
        with replayer.open(path) as run:
            assert run.verify().ok
            lengths.append(run.last_tick)
    assert [length >= 40 for length in sorted(lengths)] == [False, True, True]


class _Recorded:
    """Makes a recorded environment in any process."""

    def __init__(self, folder: Path, number: int) -> None:
        self.folder, self.number = folder, number

    def __call__(self) -> Any:
        return recorder.record(cart_pole(), self.folder / f"{self.number}-{os.getpid()}.tape", quiet=True)
