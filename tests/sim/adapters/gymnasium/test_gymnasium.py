"""The Gymnasium adapter: what is recorded comes back, bit for bit, and the wrapper stays a wrapper."""

from __future__ import annotations

import hashlib
import os
import random
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest

from project_paths import SUPPORT

gymnasium = pytest.importorskip("gymnasium")

import numpy as np  # noqa: E402
from gymnasium import spaces  # noqa: E402
from gymnasium.utils.env_checker import check_env  # noqa: E402

import recorder  # noqa: E402
import replayer  # noqa: E402
from recorder.factory_spec import load_factory  # noqa: E402
from replayer.playback.make_simulation import UnfitSimulationError  # noqa: E402
from sim.adapters import NotCapturedError, adapt  # noqa: E402

import environments as zoo  # noqa: E402
from gymnasium_runs import continued, drive, last_result, record_run  # noqa: E402

pytestmark = pytest.mark.share(0.3)


CONTINUE = """
import sys, replayer
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from gymnasium_runs import continued
print(continued(Path(sys.argv[2]), [int(one) for one in sys.argv[4:]], int(sys.argv[3])))
"""


def expected(results: list[bytes], ticks: list[int], ahead: int) -> str:
    """What continued must give, from what the live calls returned."""
    digest = hashlib.sha256()
    for tick in ticks:
        for later in range(tick, min(len(results), tick + ahead) + 1):
            digest.update(results[later - 1])
    return digest.hexdigest()


def prove(name: str, tmp_path: Path, *, steps: int, loads: int) -> None:
    """Record, seek to random ticks, continue, here and in another process, and compare with the live results."""
    seed = random.randrange(1 << 20)
    print("seed", seed)
    path = tmp_path / "run.tape"
    results = record_run(path, gymnasium.make(name), steps, seed, keyframe_interval_ticks=97)
    ticks = sorted(random.Random(seed).sample(range(1, len(results) - 30), loads))

    wanted = expected(results, ticks, 30)
    assert continued(path, ticks, 30) == wanted
    finished = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", CONTINUE, str(SUPPORT), str(path), "30", *map(str, ticks)],
        capture_output=True,
        text=True,
        check=True,
        env=other_process(),
    )
    assert finished.stdout.strip() == wanted


def other_process() -> dict[str, str]:
    """The environment variables of another process: it finds what this one finds, and hashes texts otherwise."""
    return {**os.environ, "PYTHONHASHSEED": "12", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


@pytest.mark.parametrize("name", ["CartPole-v1", "Blackjack-v1"])
def test_a_restored_environment_goes_on_as_the_live_one_did(name: str, tmp_path: Path) -> None:
    """From random ticks, here and in a fresh process: the same observations, rewards and states, bit for bit."""
    prove(name, tmp_path, steps=300, loads=6)


@pytest.mark.long
@pytest.mark.parametrize("name", zoo.CLASSIC)
def test_restored_at_fifty_ticks_of_two_thousand_it_goes_on_as_the_live_one_did(name: str, tmp_path: Path) -> None:
    """The same at length, for each environment of the issue."""
    prove(name, tmp_path, steps=2000, loads=50)


@pytest.mark.parametrize(
    "make", [zoo.Drift, zoo.WithAnObject, zoo.NamedAsWrappersDo, zoo.Windowed, lambda: zoo.Late(zoo.Drift())]
)
def test_aliases_objects_wrappers_and_half_words_come_back(make: Any, tmp_path: Path) -> None:
    """Two names for one array, an object's attributes, a wrapper's memory and a buffered half of a word."""
    results = record_run(tmp_path / "run.tape", make(), 250, 4, keyframe_interval_ticks=50)
    with replayer.open(tmp_path / "run.tape", world=make) as run:
        assert run.verify().ok
        for tick in (201, 57, 120):
            run.seek(tick)
            assert last_result(run.simulation) == results[tick - 1]
            inner = run.simulation.env.unwrapped
            assert inner.seen is inner.x or np.shares_memory(inner.seen, inner.x)


def test_the_first_line_says_what_is_captured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """To stderr, with the level, the layers, and that nothing is left out."""
    recorder.record(gymnasium.make("CartPole-v1"), tmp_path / "run.tape").close()

    [line] = capsys.readouterr().err.splitlines()
    assert line.endswith(
        "CartPole-v1: exact: TimeLimit, OrderEnforcing, PassiveEnvChecker, CartPoleEnv, result captured; "
        "nothing is left out"
    )


def test_without_a_seed_one_is_drawn_and_recorded(tmp_path: Path) -> None:
    """A first reset without a seed is as random as ever, and replays all the same."""
    firsts = []
    for name in ("one", "other"):
        env = recorder.record(gymnasium.make("CartPole-v1"), tmp_path / name, quiet=True)
        firsts.append(env.reset()[0].tolist())
        env.close()
        with replayer.open(tmp_path / name) as run:
            run.seek(1)
            assert run.simulation.last.observation.tolist() == firsts[-1]
            assert run.episodes[0].seed is not None
    assert firsts[0] != firsts[1]


def test_options_of_a_reset_are_inputs(tmp_path: Path) -> None:
    """They are given again, and may be anything that is plain, arrays included."""
    env = recorder.record(zoo.Drift(), tmp_path / "run.tape", quiet=True)
    env.reset(seed=1, options={"start": np.array([2.5, -1.0])})
    env.close()
    with replayer.open(tmp_path / "run.tape", world=zoo.Drift) as run:
        run.seek(1)
        assert run.simulation.last.observation.tolist() == [2.5, -1.0]


SPACES = [
    spaces.Discrete(5),
    spaces.Box(-1, 1, (2, 3), np.float32),
    spaces.MultiDiscrete([2, 3]),
    spaces.MultiBinary(4),
    spaces.Text(6),
    spaces.Tuple([spaces.Discrete(2), spaces.Box(0, 1, (2,), np.float64)]),
    spaces.Dict(b=spaces.Discrete(3), a=spaces.Text(3)),
    spaces.Sequence(spaces.Discrete(4)),
    spaces.OneOf([spaces.Discrete(2), spaces.Box(0, 1, (1,), np.float32)]),
]


@pytest.mark.parametrize("space", SPACES, ids=lambda space: type(space).__name__)
def test_actions_of_every_space_come_back_with_their_types(space: Any, tmp_path: Path) -> None:
    """What the environment is given again has the same type and the same text."""
    env = recorder.record(zoo.Echo(space), tmp_path / "run.tape", quiet=True)
    env.reset(seed=0)
    space.seed(3)
    given = []
    for action in [*(space.sample() for _ in range(5)), 1, True, 2.5, np.float32(0.1), np.int8(3)]:
        env.step(action)
        given.append(f"{type(action).__name__} {action!r}")
    env.close()
    with replayer.open(tmp_path / "run.tape", world=lambda: zoo.Echo(space)) as run:
        for tick, text in enumerate(given, 2):
            run.seek(tick)
            assert run.simulation.env.given == text


def test_an_action_that_cannot_be_recorded_is_refused_before_the_step(tmp_path: Path) -> None:
    """The environment is not stepped, and the recording goes on."""
    env = recorder.record(zoo.Drift(), tmp_path / "run.tape", quiet=True)
    env.reset(seed=0)
    with pytest.raises(TypeError, match="the action cannot be recorded: value is builtins"):
        env.step(object())
    assert env.unwrapped.trail == []
    env.step(1)
    env.close()


def test_it_stays_a_wrapper(tmp_path: Path) -> None:
    """check_env passes, the spec makes the same environment, unwrapped and attributes lead through."""
    plain = gymnasium.make("CartPole-v1")
    env = recorder.record(gymnasium.make("CartPole-v1"), tmp_path / "run.tape", quiet=True)
    assert env.spec == plain.spec
    assert gymnasium.make(env.spec).spec.id == "CartPole-v1"
    assert isinstance(env, gymnasium.Wrapper)
    assert env.get_wrapper_attr("gravity") == 9.8
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r".*(Box observation space|different from the unwrapped version)")
        check_env(env, skip_render_check=True, skip_close_check=True)
    env.close()
    with replayer.open(tmp_path / "run.tape") as run:
        assert run.last_tick > 5
        assert run.verify().ok


def test_outside_and_inside_of_other_wrappers(tmp_path: Path) -> None:
    """Rendering wrappers inside are left out of the state, statistics outside go on working."""
    inside = gymnasium.wrappers.RenderCollection(zoo.Drift(render_mode="rgb_array"))
    recorded = recorder.record(inside, tmp_path / "run.tape", quiet=True)
    env = gymnasium.wrappers.RecordEpisodeStatistics(recorded)
    env.reset(seed=2)
    over, steps, info = False, 0, {}
    while not over:
        _, _, terminated, truncated, info = env.step(2)
        over, steps = terminated or truncated, steps + 1
    assert info["episode"]["l"] == steps
    assert len(env.render()) == steps + 1
    env.close()
    with replayer.open(tmp_path / "run.tape", world=zoo.Drift) as run:
        assert run.verify().ok
        assert run.last_tick == steps + 1


def test_statistics_inside_are_captured_but_for_their_times(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A wrapper with deques is state; the times of the day in it are named as not captured."""
    make = lambda: gymnasium.wrappers.RecordEpisodeStatistics(zoo.Drift())  # noqa: E731
    env = recorder.record(make(), tmp_path / "run.tape", keyframe_interval_ticks=40)
    drive(env, 150, 3)
    returns = list(env.env.return_queue)
    env.close()
    assert "RecordEpisodeStatistics.episode_start_time (a time)" in capsys.readouterr().err
    with replayer.open(tmp_path / "run.tape", world=make) as run:
        run.seek(-1)
        assert list(run.simulation.env.return_queue) == returns
        assert run.verify().ok


def test_each_environment_of_a_vector_has_a_tape(tmp_path: Path) -> None:
    """Recorded ones work inside of vector environments, which reset them by themselves."""

    def make(number: int) -> Any:
        return lambda: recorder.record(gymnasium.make("CartPole-v1"), tmp_path / f"{number}.tape", quiet=True)

    vector = gymnasium.vector.SyncVectorEnv([make(0), make(1)])
    vector.reset(seed=5)
    for _ in range(60):
        vector.step(np.array([0, 1]))
    vector.close()
    for number in range(2):
        with replayer.open(tmp_path / f"{number}.tape") as run:
            assert run.verify().ok
            assert len(run.episodes) > 2
    with pytest.raises(NotCapturedError, match="record each one by itself"):
        recorder.record(vector, tmp_path / "all.tape")


# --- what cannot be saved


def test_what_cannot_be_saved_is_refused_by_name_with_what_can_be_chosen(tmp_path: Path) -> None:
    """A Python generator as state: no silent approximation."""
    env = recorder.record(zoo.Course(), tmp_path / "run.tape", quiet=True)
    with pytest.raises(NotCapturedError, match=r"Course.course \(generator\).*level='inputs_only'"):
        env.reset(seed=1)
    env.close()


def test_with_inputs_only_a_seek_repeats_the_actions_since_the_reset(tmp_path: Path) -> None:
    """The level is on the tape; every tick is reached exactly, in any order, by fresh and by used instances."""
    results = record_run(tmp_path / "run.tape", zoo.Course(), 200, 3, level="inputs_only", keyframe_interval_ticks=30)
    with replayer.open(tmp_path / "run.tape", world=zoo.Course) as run:
        assert run.tape.meta["level"] == "inputs_only"
        for tick in (177, 3, 61, 60, 120, 200):
            run.seek(tick)
            assert last_result(run.simulation) == results[tick - 1]
        assert run.verify().ok


class Unrepeatable(zoo.Course):
    """Not even its inputs give it again."""

    def step(self, action: Any) -> Any:
        self.x[0] += np.random.default_rng().random()
        return super().step(action)


def test_inputs_that_do_not_give_the_run_again_are_found(tmp_path: Path) -> None:
    """A load proves its last result against the recorded one."""
    record_run(tmp_path / "run.tape", Unrepeatable(), 60, 3, level="inputs_only", keyframe_interval_ticks=30)
    with (
        replayer.open(tmp_path / "run.tape", world=Unrepeatable) as run,
        pytest.raises(replayer.RecordingError, match=r"(give another result now than they gave|not deterministic)"),
    ):
        run.seek(35)


def test_a_tape_of_another_environment_is_refused(tmp_path: Path) -> None:
    """In one line that names what is of another kind."""
    record_run(tmp_path / "run.tape", gymnasium.make("CartPole-v1"), 30, 1)
    with (
        replayer.open(tmp_path / "run.tape", world=lambda: gymnasium.make("Pendulum-v1")) as run,
        pytest.raises((UnfitSimulationError, replayer.RecordingError), match="CartPoleEnv"),
    ):
        run.seek(5)


def test_only_what_is_registered_here_is_made_from_a_tape(tmp_path: Path) -> None:
    """A tape whose id is not registered makes nothing: it says that the user has to name what makes it."""
    env = adapt(zoo.Drift())
    from sim.adapters.gymnasium.adapter import ADAPTER

    assert ADAPTER.rebuild({**env.adapter["subject"], "id": "os:system"}) is None
    assert ADAPTER.rebuild({"id": "environments:Drift", "kwargs": {}, "max_episode_steps": None, "checked": True,
                            "wrappers": [], "layers": ["Drift"]}) is None  # fmt: skip
    record_run(tmp_path / "run.tape", zoo.Drift(), 30, 1)
    with replayer.open(tmp_path / "run.tape") as run:
        run.seek(0)  # A keyframe can be looked at.
        with pytest.raises(LookupError, match=r"the tape does not state how to make its .*Drift: "):
            run.seek(5)


def test_the_factory_on_the_command_line_may_give_an_environment(tmp_path: Path) -> None:
    """--sim environments:Drift is enough: the tape's adapter takes what it makes."""
    record_run(tmp_path / "run.tape", zoo.Drift(), 30, 1)
    with replayer.open(tmp_path / "run.tape", world=load_factory("environments:Drift")) as run:
        run.seek(5)
        assert run.simulation.last.observation.shape == (2,)
