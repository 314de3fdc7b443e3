"""Policies learn from recordings: the example's network from a world, and a line from each form of CartPole's tapes."""

from __future__ import annotations

import re
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow.dataset
import pytest
from optional_packages import LazyModule

import recorder
import replayer

from project_paths import EXAMPLES

gymnasium: Any = LazyModule("gymnasium")
Rows = dict[str, npt.NDArray[Any]]
ROW = ("obs", "action", "reward", "next", "terminated", "truncated")
STEPS_MAX = 150  # Of an episode, while it is recorded.


@pytest.fixture(scope="module")
def example() -> Any:
    pytest.importorskip("torch")
    return runpy.run_path(str(EXAMPLES / "learn_from_recordings.py"))


@pytest.mark.seldom(0.15)
def test_a_few_short_runs_teach_something(example: Any, tmp_path: Path) -> None:
    """Everything is seeded: the losses, 0.31 and 1.28 at the time of writing, change only slightly with torch's version."""
    learnt = example["learn"](tmp_path, runs=3, ticks=30, workers=0, steps=250)
    print(learnt)
    assert min(learnt.decisions) > 100
    assert learnt.loss < 0.7 * learnt.baseline_loss
    assert learnt.right > learnt.baseline_right


@pytest.mark.long
def test_the_example_teaches_what_it_says(example: Any, tmp_path: Path) -> None:
    learnt = example["learn"](tmp_path)
    print(learnt)
    assert learnt.loss < 0.4
    assert learnt.baseline_loss > 1
    assert (learnt.right > 0.9, learnt.baseline_right < 0.7) == (True, True)


def play(env: Any, seeds: range, act: Callable[[npt.NDArray[Any]], int]) -> tuple[list[tuple[Any, ...]], list[int]]:
    """Play an episode for each seed; return the rows as a loop collects them, and the steps of each episode."""
    rows, steps = [], []
    for seed in seeds:
        seen, _ = env.reset(seed=seed)
        is_over, count = False, 0
        while not is_over:
            action = act(seen)
            following, reward, terminated, truncated, _ = env.step(action)
            rows.append((seen.copy(), action, float(reward), following.copy(), terminated, truncated))
            seen, is_over, count = following, terminated or truncated, count + 1
        steps.append(count)
    return rows, steps


def scripted(rng: np.random.Generator) -> Callable[[npt.NDArray[Any]], int]:
    """Push towards the side to which the pole falls; one push in five is random."""
    return lambda seen: int(rng.random() < 0.5 if rng.random() < 0.2 else seen[2] + 0.5 * seen[3] > 0)


def rows_of_parquet(folder: Path) -> Rows:
    """Read the files by themselves, in their order, as people do who have no replayer."""
    table = pyarrow.dataset.dataset(folder / "transitions", format="parquet", partitioning="hive").to_table()
    return {
        name: np.array(table[name].to_pylist(), DTYPES[str(innermost(table.schema.field(name).type))]) for name in ROW
    }


DTYPES = {"float": np.float32, "double": np.float64, "int64": np.int64, "bool": np.bool_}


def innermost(kind: Any) -> Any:
    return kind.value_type if pyarrow.types.is_fixed_size_list(kind) else kind


def rows_of_minari(folder: Path) -> Rows:
    """Read the episodes by Minari's own package."""
    minari = pytest.importorskip("minari")
    loaded = minari.load_dataset(f"{folder.name}-v0")
    columns: dict[str, list[Any]] = {name: [] for name in ROW}
    for episode in loaded.iterate_episodes():
        values = (
            episode.observations[:-1],
            episode.actions,
            episode.rewards,
            episode.observations[1:],
            episode.terminations,
            episode.truncations,
        )
        for name, array in zip(ROW, values, strict=True):
            columns[name].append(array)
    return {name: np.concatenate(arrays) for name, arrays in columns.items()}


def rows_of_stream(tapes: list[Path]) -> Rows:
    """Stream shuffled batches, and put the rows into the order of the tapes."""
    batches = list(replayer.samples(tapes, batch=64, seed=3, columns=("run", "tick", *ROW)))
    joined = {name: np.concatenate([batch[name] for batch in batches]) for name in batches[0]}
    runs = [str(replayer.Tape(tape).run_id) for tape in tapes]
    places = [(runs.index(str(run)), int(tick)) for run, tick in zip(joined["run"], joined["tick"], strict=True)]
    order = sorted(range(len(places)), key=places.__getitem__)
    assert order != list(range(len(places)))
    return {name: joined[name][order] for name in ROW}


def learn_line(rows: Rows) -> npt.NDArray[np.float64]:
    """Logistic regression of the action on the observation and a constant, by Newton's method."""
    seen = np.column_stack([rows["obs"].astype(np.float64), np.ones(len(rows["obs"]))])
    weights = np.zeros(seen.shape[1])
    for _ in range(12):
        chances = 1 / (1 + np.exp(-seen @ weights))
        slope = seen.T @ (rows["action"] - chances) - 1e-3 * weights
        curve = (seen.T * (chances * (1 - chances))) @ seen + 1e-3 * np.eye(len(weights))
        weights += np.linalg.solve(curve, slope)
    return weights


@pytest.mark.share(0.22)
@pytest.mark.seldom(0.15)
def test_the_same_policy_is_learned_from_each_form_of_the_same_tapes(tmp_path: Path, monkeypatch: Any) -> None:
    """The rows of all forms are those of the loop, byte by byte; so the policy is the same one, and it balances."""
    pytest.importorskip("gymnasium")
    pytest.importorskip("minari")
    rng = np.random.default_rng(5)
    tapes, loop = [], []
    for number in range(3):
        tapes.append(tmp_path / f"cart-{number}.tape")
        env = gymnasium.make("CartPole-v1", max_episode_steps=STEPS_MAX)
        env = recorder.record(env, tapes[-1], quiet=True, keyframe_interval_ticks=50, durability="none")
        loop += play(env, range(10 * number, 10 * number + 4), scripted(rng))[0]
        env.close()
    collected = {name: np.array(column) for name, column in zip(ROW, zip(*loop, strict=True), strict=True)}

    replayer.extract(tapes, tmp_path / "parquet")
    replayer.extract(tapes, tmp_path / "minari", file_format="minari")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    forms = {
        "parquet": rows_of_parquet(tmp_path / "parquet"),
        "minari": rows_of_minari(tmp_path / "minari"),
        "stream": rows_of_stream(tapes),
    }
    for form, rows in forms.items():
        for name in ROW:
            got, expected = rows[name], collected[name]
            assert (got.dtype, got.shape) == (expected.dtype, expected.shape), (form, name)
            for row in range(len(expected)):
                assert got[row].tobytes() == expected[row].tobytes(), (form, name, row)

    learned = {form: learn_line(rows) for form, rows in forms.items()}
    assert len({weights.tobytes() for weights in learned.values()}) == 1

    weights = learned["stream"]
    unseen = range(1000, 1020)
    env = gymnasium.make("CartPole-v1")
    balanced = play(env, unseen, lambda seen: int(seen @ weights[:-1] + weights[-1] > 0))[1]
    guessed = play(env, unseen, lambda _: int(rng.random() < 0.5))[1]
    print(np.mean(balanced), np.mean(guessed))
    assert np.mean(balanced) > 5 * np.mean(guessed)
    assert min(balanced) > max(guessed)


@pytest.mark.seldom(0.15)
def test_a_network_plays_as_the_recorded_player(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """examples/gymnasium_torch.py keeps the pole up for the recorded player's number of steps."""
    pytest.importorskip("gymnasium")
    pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(EXAMPLES / "gymnasium_torch.py"), run_name="__main__")
    recorded, network, chance = map(int, re.findall(r"\d+", capsys.readouterr().out))
    assert recorded == 100
    assert network > 90
    assert chance < 40
