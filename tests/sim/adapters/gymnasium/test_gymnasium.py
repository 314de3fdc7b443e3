"""The Gymnasium adapter: the recorded state is restored bit for bit, and the wrapper stays a wrapper."""

from __future__ import annotations

import enum
import hashlib
import os
import random
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any, Self

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
from sim.adapters.gymnasium.inputs import decode_call, encode_action  # noqa: E402
from sim.kernel.registry import UnknownWorldError  # noqa: E402

import environments as zoo  # noqa: E402
from gymnasium_runs import continued, drive, last_result, record_run  # noqa: E402

pytestmark = pytest.mark.share(0.18)


CONTINUE = """
import sys, replayer
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from gymnasium_runs import continued
print(continued(Path(sys.argv[2]), [int(one) for one in sys.argv[4:]], int(sys.argv[3])))
"""


def expected(results: list[bytes], ticks: list[int], ahead: int) -> str:
    """The expected result of continued, from the results of the live calls."""
    digest = hashlib.sha256()
    for tick in ticks:
        for later in range(tick, min(len(results), tick + ahead) + 1):
            digest.update(results[later - 1])
    return digest.hexdigest()


def assert_continues(name: str, tmp_path: Path, *, steps: int, loads: int) -> None:
    """Record, seek to random ticks, continue here and in a second process, and compare with the live results."""
    seed = random.randrange(1 << 20)
    print("seed", seed)
    path = tmp_path / "run.tape"
    results = record_run(path, gymnasium.make(name), steps, seed, keyframe_interval_ticks=97)
    ticks = sorted(random.Random(seed).sample(range(1, len(results) - 30), loads))

    expected_digest = expected(results, ticks, 30)
    assert continued(path, ticks, 30) == expected_digest
    finished = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", CONTINUE, str(SUPPORT), str(path), "30", *map(str, ticks)],
        capture_output=True,
        text=True,
        check=True,
        env=other_process(),
    )
    assert finished.stdout.strip() == expected_digest


def other_process() -> dict[str, str]:
    """The environment of a second process: equal import paths, but a different hash seed for texts."""
    return {**os.environ, "PYTHONHASHSEED": "12", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


@pytest.mark.parametrize("name", ["CartPole-v1", "Blackjack-v1"])
def test_a_restored_environment_continues_as_the_live_one_did(name: str, tmp_path: Path) -> None:
    """From random ticks, here and in a fresh process, observations, rewards and states are equal bit for bit."""
    assert_continues(name, tmp_path, steps=300, loads=6)


@pytest.mark.long
@pytest.mark.parametrize("name", zoo.CLASSIC)
def test_restored_at_fifty_ticks_of_two_thousand_it_continues_as_the_live_one_did(name: str, tmp_path: Path) -> None:
    """The long version of the test above, for more environments."""
    assert_continues(name, tmp_path, steps=2000, loads=50)


@pytest.mark.parametrize(
    "make", [zoo.Drift, zoo.WithAnObject, zoo.NamedAsWrappersDo, zoo.Windowed, lambda: zoo.Late(zoo.Drift())]
)
def test_aliases_objects_wrappers_and_half_words_are_restored(make: Any, tmp_path: Path) -> None:
    """Two names for one array, an object's attributes, a wrapper's memory and a buffered half of a word."""
    # A trial would find that a used instance cannot go back to the state before Windowed has its window.
    results = record_run(tmp_path / "run.tape", make(), 250, 4, keyframe_interval_ticks=50, trial_ms=0)
    with replayer.open(tmp_path / "run.tape", world=make) as run:
        assert run.verify().ok
        for tick in (201, 57, 120):
            run.seek(tick)
            assert last_result(run.simulation) == results[tick - 1]
            inner = run.simulation.env.unwrapped
            assert inner.seen is inner.x or np.shares_memory(inner.seen, inner.x)


@pytest.mark.filterwarnings("ignore:the recording .* saw no step:recorder.RecordingWarning")
@pytest.mark.tried
def test_the_first_line_lists_the_captured_layers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The line on stderr has the level, the layers, and how many attributes a restore leaves as they are."""
    recorder.record(gymnasium.make("CartPole-v1"), tmp_path / "run.tape").close()

    tried, line = capsys.readouterr().err.splitlines()
    assert tried.startswith(("tried ", "not tried: "))  # It may take too long on a busy machine.
    level = "exact in the steps tried" if tried.startswith("tried ") else "exact, untested"
    assert line.endswith(
        f"CartPole-v1: {level}: TimeLimit, OrderEnforcing, PassiveEnvChecker, CartPoleEnv, result captured; "
        "a restore leaves 26 attributes as they are"
    )


def test_without_a_seed_one_is_drawn_and_recorded(tmp_path: Path) -> None:
    """A first reset without a seed stays random, and still replays."""
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


class Strict(gymnasium.Env[Any, Any]):
    """Takes no number of NumPy's, as its space samples them, and needs an option if it is asked to."""

    observation_space, action_space = gymnasium.spaces.Discrete(99), gymnasium.spaces.Discrete(2)

    def __init__(self, needed: str = "") -> None:
        self.needed = needed

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        """Begin."""
        super().reset(seed=seed)
        self.place = (options or {})[self.needed] if self.needed else 0
        return self.place, {}

    def step(self, action: Any) -> Any:
        """Move."""
        if type(action) is not int:
            raise AssertionError(f"{action} is no int")
        self.place += action
        return self.place, 0.0, False, False, {}


@pytest.mark.parametrize("needed", ["", "start"])
def test_an_environment_that_refuses_what_the_recorder_tries_first_is_recorded(
    needed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The recorder looks for attributes in a second environment; what that one raises is not the user's fault."""
    spec = gymnasium.envs.registration.EnvSpec("Strict-v0", f"{__name__}:Strict", kwargs={"needed": needed})
    monkeypatch.setitem(gymnasium.registry, "Strict-v0", spec)
    env = recorder.record(gymnasium.make("Strict-v0", disable_env_checker=True), tmp_path / "run.tape", quiet=True)
    env.reset(seed=1, options={"start": 5})
    for action in (1, 0, 1):
        seen = env.step(action)[0]
    env.close()
    with replayer.open(tmp_path / "run.tape") as run:
        run.seek(4)
        assert run.simulation.last.observation == seen == (7 if needed else 2)
        assert run.verify().ok


def test_options_of_a_reset_are_inputs(tmp_path: Path) -> None:
    """Options are replayed, and may be any plain data, arrays included."""
    env = recorder.record(zoo.Drift(), tmp_path / "run.tape", quiet=True)
    env.reset(seed=1, options={"start": np.array([2.5, -1.0])})
    env.close()
    with replayer.open(tmp_path / "run.tape", world=zoo.Drift) as run:
        run.seek(1)
        assert run.simulation.last.observation.tolist() == [2.5, -1.0]


class OwnDefault(zoo.Drift):
    """Its reset has options of its own, which are not None."""

    def reset(self, *, seed: int | None = None, options: Any = {"start": [4.0, 3.0]}) -> tuple[Any, Any]:  # noqa: B006
        return super().reset(seed=seed, options={"start": np.array(options["start"]) * 2})


def test_options_that_nobody_gave_are_not_passed_on(tmp_path: Path) -> None:
    """An environment gets its own default, in the recording and in the replay."""
    env = recorder.record(OwnDefault(), tmp_path / "run.tape", quiet=True)
    assert env.reset(seed=1)[0].tolist() == [8.0, 6.0]
    env.close()
    with replayer.open(tmp_path / "run.tape", world=OwnDefault) as run:
        run.seek(1)
        assert run.simulation.last.observation.tolist() == [8.0, 6.0]


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
def test_actions_of_every_space_are_replayed_with_their_types(space: Any, tmp_path: Path) -> None:
    """The replayed action has the type and the text of the recorded one."""
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


class Turn(enum.IntEnum):
    """Actions by name, as many environments have them."""

    LEFT = 0
    RIGHT = 1


class Word(enum.StrEnum):
    """Actions that are texts."""

    GO = "go"


class Label(int, enum.Enum):
    """Numbers whose values, as the enum has them, are texts."""

    def __new__(cls, number: int, label: str) -> Self:
        made = int.__new__(cls, number)
        made._value_ = label
        return made

    LEFT = (0, "left")
    RIGHT = (1, "right")


def test_the_number_of_a_member_counts_and_what_is_shared_stays_shared() -> None:
    """Not the value of the member, which may be anything; keys, too. A list that leads to itself is no endless walk."""
    assert encode_action(Label.RIGHT) == 1
    pair = [Label.LEFT, Label.RIGHT]
    _, (one, other, named) = decode_call(encode_action([pair, pair, {Word.GO: Label.RIGHT}]))
    assert (one, one is other, named) == ([0, 1], True, {"go": 1})
    assert [type(key) for key in named] == [str]
    endless: list[Any] = []
    endless += [endless] * 3
    _, again = decode_call(encode_action(endless))
    assert all(item is again for item in again)
    deep: Any = Label.LEFT
    for _ in range(2000):
        deep = [deep]
    with pytest.raises(TypeError, match="the action cannot be recorded"):
        encode_action(deep)


@pytest.mark.parametrize(
    ("action", "given"),
    [
        (Turn.RIGHT, 1),
        (Word.GO, "go"),
        ({"a": Turn.LEFT, "b": (Word.GO, 2)}, {"a": 0, "b": ("go", 2)}),
        ([Turn.RIGHT], [1]),
    ],
    ids=repr,
)
def test_members_of_enums_are_their_values_live_and_in_a_replay(action: Any, given: Any, tmp_path: Path) -> None:
    """A step of CartPole with a member of an IntEnum was refused."""
    env = recorder.record(zoo.Echo(spaces.Discrete(2)), tmp_path / "run.tape", quiet=True)
    env.reset(seed=0)
    env.step(action)
    assert env.unwrapped.given == f"{type(given).__name__} {given!r}"
    env.close()
    with replayer.open(tmp_path / "run.tape", world=lambda: zoo.Echo(spaces.Discrete(2))) as run:
        run.seek(2)
        assert run.simulation.env.given == f"{type(given).__name__} {given!r}"
        assert run.verify().ok


class Repeats(gymnasium.Env[Any, Any]):
    """Keeps its last actions, as an environment with sticky or smooth actions does."""

    observation_space = spaces.Box(-9.0, 9.0, (2,), np.float32)
    action_space = spaces.Box(-1.0, 1.0, (2,), np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Forget them."""
        super().reset(seed=seed, options=options)
        self.last: Any = np.zeros(2, np.float32)
        self.kept: list[Any] = []
        return self.last, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Keep the action."""
        self.last, self.kept = action, [*self.kept[-2:], action]
        return np.float32(sum(self.kept)), 0.0, False, False, {}


def test_actions_that_are_rows_of_one_array_may_be_kept(tmp_path: Path) -> None:
    """A replay has each of them as an array of its own, and so has the recorded run."""
    actions = np.random.default_rng(1).uniform(-1, 1, (20, 2)).astype(np.float32)
    env = recorder.record(Repeats(), tmp_path / "run.tape", quiet=True, trial_ms=0, keyframe_interval_ticks=6)
    env.reset(seed=1)
    for action in actions:
        env.step(action)
    env.close()
    run = replayer.open(tmp_path / "run.tape", world=Repeats)
    assert run.verify().ok
    run.seek(-1)
    assert np.array_equal(run.subject.unwrapped.kept, actions[-3:])


def test_an_action_that_cannot_be_recorded_is_refused_before_the_step(tmp_path: Path) -> None:
    """The environment is not stepped, and the recording continues."""
    env = recorder.record(zoo.Drift(), tmp_path / "run.tape", quiet=True)
    env.reset(seed=0)
    with pytest.raises(TypeError, match="the action cannot be recorded: value is builtins"):
        env.step(object())
    assert env.unwrapped.trail == []
    env.step(1)
    env.close()


def test_it_stays_a_wrapper(tmp_path: Path) -> None:
    """check_env passes, the spec makes an equal environment, unwrapped and attributes pass through."""
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


def test_outside_and_inside_other_wrappers(tmp_path: Path) -> None:
    """Rendering wrappers inside are left out of the state, statistics outside continue to work."""
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


def test_statistics_inside_are_captured_except_for_their_times(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
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


def test_the_time_of_an_episode_in_an_info_is_no_state(tmp_path: Path) -> None:
    """The checker of Gymnasium keeps the info of a call, to which the wrapper adds how long the episode took."""
    make = lambda: gymnasium.wrappers.RecordEpisodeStatistics(gymnasium.make("Blackjack-v1"))  # noqa: E731
    env = recorder.record(make(), tmp_path / "run.tape", quiet=True, trial_ms=0)
    for seed in (1, 2):  # Episodes of one step.
        env.reset(seed=seed)
        assert "episode" in env.step(0)[4]
    env.close()
    with replayer.open(tmp_path / "run.tape", world=make) as run:
        assert run.verify().ok
        for tick in (1, 2, 3):  # The next step of the checker would compare its info with the one before.
            run.seek(tick)
            run.step()


def test_an_argument_that_is_a_tuple_is_not_given_back_as_a_list(tmp_path: Path) -> None:
    """A tape has no tuples: the environment is then made by the user, as the message says."""
    name = "TupleTaker-v0"

    def make(bounds: Any) -> Any:
        assert type(bounds) is tuple
        return gymnasium.make("CartPole-v1")

    gymnasium.register(name, entry_point=make)

    try:
        record_run(tmp_path / "run.tape", gymnasium.make(name, bounds=(1, 2), disable_env_checker=True), 5, 1)
        with (
            replayer.open(tmp_path / "run.tape") as run,
            pytest.raises(UnknownWorldError, match=r"the tape does not state how to make its .*: give a factory"),
        ):
            run.seek(3)
        with replayer.open(
            tmp_path / "run.tape", world=lambda: adapt(gymnasium.make(name, bounds=(1, 2), disable_env_checker=True))
        ) as run:
            assert run.verify().ok
    finally:
        del gymnasium.registry[name]


def test_each_environment_of_a_vector_has_a_tape(tmp_path: Path) -> None:
    """Recorded environments work inside vector environments, which reset them automatically."""

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
    with pytest.raises(NotCapturedError, match=r"is recorded already, inside this wrapper: record it once$"):
        recorder.record(vector, tmp_path / "all.tape")


# --- state that cannot be saved


def test_a_state_that_cannot_be_saved_is_refused_by_name_with_the_options(tmp_path: Path) -> None:
    """A Python generator as state is refused, not silently approximated."""
    env = recorder.record(zoo.Coroutine(), tmp_path / "run.tape", quiet=True)
    with pytest.raises(NotCapturedError, match=r"Coroutine.routine \(generator\).*level='inputs_only'"):
        env.reset(seed=1)
    env.close()


@pytest.mark.seldom(0.15)
def test_with_inputs_only_a_seek_repeats_the_actions_since_the_reset(tmp_path: Path) -> None:
    """The level is on the tape; every tick is restored exactly, in any order, by fresh and used instances."""
    results = record_run(
        tmp_path / "run.tape", zoo.Coroutine(), 200, 3, level="inputs_only", keyframe_interval_ticks=30
    )
    with replayer.open(tmp_path / "run.tape", world=zoo.Coroutine) as run:
        assert run.tape.meta["level"] == "inputs_only"
        for tick in (177, 3, 61, 60, 120, 200):
            run.seek(tick)
            assert last_result(run.simulation) == results[tick - 1]
        assert run.verify().ok


class Unrepeatable(zoo.Coroutine):
    """Not even its inputs reproduce it."""

    def step(self, action: Any) -> Any:
        self.x[1] += np.random.default_rng().random()  # Ends no episode: which inputs a load repeats is certain.
        return super().step(action)


def test_inputs_that_do_not_reproduce_the_run_are_found(tmp_path: Path) -> None:
    """A load compares its last result with the recorded one."""
    record_run(
        tmp_path / "run.tape", Unrepeatable(), 60, 3, level="inputs_only", keyframe_interval_ticks=30, trial_ms=0
    )
    with (
        replayer.open(tmp_path / "run.tape", world=Unrepeatable) as run,
        pytest.raises(replayer.RecordingError, match="give a different result than in the recorded"),
    ):
        run.seek(35)


def test_a_tape_of_a_different_environment_is_refused(tmp_path: Path) -> None:
    """The message names the layer that is of a different kind."""
    record_run(tmp_path / "run.tape", gymnasium.make("CartPole-v1"), 30, 1)
    with (
        replayer.open(tmp_path / "run.tape", world=lambda: gymnasium.make("Pendulum-v1")) as run,
        pytest.raises((UnfitSimulationError, replayer.RecordingError), match="CartPoleEnv"),
    ):
        run.seek(5)


def test_only_a_registered_environment_is_made_from_a_tape(tmp_path: Path) -> None:
    """A tape with an unregistered id makes nothing: the message asks the user to name a factory."""
    env = adapt(zoo.Drift())
    from sim.adapters.gymnasium.adapter import ADAPTER

    assert ADAPTER.rebuild({**env.adapter["subject"], "id": "os:system"}) is None
    assert ADAPTER.rebuild({"id": "environments:Drift", "kwargs": {}, "max_episode_steps": None, "checked": True,
                            "wrappers": [], "layers": ["Drift"]}) is None  # fmt: skip
    record_run(tmp_path / "run.tape", zoo.Drift(), 30, 1)
    with replayer.open(tmp_path / "run.tape") as run:
        run.seek(0)  # A keyframe can be read.
        with pytest.raises(LookupError, match=r"the tape does not state how to make its .*Drift: "):
            run.seek(5)


def test_the_factory_on_the_command_line_may_give_an_environment(tmp_path: Path) -> None:
    """--sim environments:Drift is enough: the adapter of the tape adapts its result."""
    record_run(tmp_path / "run.tape", zoo.Drift(), 30, 1)
    with replayer.open(tmp_path / "run.tape", world=load_factory("environments:Drift")) as run:
        run.seek(5)
        assert run.simulation.last.observation.shape == (2,)
