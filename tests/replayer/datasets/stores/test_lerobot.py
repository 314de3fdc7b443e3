"""A LeRobotDataset has the frames of a plain loop, by a reading of the published layout that shares no code with it."""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from optional_packages import needs

import recorder
import replayer
from replayer.commands.main import main
from replayer.datasets.dataset import Dataset
from replayer.datasets.request import ExtractionError
from replayer.datasets.stores.lerobot_statistics import NumberStatistics

from oracle.command_lines import assert_one_line, run

needs("pyarrow", "PIL", "pettingzoo")

import pyarrow.parquet as pq  # noqa: E402
from collected_environments import loop  # noqa: E402
from environment_runs import CASES, REBUILT, recorded  # noqa: E402
from gymnasium import spaces  # noqa: E402
from lerobot_layout import ensure_equal, episodes_of, frames_of, info_of  # noqa: E402

from replayer.datasets.stores.lerobot_features import Feature  # noqa: E402

NAMES = sorted(CASES.keys() - {"oddities"})
FPS = {
    "cart": 50,
    "lake": 4,
    "autoreset": 50,
    "next_step": 50,
    "same_step": 50,
    "disabled": 50,
    "parallel": 2,
    "turns": 1,
}


@pytest.mark.share(0.22)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.seldom(0.15)
def test_each_frame_equals_that_of_the_loop(name: str, tmp_path: Path, monkeypatch: Any) -> None:
    """In value, dtype and shape, over rows of several parts and batches."""
    monkeypatch.setattr("replayer.datasets.plan.PART_TICKS", 60)
    monkeypatch.setattr("replayer.datasets.parts.worker.BUFFER_BYTES", 4_000)
    rows = recorded(name, tmp_path / "run.tape")
    made = replayer.extract(tmp_path / "run.tape", tmp_path / "set", world=REBUILT.get(name), file_format="lerobot")

    ensure_equal(tmp_path / "set", rows, FPS.get(name, 30))
    assert made.rows == {"transitions": len(rows)}
    assert made.manifest["tables"]["transitions"]["fps_from"] == (
        "render_fps of the environment" if name in FPS else "default"
    )
    files = {path.relative_to(tmp_path / "set").as_posix() for path in (tmp_path / "set").rglob("*") if path.is_file()}
    assert files == {
        "README.md",
        "manifest.json",
        "meta/info.json",
        "meta/stats.json",
        "meta/tasks.parquet",
        "meta/episodes/chunk-000/file-000.parquet",
        "data/chunk-000/file-000.parquet",
    }
    Dataset(tmp_path / "set").verify()
    with pytest.raises(ExtractionError, match="of format lerobot: open it with LeRobotDataset"):
        made.table("transitions")


@pytest.mark.seldom(0.15)
def test_two_processes_write_the_same_files(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("replayer.datasets.plan.PART_TICKS", 60)
    recorded("camera", tmp_path / "run.tape")
    for jobs in (1, 2):
        folder = tmp_path / f"set{jobs}"
        replayer.extract(tmp_path / "run.tape", folder, world=REBUILT["camera"], file_format="lerobot", jobs=jobs)
    files = [path.relative_to(tmp_path / "set1") for path in (tmp_path / "set1").rglob("*.*")]
    assert len(files) == 7
    for path in files:
        assert (tmp_path / "set1" / path).read_bytes() == (tmp_path / "set2" / path).read_bytes()


def ensure_statistics(found: dict[str, Any], values: np.ndarray[Any, Any]) -> None:
    """Raise AssertionError unless these are NumPy's statistics of the values, over all axes but the last."""
    flat = values.reshape(-1, values.shape[-1]).astype(np.float64)
    expected = {"min": flat.min(0), "max": flat.max(0), "mean": flat.mean(0), "std": flat.std(0)}
    shares = {"q01": 0.01, "q10": 0.1, "q50": 0.5, "q90": 0.9, "q99": 0.99}
    expected |= {name: np.quantile(flat, share, axis=0) for name, share in shares.items()}
    assert found.keys() == {*expected, "count"}
    assert found["count"] == [len(values)]
    for name, value in expected.items():
        np.testing.assert_allclose(np.array(found[name], np.float64), value, rtol=1e-9, atol=1e-12, err_msg=name)


@pytest.mark.seldom(0.15)
def test_statistics_are_those_of_the_frames(tmp_path: Path) -> None:
    """Of all frames in stats.json, and of each episode in its row; of images for each color, from 0 to 1."""
    recorded("camera", tmp_path / "run.tape")
    replayer.extract(tmp_path / "run.tape", tmp_path / "set", world=REBUILT["camera"], file_format="lerobot")
    frames, episodes = frames_of(tmp_path / "set"), episodes_of(tmp_path / "set")
    found = json.loads((tmp_path / "set" / "meta" / "stats.json").read_text())

    assert found.keys() == frames.keys()
    for feature, values in frames.items():
        parts = [(found[feature], values)]
        for row in episodes:
            own = {name.rpartition("/")[2]: one for name, one in row.items() if name.startswith(f"stats/{feature}/")}
            parts.append((own, values[row["dataset_from_index"] : row["dataset_to_index"]]))
        for statistics, own_values in parts:
            if own_values.ndim == 4:  # Images.
                assert np.shape(statistics["mean"]) == (3, 1, 1)
                flat = {name: np.ravel(one).tolist() for name, one in statistics.items()}
                ensure_statistics(flat, own_values / 255)
            else:
                ensure_statistics(statistics, own_values)


def test_quantiles_of_many_numbers_are_those_of_rows_at_equal_distances(monkeypatch: Any) -> None:
    """All else is exact, in whatever pieces the numbers come."""
    monkeypatch.setattr("replayer.datasets.stores.lerobot_statistics.NUMBERS_KEPT", 200)
    values = np.random.default_rng(0).normal(1e6, 1, (5000, 2))
    statistics = NumberStatistics(Feature("x", "obs", "float64", (2,)))
    for piece in np.array_split(values, [1, 3, 100, 101, 4000]):
        statistics.add(piece)
    found = statistics.arrays()

    np.testing.assert_allclose(found["std"], values.std(0), rtol=1e-9)
    np.testing.assert_allclose(found["mean"], values.mean(0), rtol=1e-12)
    assert found["min"].tolist() == values.min(0).tolist()
    assert found["q50"].tolist() == np.quantile(values[::64], 0.5, axis=0).tolist()
    assert found["count"].tolist() == [5000]


def test_infinite_numbers_have_no_mean(tmp_path: Path) -> None:
    """They are written as they are, and nothing warns."""

    class Endless(gymnasium.Env[Any, Any]):
        observation_space = spaces.Box(-np.inf, np.inf, (1,), np.float16)  # type: ignore[arg-type]
        action_space = spaces.Discrete(2)

        def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
            super().reset(seed=seed, options=options)
            return np.array([np.inf], np.float16), {}

        def step(self, action: Any) -> Any:
            return np.array([-np.inf if action else 1], np.float16), 0, False, False, {}

    env = recorder.record(Endless(), tmp_path / "run.tape", quiet=True, trial_ms=0)
    rows = loop(env, 10, 1)
    env.close()
    replayer.extract(tmp_path / "run.tape", tmp_path / "set", world=Endless, file_format="lerobot")

    ensure_equal(tmp_path / "set", rows, 30)
    found = json.loads((tmp_path / "set" / "meta" / "stats.json").read_text())["observation.state"]
    assert (found["min"], found["max"]) == ([-np.inf], [np.inf])
    assert np.isnan(found["mean"]).all()


@pytest.mark.seldom(0.15)
def test_pixels_and_other_arrays(tmp_path: Path) -> None:
    """RGB is an image, also with the color first. Gray pixels and other arrays are numbers. A lone image has a name."""
    kinds = {
        "first": spaces.Box(0, 255, (3, 5, 4), np.uint8),
        "gray": spaces.Box(0, 255, (5, 4), np.uint8),
        "images": spaces.Dict({"side": spaces.Box(0, 255, (2, 6, 3), np.uint8)}),
        "cube": spaces.Box(-1, 1, (2, 3, 4)),
        "none": spaces.Box(-1, 1, (0,)),
    }

    class Views(gymnasium.Env[Any, Any]):
        observation_space: Any = spaces.Dict(kinds)
        action_space = spaces.MultiBinary([2, 2])

        def _observed(self) -> Any:
            space = copy.deepcopy(self.observation_space)  # The generator of a space is not saved.
            space.seed(int(self.np_random.integers(1 << 30)))
            return space.sample()

        def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
            super().reset(seed=seed, options=options)
            return self._observed(), {}

        def step(self, action: Any) -> Any:  # noqa: ARG002
            return self._observed(), 0.5, bool(self.np_random.random() < 0.2), False, {}

    env = recorder.record(Views(), tmp_path / "run.tape", quiet=True, trial_ms=0)
    rows = loop(env, 30, 1)
    env.close()
    replayer.extract(tmp_path / "run.tape", tmp_path / "set", world=Views, file_format="lerobot")
    frames = frames_of(tmp_path / "set")
    features = info_of(tmp_path / "set")["features"]

    assert {name: one["dtype"] for name, one in features.items() if name.startswith("observation")} == {
        "observation.images.first": "image",
        "observation.gray": "uint8",
        "observation.images.side": "image",
        "observation.cube": "float32",
    }
    for index, row in enumerate(rows):
        seen = row["obs"]
        assert np.array_equal(frames["observation.images.first"][index], np.moveaxis(seen["first"], 0, -1))
        assert np.array_equal(frames["observation.images.side"][index], seen["images"]["side"])
        assert np.array_equal(frames["observation.gray"][index], seen["gray"])
        assert np.array_equal(frames["observation.cube"][index], seen["cube"])
        assert np.array_equal(frames["action"][index], row["action"])
    statistics = json.loads((tmp_path / "set" / "meta" / "stats.json").read_text())["observation.images.first"]
    first = np.stack([row["obs"]["first"] for row in rows])
    np.testing.assert_allclose(np.ravel(statistics["mean"]), first.mean(axis=(0, 2, 3)) / 255)

    Views.observation_space = kinds["first"]
    env = recorder.record(Views(), tmp_path / "one.tape", quiet=True, trial_ms=0)
    loop(env, 5, 1)
    env.close()
    replayer.extract(tmp_path / "one.tape", tmp_path / "one", world=Views, file_format="lerobot")
    assert "observation.image" in info_of(tmp_path / "one")["features"]


@pytest.mark.seldom(0.15)
def test_frames_per_second_and_tasks(tmp_path: Path, capsys: Any) -> None:
    """The option is first, then the environment's metadata; two environments with different ones need the option."""
    paths = {}
    for name in ("FrozenLake-v1", "Taxi-v4", "Blackjack-v1"):
        paths[name] = tmp_path / f"{name}.tape"
        env = recorder.record(gymnasium.make(name), paths[name], quiet=True, trial_ms=0)
        loop(env, 40, 1)
        env.close()
    out = tmp_path / "set"
    line = f"extract {paths['FrozenLake-v1']} {paths['Taxi-v4']} -o {out} -j 1 --format lerobot --fps 12.5"
    assert run(main, line) == 0
    assert "frames per second: 12.5 (given)" in capsys.readouterr().out
    frames, tasks = frames_of(out), pq.read_table(out / "meta" / "tasks.parquet").to_pydict()
    assert tasks == {"task_index": [0, 1], "task": ["FrozenLake-v1", "Taxi-v4"]}
    assert frames["task_index"].ravel().tolist() == [0] * 40 + [1] * 40
    assert frames["timestamp"].max() == np.float32(frames["frame_index"].max() / 12.5)
    assert {tuple(row["tasks"]) for row in episodes_of(out)} == {("FrozenLake-v1",), ("Taxi-v4",)}

    for text, rest in (
        ("error: fps: expected a number of frames per second above 0, got 0.0", "--format lerobot --fps 0"),
        ("error: fps: only LeRobot has frames, got the format parquet: leave --fps out", "--fps 5"),
    ):
        assert run(main, f"extract {paths['Taxi-v4']} -o {tmp_path}/no -j 1 {rest}") == 2
        assert_one_line(capsys.readouterr(), text)


READ_BY_LEROBOT = """
import json, pathlib, sys
from lerobot.datasets.lerobot_dataset import LeRobotDataset
folder, out, name = sys.argv[1:]
data = LeRobotDataset("local/set", root=folder)
few = LeRobotDataset("local/set", root=folder, episodes=[1, 3], delta_timestamps={name: [0, 1 / data.fps]})
def plain(item):
    arrays = {key: value.numpy() for key, value in item.items() if key != "task"}
    return {key: [value.dtype.name, value.tolist()] for key, value in arrays.items()} | {"task": item["task"]}
made = {"frames": [plain(data[index]) for index in range(len(data))], "few": [plain(one) for one in few]}
made["mean"] = {key: one["mean"].tolist() for key, one in data.meta.stats.items()}
pathlib.Path(out).write_text(json.dumps(made))
"""


@pytest.mark.parametrize("name", ["cart", "camera"])
def test_its_own_reader_opens_it(name: str, tmp_path: Path) -> None:
    """LeRobot's returns all frames, those of chosen episodes, and the next action."""
    if find_spec("lerobot") is None:
        pytest.skip("lerobot is not installed")
    recorded(name, tmp_path / "run.tape")
    replayer.extract(tmp_path / "run.tape", tmp_path / "set", world=REBUILT.get(name), file_format="lerobot")
    frames, episodes = frames_of(tmp_path / "set"), episodes_of(tmp_path / "set")
    action = "action" if name == "cart" else "action.move"
    finished = subprocess.run(
        [sys.executable, "-c", READ_BY_LEROBOT, tmp_path / "set", tmp_path / "read", action],
        env=os.environ | {"HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path / "home")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    read = json.loads((tmp_path / "read").read_text())

    assert len(read["frames"]) == len(frames["index"])
    for index, frame in enumerate(read["frames"]):
        assert frame.keys() == {*frames, "task"}
        for feature, values in frames.items():
            value = np.array(frame[feature][1], frame[feature][0])
            if values.ndim == 4:  # An image: the color first, from 0 to 1.
                value = np.round(np.moveaxis(value, 0, -1) * 255)
            expected = values[index].astype(value.dtype)  # Its tensors are float32 and int64.
            assert np.array_equal(value.reshape(expected.shape), expected), feature
    chosen = [
        (index, row["dataset_to_index"] - 1)
        for row in (episodes[1], episodes[3])
        for index in range(row["dataset_from_index"], row["dataset_to_index"])
    ]
    assert len(read["few"]) == len(chosen)
    for frame, (index, last) in zip(read["few"], chosen, strict=True):
        pair = frames[action][[index, min(index + 1, last)]]
        assert np.array_equal(np.array(frame[action][1], pair.dtype).reshape(pair.shape), pair)
    np.testing.assert_allclose(read["mean"][action], frames[action].mean(axis=0), rtol=1e-5)


def test_pandas_has_the_tasks_as_the_index(tmp_path: Path) -> None:
    """LeRobot reads the texts from there."""
    pandas = pytest.importorskip("pandas")
    recorded("cart", tmp_path / "run.tape")
    replayer.extract(tmp_path / "run.tape", tmp_path / "set", file_format="lerobot")
    tasks = pandas.read_parquet(tmp_path / "set" / "meta" / "tasks.parquet")

    assert tasks.index.tolist() == ["CartPole-v1"]
    assert tasks.iloc[0].name == "CartPole-v1"
    assert tasks["task_index"].tolist() == [0]


def test_the_card_tells_people_and_the_library_datasets_what_there_is(tmp_path: Path) -> None:
    """load_dataset opens the folder by its card; the features are those of info.json."""
    datasets = pytest.importorskip("datasets")
    recorded("cart", tmp_path / "run.tape")
    made = replayer.extract(tmp_path / "run.tape", tmp_path / "set", file_format="lerobot")
    card = (tmp_path / "set" / "README.md").read_text()
    info = json.loads((tmp_path / "set" / "meta" / "info.json").read_text())

    loaded = datasets.load_dataset(str(tmp_path / "set"), cache_dir=str(tmp_path / "cache"))
    assert {split: rows.num_rows for split, rows in loaded.items()} == {"train": info["total_frames"]}
    assert "# Transitions of CartPole-v1\n" in card
    assert f" of {info['total_episodes']} episodes and {info['total_frames']} frames" in card
    assert "| observation.state | float32 | (4,) |\n" in card
    assert made.manifest["tapes"][0]["run"] in card
    assert made.manifest["format"] == "lerobot"


@pytest.mark.seldom(0.15)
def test_the_library_datasets_knows_the_types(tmp_path: Path) -> None:
    """From the files alone, images and arrays of several axes among them."""
    datasets = pytest.importorskip("datasets")
    recorded("turns", tmp_path / "turns.tape")
    recorded("camera", tmp_path / "camera.tape")
    found: dict[str, Any] = {}
    for name in ("turns", "camera"):
        folder = tmp_path / name
        replayer.extract(tmp_path / f"{name}.tape", folder, world=REBUILT.get(name), file_format="lerobot")
        loaded = datasets.load_dataset(
            "parquet", data_dir=str(folder / "data"), split="train", cache_dir=str(tmp_path / "cache")
        )
        found |= loaded.features
        for feature, values in frames_of(folder).items():
            assert np.array_equal(np.asarray(loaded[5][feature]).reshape(values[5].shape), values[5])
    assert found["observation.images.image"] == datasets.Image()
    assert found["observation.observation"] == datasets.Array3D((3, 3, 2), "int8")
    assert found["observation.pose.x"] == datasets.List(datasets.Value("float32"), length=2)
    assert found["next.done"] == datasets.Value("bool")
