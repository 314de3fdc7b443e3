"""Values that change the way in which they are written, since they move or are used: a replay is right, and is not accused.

``tools/campaigns/random_programs.py`` compares many more random runs.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import recorder
import replayer
from sim.adapters import adapt, fields

from called_programs import compare_calls
from moving_values import Moving, Part
from seen_in_each_way import compare

RUNS = 5


def test_random_runs_are_the_same_however_they_are_seen(tmp_path: Path) -> None:
    for _ in range(RUNS):
        seed = random.randrange(1 << 32)
        compare(Moving, seed, tmp_path / f"{seed}.tape")


@pytest.mark.parametrize("seed", [4, 42, 75, 103])
def test_runs_that_failed_once(seed: int, tmp_path: Path) -> None:
    """The recording ended, or a seek did."""
    compare(Moving, seed, tmp_path / "run.tape")


def test_random_calls_give_what_a_program_gives_that_is_not_recorded(tmp_path: Path) -> None:
    """Arguments are new values and those of the program; attributes are assigned, and calls raise, in between."""
    for _ in range(RUNS):
        seed = random.randrange(1 << 32)
        compare_calls(seed, tmp_path / f"{seed}.tape")


class Pair:
    """Two objects of one class, of which a step makes one."""

    def __init__(self) -> None:
        self.t = 0
        self.one, self.other = Part(1), Part(2)

    def step(self, _: Any = None) -> None:
        self.t += 1
        self.one.v += 1
        if self.t == 7:
            self.other = self.one


def test_two_objects_that_a_used_replay_made_one_are_two_again(tmp_path: Path) -> None:
    with recorder.record(Pair(), tmp_path / "pair.tape", fields(), quiet=True, trial_ms=0) as pair:
        for _ in range(9):
            pair.step()
    with replayer.open(tmp_path / "pair.tape", world=lambda: adapt(Pair(), fields())) as run:
        run.seek(4)
        run.subject.other = run.subject.one
        run.seek(5)
        assert (run.subject.one.v, run.subject.other.v) == (6, 2)
        run.seek(8)
        assert run.subject.other is run.subject.one
        assert run.verify().ok


class Keeper:
    """It keeps what it is given, and uses it."""

    def __init__(self) -> None:
        self.held: Any = None
        self.drawn: Any = None

    def step(self, value: Any = None) -> None:
        if value is not None:
            self.held = value
        elif isinstance(self.held, np.random.RandomState):
            self.drawn = self.held.rand()
        elif isinstance(self.held, list):
            self.drawn = [one.random() for one in self.held]


def locked(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    array.setflags(write=False)
    return array


def two_over_one() -> list[Any]:
    first = np.random.default_rng(5)
    return [first, np.random.Generator(first.bit_generator), np.random.default_rng(6)]


def writeable_over_locked() -> Any:
    base = np.arange(3.0)
    return base[1:], locked(base)


def locked_over_writeable() -> Any:
    base = np.arange(3.0)
    return base, locked(base[1:])


def after_a_normal_number() -> Any:
    made = np.random.RandomState(4)
    made.randn()  # It has a second one, for the next call.
    return made


KEPT: dict[str, Callable[[], Any]] = {
    "a read-only array": lambda: locked(np.arange(3.0)),
    "a writeable view of a base that is read-only now": writeable_over_locked,
    "a read-only view": locked_over_writeable,
    "a RandomState": lambda: np.random.RandomState(4),
    "a RandomState after a normal number": after_a_normal_number,
    "two generators over one bit generator": two_over_one,
}


@pytest.mark.parametrize("make", KEPT.values(), ids=KEPT)
def test_what_is_passed_and_kept_is_the_same_in_a_replay(make: Callable[[], Any], tmp_path: Path) -> None:
    tape, live = tmp_path / "kept.tape", Keeper()
    with recorder.record(live, tape, fields(), quiet=True, trial_ms=0, keyframe_interval_ticks=3) as keeper:
        keeper.step(make())
        for _ in range(4):
            keeper.step()
    with replayer.open(tape, world=lambda: adapt(Keeper(), fields())) as run:
        for tick in (5, 1, 2):
            run.seek(tick)
        run.seek(5)
        assert repr(run.subject.drawn) == repr(live.drawn)
        assert run.verify().ok


def test_an_environment_may_keep_a_read_only_action(tmp_path: Path) -> None:
    """Such as a policy's, computed by JAX."""
    gymnasium = pytest.importorskip("gymnasium")

    class Keeping(gymnasium.Env):  # type: ignore[misc,name-defined]
        observation_space = action_space = gymnasium.spaces.Box(-1, 1, (2,))

        def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
            super().reset(seed=seed, options=options)
            self.last = np.zeros(2, np.float32)
            return self.last.copy(), {}

        def step(self, action: Any) -> Any:
            self.last = action
            return self.last * 0.5, 0.0, False, False, {}

    with recorder.record(Keeping(), tmp_path / "keeping.tape", quiet=True, trial_ms=0) as env:
        env.reset(seed=1)
        for number in range(5):
            env.step(locked(np.full(2, number / 10, np.float32)))
    with replayer.open(tmp_path / "keeping.tape", world=Keeping) as run:
        assert run.verify().ok
