"""Keyframes by a seek budget: a clock that the test advances, and steps that become slower."""

from __future__ import annotations

import itertools
import time
import warnings
from pathlib import Path
from typing import Any

import gymnasium
import pytest

import recorder
import replayer
from recorder import Recorder
from recorder.session.seek_budget import KEYFRAME_SHARE_MAX, READ_FACTOR, SeekBudget, StepTimer
from replayer.commands.main import main as replay
from replayer.reshape.rekey import rekey_tape
from sim.adapters import adapt

from small_worlds import Walkers


class Clock:
    """A clock in milliseconds that only the test advances."""

    def __init__(self) -> None:
        self.ms = 0.0

    def perf_counter_ns(self) -> int:
        """Return the time as the time module does."""
        return round(self.ms * 1e6)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Replace the clock of the budget and the recorder only."""
    made = Clock()
    monkeypatch.setattr("recorder.session.seek_budget.time", made)
    for module in ("hot_path.step_recorder", "keyframe_policy", "capture_check"):
        monkeypatch.setattr(f"recorder.session.{module}.time", made)
    return made


class Slowing(Walkers):
    """A simulation whose steps take a given time."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self.clock = clock

    def step(self, inputs: float) -> None:
        """Advance the clock."""
        self.clock.ms += inputs
        super().step(None)


def keyframes_of(path: Path, clock: Clock, steps_ms: list[float], **settings: Any) -> list[int]:
    """Return the ticks of the keyframes after such steps."""
    with Recorder(path, Slowing(clock), **settings) as tape:
        for step_ms in steps_ms:
            tape.step(step_ms)
    with replayer.Tape(path) as found:
        return [place.tick for place in found.keyframes]


def test_keyframes_come_when_the_steps_have_taken_the_budget(tmp_path: Path, clock: Clock) -> None:
    """Steps of 2 ms and a budget of 50: every 26th tick; steps of 10 ms: every 6th."""
    steps_ms = [2.0] * 80 + [10.0] * 20
    assert keyframes_of(tmp_path / "run.tape", clock, steps_ms, seek_budget_ms=50) == [0, 26, 52, 78, 86, 92, 98]
    fast = keyframes_of(tmp_path / "fast.tape", clock, [0.01] * 900, seek_budget_ms=50)
    assert fast == [0]  # Not every 300 ticks.


def test_a_resumed_recording_keeps_its_budget(tmp_path: Path, clock: Clock) -> None:
    """The budget is among the settings in META; other tapes do not mention it."""
    path = tmp_path / "run.tape"
    assert keyframes_of(path, clock, [5.0] * 10, seek_budget_ms=20) == [0, 5, 10]
    with recorder.resume(path, Slowing(clock)) as tape:
        assert tape.meta["settings"]["seek_budget_ms"] == 20
        for _ in range(10):
            tape.step(5.0)
    with replayer.Tape(path) as found:
        assert [place.tick for place in found.keyframes] == [0, 5, 10, 10, 15, 20]
    keyframes_of(tmp_path / "plain.tape", clock, [])
    with replayer.Tape(tmp_path / "plain.tape") as found:
        assert "seek_budget_ms" not in found.meta["settings"]


def test_the_time_to_read_a_keyframe_is_not_available_for_steps(clock: Clock) -> None:
    """Keyframes take no more than their share of the run, which is reported once."""
    told: list[str] = []

    def step(budget: SeekBudget) -> bool:
        start_ns = clock.perf_counter_ns()
        clock.ms += 1
        return budget.is_due(start_ns)

    def put_keyframe(budget: SeekBudget, ms: float) -> None:
        start_ns = clock.perf_counter_ns()
        clock.ms += ms
        budget.note_keyframe(start_ns)

    def steps_until_due(budget: SeekBudget) -> int:
        return next(number for number in range(1, 1000) if step(budget))

    budget = SeekBudget(100, told.append)
    assert steps_until_due(budget) == 100
    put_keyframe(budget, 4)
    assert (steps_until_due(budget), told) == (100 - READ_FACTOR * 4, [])
    put_keyframe(budget, 2)
    assert (steps_until_due(budget), told) == (100 - READ_FACTOR * 3, [])

    put_keyframe(budget, 97)
    assert steps_until_due(budget) == round(50 * (1 - KEYFRAME_SHARE_MAX) / KEYFRAME_SHARE_MAX)
    put_keyframe(budget, 50)
    assert steps_until_due(budget) == round(50 * (1 - KEYFRAME_SHARE_MAX) / KEYFRAME_SHARE_MAX)
    assert len(told) == 1
    assert "seek_budget_ms=100 cannot be kept: a keyframe takes 50.0 ms" in told[0]


@pytest.mark.parametrize(
    ("budget", "error"),
    [(0, ValueError), (-1, ValueError), (float("nan"), ValueError), ("50", TypeError), (True, TypeError)],
)
def test_invalid_budgets(tmp_path: Path, budget: Any, error: type[Exception]) -> None:
    """An invalid budget gives one sentence that names the argument, and no file."""
    with pytest.raises(error, match="seek_budget_ms"):
        Recorder(tmp_path / "run.tape", Walkers(), seek_budget_ms=budget)
    with pytest.raises(ValueError, match="seek_budget_ms=50 with deterministic"):
        Recorder(tmp_path / "run.tape", Walkers(), seek_budget_ms=50, deterministic=True)
    assert not list(tmp_path.iterdir())


def test_a_budget_that_cannot_be_kept_reaches_the_caller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The notice arrives at a later call, as every notice does."""
    monkeypatch.setattr(SeekBudget, "_most_ms", lambda self: self._notify("seek_budget_ms=1 cannot be kept") or 1e9)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with Recorder(tmp_path / "run.tape", Walkers(), seek_budget_ms=1) as tape:
            tape.step()
            tape.step()
    assert any("seek_budget_ms=1 cannot be kept" in str(one.message) for one in caught)


def test_info_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """replay info prints the budget instead of an interval."""
    with Recorder(tmp_path / "run.tape", Walkers(), seek_budget_ms=12.5) as tape:
        tape.step()
    with pytest.raises(SystemExit):
        replay(["info", str(tmp_path / "run.tape")])
    assert "keyframes: 1 full, 0 delta, for seeks of 12.5 ms" in capsys.readouterr().out


def test_slow_steps_have_keyframes_early(tmp_path: Path, clock: Clock) -> None:
    """After 100 ms of steps, and after the usual number of ticks where they are fast."""
    steps_ms = [0.1] * 12 + [30.0] * 12 + [0.1] * 12
    found = keyframes_of(tmp_path / "run.tape", clock, steps_ms, keyframe_interval_ticks=10, keyframe_after_ms=100)
    assert found == [0, 10, 17, 22, 32]


def test_keyframes_that_take_long_come_rarely() -> None:
    """They take a tenth of the time: 20 ms each 180 ms."""
    timer, now_ns = StepTimer(100), time.perf_counter_ns
    timer.note_keyframe(now_ns() - 20_000_000)
    assert not timer.is_due(now_ns() - 150_000_000)
    assert timer.is_due(now_ns() - 31_000_000)
    assert not timer.is_due(now_ns() - 100_000_000)  # As much again, if the writer had no room for that keyframe.


class Sluggish:
    """A plain object whose step takes some time."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.turn = 0

    def advance(self) -> None:
        """Advance the clock."""
        self._clock.ms += 50.0
        self.turn += 1


def ticks_of(path: Path, clock: Clock, **options: Any) -> list[int]:
    """The keyframes of fourteen slow steps of an object."""
    arguments: dict[str, Any] = {"trial_ms": 0, "quiet": True, "ignore": ["Sluggish._clock"], **options}
    with recorder.record(Sluggish(clock), path, step="advance", **arguments) as game:
        for _ in range(14):
            game.advance()
    with replayer.Tape(path) as found:
        return [place.tick for place in found.keyframes]


def test_a_seek_in_a_recorded_object_with_a_slow_step_is_short(
    tmp_path: Path, clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    """By default; not where the caller chose another spacing, or equal bytes."""
    assert ticks_of(tmp_path / "run.tape", clock) == [0, 5, 10]
    with pytest.raises(SystemExit):
        replay(["info", str(tmp_path / "run.tape")])
    rule = "set to every 300 ticks, or sooner, once the steps since the last one have taken 200 ms"
    assert f"5 ticks apart ({rule})\n" in capsys.readouterr().out
    assert ticks_of(tmp_path / "own.tape", clock, keyframe_interval_ticks=7) == [0, 7, 14]
    assert ticks_of(tmp_path / "none.tape", clock, keyframe_after_ms=None) == [0]
    for name in ("first.tape", "second.tape"):
        assert ticks_of(tmp_path / name, clock, deterministic=True) == [0]
    assert (tmp_path / "first.tape").read_bytes() == (tmp_path / "second.tape").read_bytes()


def test_a_resumed_recording_keeps_its_spacing(tmp_path: Path, clock: Clock) -> None:
    """It is on the tape."""
    path = tmp_path / "run.tape"
    ticks_of(path, clock)
    with recorder.resume(path, adapt(Sluggish(clock), step="advance", ignore=["Sluggish._clock"])) as tape:
        for _ in range(8):
            tape.step()
    with replayer.Tape(path) as found:
        assert [place.tick for place in found.keyframes] == [0, 5, 10, 14, 19]


def test_two_ways_of_spacing_contradict_each_other(tmp_path: Path) -> None:
    """Each names the other."""
    with pytest.raises(ValueError, match="keyframe_after_ms=50 with deterministic, which uses no clock"):
        Recorder(tmp_path / "run.tape", Walkers(), keyframe_after_ms=50, deterministic=True)
    with pytest.raises(ValueError, match="keyframe_after_ms=50 with seek_budget_ms"):
        Recorder(tmp_path / "run.tape", Walkers(), keyframe_after_ms=50, seek_budget_ms=50)


def test_the_distance_grows_with_the_run(tmp_path: Path) -> None:
    """Half of the ticks so far, in tens, from 10 to 60."""
    path = tmp_path / "run.tape"
    options: dict[str, Any] = {"keyframe_interval_ticks": 10, "keyframe_interval_max_ticks": 60, "trial_ms": 0}
    expected, tick = [0], 0
    while True:
        distance = 10
        while distance + 10 <= min(60, tick / 2):
            distance += 10
        tick += distance
        if tick > 500:
            break
        expected.append(tick)
    with Recorder(path, Walkers(), **options) as tape:
        for _ in range(333):
            tape.step()
    with recorder.resume(path, Walkers()) as tape:
        for _ in range(167):
            tape.step()
    with replayer.Tape(path) as found:
        ticks = [place.tick for place in found.keyframes]
    assert 333 in ticks  # The one of the resume.
    assert [tick for tick in ticks if tick <= 333 and tick != 333] == [tick for tick in expected if tick < 333]
    assert all(tick % 10 == 0 for tick in ticks if tick != 333)
    assert max(later - tick for tick, later in itertools.pairwise(ticks)) <= 60
    assert replayer.open(path, Walkers).verify().ok


class Quick(gymnasium.Env[Any, Any]):
    """Steps of a microsecond."""

    observation_space, action_space = gymnasium.spaces.Discrete(100_000), gymnasium.spaces.Discrete(2)

    def __init__(self) -> None:
        self.count = 0

    def reset(self, **_: Any) -> tuple[int, dict[str, Any]]:
        """Begin at zero."""
        self.count = 0
        return 0, {}

    def step(self, _: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        """Count."""
        self.count += 1
        return self.count, 0.0, False, False, {}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"keyframe_after_ms": None}, [0, 300, 600, 900, 1200, 1800, 2700]),
        ({"deterministic": True}, [0, 300, 600, 900, 1200, 1800, 2700]),
        ({"keyframe_interval_ticks": 800}, [0, 800, 1600, 2400, 3200]),
        ({"keep": 600, "keyframe_after_ms": None}, None),
    ],
)
def test_environments_have_keyframes_further_apart_in_long_runs(
    tmp_path: Path, options: dict[str, Any], expected: list[int] | None
) -> None:
    """From tick 1,200 on; where the caller chose another spacing, or a ring, the distance stays."""
    path = tmp_path / "run.tape"
    with recorder.record(Quick(), path, trial_ms=0, quiet=True, **options) as env:
        env.reset(seed=1)
        for _ in range(3300):
            env.step(0)
    with replayer.Tape(path) as found:
        ticks = [place.tick for place in found.keyframes]
    if expected is None:
        assert {later - tick for tick, later in itertools.pairwise(ticks)} == {300}
    else:
        assert ticks == expected


def test_a_growing_distance_is_refused_where_it_cannot_be(tmp_path: Path) -> None:
    """Next to a budget, in a ring, and below the shortest distance."""
    with pytest.raises(ValueError, match="keyframe_interval_max_ticks=900 with seek_budget_ms"):
        Recorder(tmp_path / "run.tape", Walkers(), keyframe_interval_max_ticks=900, seek_budget_ms=50)
    for keep in (400, "60s"):  # Ticks are dropped at keyframes: this ring kept 900 ticks.
        with pytest.raises(ValueError, match="keyframe_interval_max_ticks=900 with keep: give one of them"):
            Recorder(tmp_path / "run.tape", Walkers(), keyframe_interval_max_ticks=900, keep=keep)
    with pytest.raises(ValueError, match="keyframe_interval_max_ticks=200: expected at least 300"):
        Recorder(tmp_path / "run.tape", Walkers(), keyframe_interval_max_ticks=200)
    with pytest.raises(ValueError, match="keyframe_interval_max_ticks"):
        Recorder(tmp_path / "run.tape", Walkers(), keyframe_interval_max_ticks=-1)
    assert not list(tmp_path.iterdir())


def test_a_rekeyed_tape_and_a_branch_with_a_distance_of_its_own_have_even_keyframes(tmp_path: Path) -> None:
    """The tape that they come from had growing distances."""
    options: dict[str, Any] = {"keyframe_interval_ticks": 10, "keyframe_interval_max_ticks": 60, "trial_ms": 0}
    with Recorder(tmp_path / "run.tape", Walkers(), **options) as tape:
        for _ in range(200):
            tape.step()
    rekey_tape(tmp_path / "run.tape", tmp_path / "even.tape", 25, Walkers)
    with replayer.open(tmp_path / "run.tape", Walkers) as run:
        for name, more in (
            ("own.tape", {"keyframe_interval_ticks": 20}),
            ("same.tape", {}),
            ("ring.tape", {"keep": 80}),
        ):
            with run.branch(tmp_path / name, 100, standalone=True, **more) as branch:
                for _ in range(100):
                    branch.step()
    found = {}
    for name in ("even.tape", "own.tape", "same.tape", "ring.tape"):
        with replayer.Tape(tmp_path / name) as one:
            found[name] = [place.tick for place in one.keyframes if place.tick > 100]
            assert one.meta["settings"].get("keyframe_interval_max_ticks") == (60 if name == "same.tape" else None)
    assert found == {
        "even.tape": [125, 150, 175, 200],
        "own.tape": [120, 140, 160, 180, 200],
        "same.tape": [150],
        "ring.tape": [120, 130, 140, 150, 160, 170, 180, 190, 200],
    }
