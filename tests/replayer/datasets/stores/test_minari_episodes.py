"""A Minari data set of an environment has its episodes, its spaces and its specification, by Minari's own reading."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from optional_packages import lazily, needs

import replayer
from replayer.commands.main import main
from replayer.datasets.request import ExtractionError

from oracle.command_lines import assert_one_line, run

minari = lazily("minari")
needs("h5py", "PIL", "gymnasium", "pettingzoo", "pyarrow")

import gymnasium  # noqa: E402
from environment_runs import CASES, REBUILT, recorded  # noqa: E402
from gymnasium import spaces  # noqa: E402

NAMES = sorted(CASES.keys() - {"oddities"})


def stacked(values: list[Any], space: Any) -> Any:
    """Values of steps as Minari holds them."""
    if isinstance(space, spaces.Dict):
        return {key: stacked([value[key] for value in values], one) for key, one in space.spaces.items()}
    return np.asarray(values)


def ensure_equal(got: Any, expected: Any) -> None:
    """Raise AssertionError unless values, dtypes and bytes are equal."""
    if isinstance(expected, dict):
        assert got.keys() == expected.keys()
        for key, one in expected.items():
            ensure_equal(got[key], one)
        return
    assert got.dtype == expected.dtype
    assert got.tobytes() == expected.tobytes()


def by_episode(rows: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """The rows of each episode, environment and agent, in the order in which they end."""
    groups: dict[Any, list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault((row.get("env"), row["agent"], row["episode"]), []).append(row)
    return list(groups.values())


def plain(options: Any) -> Any:
    """The options with lists in place of arrays."""
    return options and {name: np.asarray(value).tolist() for name, value in options.items()}


def key(row: dict[str, Any]) -> tuple[int, str, int]:
    return row.get("env", 0), row["agent"], row["episode"]


@pytest.mark.share(0.18)
@pytest.mark.parametrize("name", NAMES)
def test_each_episode_equals_that_of_the_loop(name: str, tmp_path: Path, monkeypatch: Any) -> None:
    """Loaded, sampled, filtered and split by Minari, over rows of several batches."""
    monkeypatch.setattr("replayer.datasets.plan.PART_TICKS", 60)
    monkeypatch.setattr("replayer.datasets.worker.BUFFER_BYTES", 4_000)
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "set"))
    rows = recorded(name, tmp_path / "run.tape")
    made = replayer.extract(tmp_path / "run.tape", tmp_path / "set", world=REBUILT.get(name), file_format="minari")
    [identity] = made.manifest["tables"]["transitions"]["datasets"]
    loaded = minari.load_dataset(identity)

    groups = {key(group[0]): group for group in by_episode(rows)}
    assert loaded.total_steps == len(rows)
    assert loaded.total_episodes == len(groups)
    abouts = list(loaded.storage.get_episode_metadata(range(len(groups))))
    for episode, about in zip(loaded.iterate_episodes(), abouts, strict=True):
        group = groups.pop((int(about.get("env", 0)), about["agent"], int(about["episode"])))
        last = group[-1]
        ensure_equal(
            episode.observations, stacked([*(row["obs"] for row in group), last["next"]], loaded.observation_space)
        )
        ensure_equal(episode.actions, stacked([row["action"] for row in group], loaded.action_space))
        assert episode.rewards.tolist() == [float(row["reward"]) for row in group]
        assert episode.terminations.tolist() == [bool(row["terminated"]) for row in group]
        is_cut = not (last["terminated"] or last["truncated"])
        assert episode.truncations.tolist() == [
            *(bool(row["truncated"]) for row in group[:-1]),
            is_cut or last["truncated"],
        ]
        assert about["end"] == ("cut" if is_cut else "terminated" if last["terminated"] else "truncated")
        assert about.get("seed") == (None if group[0]["step"] else last["seed"])
        assert plain(about.get("options")) == last["options"]
        assert about["total_steps"] == len(group)
    assert not groups
    loaded.set_seed(1)
    assert len(list(loaded.sample_episodes(2))) == 2
    assert loaded.filter_episodes(lambda one: one.id < 3).total_episodes == 3
    assert [part.total_episodes for part in minari.split_dataset(loaded, [2, 1], seed=0)] == [2, 1]


def layers_of(env: Any) -> list[str]:
    names = []
    while isinstance(env, gymnasium.Wrapper):
        names.append(type(env).__name__)
        env = env.env
    return names


@pytest.mark.parametrize("name", ["cart", "lake", "autoreset"])
def test_minari_recovers_the_environment(name: str, tmp_path: Path, monkeypatch: Any) -> None:
    """With its wrappers, its limit of steps and its spaces."""
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "set"))
    recorded(name, tmp_path / "run.tape")
    replayer.extract(tmp_path / "run.tape", tmp_path / "set", file_format="minari")
    loaded = minari.load_dataset("set-v0")
    env, live = loaded.recover_environment(), CASES[name][0]()

    assert env.spec == live.spec
    assert (loaded.observation_space, loaded.action_space) == (live.observation_space, live.action_space)
    assert layers_of(env) == layers_of(live)


def test_fields_cut_the_space(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "set"))
    recorded("camera", tmp_path / "run.tape")
    replayer.extract(
        tmp_path / "run.tape",
        tmp_path / "set",
        world=REBUILT["camera"],
        file_format="minari",
        fields=("image", "pose.x"),
    )
    loaded = minari.load_dataset("set-v0")

    assert list(loaded.observation_space.spaces) == ["image", "pose"]
    assert list(loaded.observation_space["pose"].spaces) == ["x"]
    assert loaded[0].observations["pose"]["x"].dtype == np.float32


def test_what_minari_cannot_hold_is_named(tmp_path: Path, capsys: Any) -> None:
    """Before any work, in one line."""
    recorded("oddities", tmp_path / "odd.tape")
    recorded("cart", tmp_path / "cart.tape")
    with pytest.raises(
        ExtractionError, match=r"Minari cannot hold obs\.1, which is a Sequence: leave it out \(--field"
    ):
        replayer.extract(tmp_path / "odd.tape", tmp_path / "set", world=REBUILT["oddities"], file_format="minari")
    capsys.readouterr()
    for rest, text in (
        ("--info", "error: infos are not written for Minari: leave --info out, or use parquet"),
        ("--ticks 1..5 --ticks 8..9", "error: an episode of Minari must not have gaps, which several ranges"),
        ("--table transitions --table states", "error: Minari holds only pairs or transitions, not the table states"),
    ):
        assert run(main, f"extract {tmp_path}/cart.tape -o {tmp_path}/set -j 1 --format minari {rest}") == 2
        assert_one_line(capsys.readouterr(), text)
    assert not (tmp_path / "set").exists()
