"""A vector of environments is one simulation: the same as a vector that is not recorded, and right after each seek."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

gymnasium = pytest.importorskip("gymnasium")

import numpy as np  # noqa: E402
from gymnasium.vector import SyncVectorEnv  # noqa: E402
from gymnasium.wrappers.vector import NormalizeObservation, RecordEpisodeStatistics  # noqa: E402

import recorder  # noqa: E402
import replayer  # noqa: E402
from sim.adapters import NotCapturedError, adapt  # noqa: E402
from sim.adapters.capture.values import encode_value  # noqa: E402

FRESH = """
import sys, hashlib, replayer
from sim.adapters.capture.values import encode_value
digest = hashlib.sha256()
with replayer.open(sys.argv[1]) as run:
    for tick in map(int, sys.argv[2:]):
        run.seek(tick)
        last = run.simulation.last
        digest.update(encode_value([last.observation, last.reward, last.terminated, last.truncated]))
print(digest.hexdigest())
"""


def native(**arguments: Any) -> Any:
    return gymnasium.make_vec("CartPole-v1", num_envs=4, vectorization_mode="vector_entry_point", **arguments)


def sync(name: str = "CartPole-v1", mode: str | None = None) -> Any:
    if mode is None:
        return gymnasium.make_vec(name, num_envs=3, vectorization_mode="sync")
    if not hasattr(gymnasium.vector, "AutoresetMode"):
        pytest.skip("this version of Gymnasium has one mode of autoreset")
    return gymnasium.make_vec(name, num_envs=3, vectorization_mode="sync", vector_kwargs={"autoreset_mode": mode})


VECTORS: dict[str, Callable[[], Any]] = {
    "native": native,
    "one": lambda: gymnasium.make_vec("CartPole-v1", num_envs=1),
    "next step": sync,
    "same step": lambda: sync(mode="SameStep"),
    "tables": lambda: sync("FrozenLake-v1"),
    "cards": lambda: sync("Blackjack-v1"),
}


def drive(envs: Any, steps: int, seed: int) -> list[bytes]:
    """Random actions, a reset without a seed in the middle, and each one's results as bytes."""
    envs.action_space.seed(seed)
    observation, _ = envs.reset(seed=seed)
    results = [encode_value(observation)]
    while len(results) < steps:
        if len(results) == steps // 2:
            observation, _ = envs.reset()
            results.append(encode_value(observation))
        *result, _ = envs.step(envs.action_space.sample())
        results.append(encode_value(list(result)))
    return results


@pytest.mark.parametrize("name", VECTORS)
@pytest.mark.share(0.22)
def test_a_recorded_vector_is_the_vector_and_each_seek_is_right(tmp_path: Path, name: str) -> None:
    """The truth is a second vector that runs alongside without a recorder."""
    make, path = VECTORS[name], tmp_path / "run.tape"
    plain = make()
    expected = drive(plain, 90, 5)
    envs = recorder.record(make(), path, quiet=True)
    assert drive(envs, 90, 5) == expected
    assert envs.num_envs == plain.num_envs
    assert isinstance(envs, gymnasium.vector.VectorEnv)
    envs.close()
    with replayer.open(path) as run:
        for tick in (70, 3, 46, 45, 90, 2, 1):
            run.seek(tick)
            last = run.simulation.last
            parts = [last.observation, last.reward, last.terminated, last.truncated]
            is_reset = tick in (1, 46)
            assert encode_value(parts[0] if is_reset else parts) == expected[tick - 1]
        assert run.episodes[0].last_tick == 45
        assert run.verify().ok


def test_a_fresh_process_gives_the_same_state(tmp_path: Path) -> None:
    """The vector is made from the tape alone, under a different hash seed."""
    path, ticks = tmp_path / "run.tape", [50, 7, 29]
    envs = recorder.record(sync(mode="SameStep"), path, quiet=True)
    expected = drive(envs, 60, 2)
    envs.close()
    digest = hashlib.sha256()
    for tick in ticks:
        digest.update(expected[tick - 1])
    command = [sys.executable, "-c", FRESH, str(path), *map(str, ticks)]
    result = subprocess.run(
        command, capture_output=True, text=True, check=True, env=os.environ | {"PYTHONHASHSEED": "7"}
    )
    assert result.stdout.strip() == digest.hexdigest()


def test_wrappers_around_a_vector_and_inside_it_are_captured(tmp_path: Path) -> None:
    """Statistics over all environments, which the next observation depends on."""

    def make() -> Any:
        return NormalizeObservation(RecordEpisodeStatistics(sync("Pendulum-v1")))

    expected = drive(make(), 50, 1)
    envs = recorder.record(make(), tmp_path / "run.tape", quiet=True)
    assert drive(envs, 50, 1) == expected
    envs.close()
    with replayer.open(tmp_path / "run.tape", world=make) as run:
        run.seek(20)
        simulation = run.simulation
        for tick in range(21, 51):
            simulation.step(run.tape.frame(tick).inputs)
            assert simulation.state.hash() == run.tape.state_hash(tick)


def test_without_autoreset_single_environments_are_reset_by_the_caller(tmp_path: Path) -> None:
    """A mask in the options resets some of the environments; a list gives each its own seed."""
    envs = recorder.record(sync(mode="Disabled"), tmp_path / "run.tape", quiet=True)
    envs.reset(seed=[3, None, 5])
    live = [[3, 5]]
    for _ in range(80):
        _, _, terminated, truncated, _ = envs.step(np.ones(3, np.int64))
        live.append(np.array([env.unwrapped.state for env in envs.envs]).tolist())
        over = terminated | truncated
        if over.any():
            envs.reset(options={"reset_mask": over})
            live.append(np.array([env.unwrapped.state for env in envs.envs]).tolist())
    envs.close()
    assert len(live) > 85
    with replayer.open(tmp_path / "run.tape") as run:
        first = run.tape.frame(1).inputs["reset"]
        assert first[::2] == [3, 5]
        assert isinstance(first[1], int)  # Drawn, since a replay needs one.
        for tick in range(2, len(live) + 1, 9):
            run.seek(tick)
            assert np.array([env.unwrapped.state for env in run.simulation.env.envs]).tolist() == live[tick - 1]
        assert run.verify().ok


def test_a_vector_must_be_reset_first_and_says_so(tmp_path: Path) -> None:
    """A step before any reset would draw from a generator without a seed."""
    envs = recorder.record(native(), tmp_path / "run.tape", quiet=True)
    with pytest.raises(gymnasium.error.ResetNeeded, match=r"expected reset\(\) before the first step"):
        envs.step(np.zeros(4, np.int64))
    envs.reset()
    envs.step(np.zeros(4, np.int64))
    envs.close()
    with replayer.open(tmp_path / "run.tape") as run:
        assert isinstance(run.tape.frame(1).inputs["reset"], int)
        assert run.verify().ok


def test_environments_in_other_processes_are_refused_with_the_way_out() -> None:
    """Their state is out of reach."""
    envs = gymnasium.vector.AsyncVectorEnv([lambda: gymnasium.make("CartPole-v1")], context="fork")
    try:
        with pytest.raises(
            NotCapturedError, match=r"^AsyncVectorEnv keeps .* other processes.*: record .*SyncVectorEnv"
        ):
            adapt(envs)
    finally:
        envs.close()


def test_a_vector_of_recorded_environments_is_refused(tmp_path: Path) -> None:
    """It would be recorded twice."""
    inner = SyncVectorEnv([lambda: recorder.record(gymnasium.make("CartPole-v1"), tmp_path / "a.tape", quiet=True)])
    with pytest.raises(NotCapturedError, match="is recorded already"):
        adapt(inner)
    inner.envs[0].reset()
    inner.close()


def test_modes_of_autoreset_are_those_that_are_tested() -> None:
    """A new one must be looked at."""
    if not hasattr(gymnasium.vector, "AutoresetMode"):
        pytest.skip("this version of Gymnasium has one mode of autoreset")
    assert {mode.value for mode in gymnasium.vector.AutoresetMode} == {"NextStep", "SameStep", "Disabled"}
