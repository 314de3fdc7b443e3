"""Tapes of different environments in one data set: a warning, and a column, attribute or task that tells them apart."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import pytest
from optional_packages import needs

import recorder
import replayer
from replayer.commands.main import main
from replayer.datasets.grow import merge_datasets
from replayer.datasets.request import ExtractionError, ExtractionWarning
from replayer.datasets.transitions.environment_label import environment_label

from oracle.command_lines import run

needs("gymnasium", "pyarrow")

import gymnasium  # noqa: E402
from collected_environments import loop  # noqa: E402

SMALL = 'FrozenLake-v1(map_name="4x4", max_episode_steps=100)'
LARGE = 'FrozenLake-v1(map_name="8x8", max_episode_steps=100)'
WARNED = f"the tapes are of 2 different environments ({SMALL}, {LARGE}): "


def lake(path: Path, name: str, seed: int) -> None:
    """A tape of a lake."""
    env = recorder.record(gymnasium.make("FrozenLake-v1", map_name=name), path, quiet=True)
    loop(env, 20, seed)
    env.close()


@pytest.fixture
def lakes(tmp_path: Path) -> list[Path]:
    paths = [tmp_path / f"{number}.tape" for number in range(3)]
    for seed, (path, name) in enumerate(zip(paths, ("4x4", "8x8", "4x4"), strict=True)):
        lake(path, name, seed)
    return paths


def labels_in(folder: Path) -> list[str]:
    table = replayer.Dataset(folder).table("transitions").to_arrow()
    assert table.schema.names[:2] == ["run", "environment"]
    return sorted(set(table.column("environment").to_pylist()))


@pytest.mark.seldom(0.15)
def test_a_column_tells_them_apart(lakes: list[Path], tmp_path: Path, capsys: Any) -> None:
    """The command prints one line; the label of a row is that of its tape; the streamed rows have it, too."""
    assert run(main, f"extract {lakes[0]} {lakes[1]} -o {tmp_path}/both -j 1") == 0
    error = capsys.readouterr().err
    assert error.count("different environments") == 1
    assert f"warning: {WARNED}the column environment tells them apart" in error
    rows = replayer.Dataset(tmp_path / "both").table("transitions").to_arrow().to_pylist()
    runs = [tape["run"] for tape in replayer.Dataset(tmp_path / "both").manifest["tapes"]]
    by_run = dict(zip(runs, (SMALL, LARGE), strict=True))
    assert [row["environment"] for row in rows] == [by_run[row["run"]] for row in rows]

    with pytest.warns(ExtractionWarning, match="2 different environments"):
        stream = replayer.samples(lakes[:2], batch=64, shuffle=False)
    found = [str(label) for batch in stream for label in batch["environment"]]
    assert found == [row["environment"] for row in rows]


def test_a_column_of_only_some_environments_is_refused_with_their_names(tmp_path: Path) -> None:
    """The columns differ since the tapes do: the error says so, not only the warning."""
    lake(tmp_path / "lake.tape", "4x4", 1)
    env = recorder.record(gymnasium.make("Blackjack-v1"), tmp_path / "cards.tape", quiet=True)
    loop(env, 20, 1)
    env.close()
    with pytest.warns(ExtractionWarning, match="2 different environments"):
        rows = replayer.samples(tmp_path, shuffle=False)
    with pytest.raises(ExtractionError, match=r"misses some values.*: the tapes are of 2 different environments \(Bl"):
        list(rows)


def test_tapes_of_one_environment_have_no_such_column(lakes: list[Path], tmp_path: Path) -> None:
    with warnings.catch_warnings(action="error", category=ExtractionWarning):
        made = replayer.extract([lakes[0], lakes[2]], tmp_path / "one")
    assert "environment" not in made.manifest["tables"]["transitions"]["columns"]
    assert made.manifest["notes"] == []


@pytest.mark.seldom(0.15)
def test_a_data_set_that_grows_keeps_its_columns(lakes: list[Path], tmp_path: Path) -> None:
    """What has the column takes any; what has none refuses another environment, by append and by merging."""
    with pytest.warns(ExtractionWarning):
        replayer.extract(lakes[:2], tmp_path / "both")
    replayer.extract(lakes, tmp_path / "both", append=True)
    assert labels_in(tmp_path / "both") == [SMALL, LARGE]
    replayer.Dataset(tmp_path / "both").verify()

    replayer.extract(lakes[0], tmp_path / "small")
    replayer.extract(lakes[1], tmp_path / "large")
    before = (tmp_path / "small" / "manifest.json").read_bytes()
    with pytest.raises(ExtractionError, match=r"rows of different environments .*: extract all tapes again, together"):
        replayer.extract(lakes[1], tmp_path / "small", append=True)
    with pytest.raises(ExtractionError, match="rows of different environments"):
        merge_datasets(tmp_path / "small", tmp_path / "large")
    assert (tmp_path / "small" / "manifest.json").read_bytes() == before


def test_minari_has_an_attribute(tmp_path: Path, monkeypatch: Any) -> None:
    minari = pytest.importorskip("minari")
    pytest.importorskip("h5py")
    pytest.importorskip("PIL")
    for limit in (8, 9):
        env = recorder.record(
            gymnasium.make("CartPole-v1", max_episode_steps=limit), tmp_path / f"{limit}.tape", quiet=True
        )
        loop(env, 20, 1)
        env.close()
    with pytest.warns(ExtractionWarning, match="the attribute environment of an episode tells them apart"):
        replayer.extract(tmp_path, tmp_path / "carts", file_format="minari")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "carts"))
    data = minari.load_dataset("carts-v0")
    found = {(one["tape"], one["environment"]) for one in data.storage.get_episode_metadata(range(data.total_episodes))}
    assert found == {(f"{limit}.tape", f"CartPole-v1(max_episode_steps={limit})") for limit in (8, 9)}


@pytest.mark.seldom(0.15)
def test_lerobot_has_tasks(lakes: list[Path], tmp_path: Path) -> None:
    polars = pytest.importorskip("polars")
    pytest.importorskip("PIL")
    with pytest.warns(ExtractionWarning, match="the task of an episode tells them apart"):
        replayer.extract(lakes[:2], tmp_path / "robot", file_format="lerobot")
    tasks = polars.read_parquet(tmp_path / "robot" / "meta" / "episodes" / "*" / "*.parquet")["tasks"].to_list()
    assert {one for own in tasks for one in own} == {SMALL, LARGE}


def test_labels() -> None:
    """Arguments in order, wrappers that change what is returned, long ones and objects by a digest."""
    spec: dict[str, Any] = {
        "id": "A-v0",
        "kwargs": {"b": 1, "a": [1, 2], "render_mode": "rgb_array"},
        "max_episode_steps": None,
    }
    spec["additional_wrappers"] = [
        {"name": "ClipReward", "kwargs": {"max_reward": 1}},
        {"name": "RecordVideo", "kwargs": {}},
    ]
    assert environment_label("A-v0", json.dumps(spec), {}) == "A-v0(a=[1, 2], b=1) + ClipReward(max_reward=1)"
    long = environment_label("A-v0", json.dumps(spec | {"kwargs": {"desc": "S" * 200}}), {})
    assert long.startswith("A-v0 ")
    assert len(long) < 15
    own = [environment_label("Maze", None, {"class": "m.Maze", "spaces": {"n": n}}) for n in (1, 1, 2)]
    assert own[0] == own[1] != own[2]
    assert environment_label("Maze", "{", {}).startswith("Maze ")
