"""Read a LeRobotDataset of version 3.0 by its published layout, and compare it with the rows of a plain loop."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

OWN = ("timestamp", "frame_index", "episode_index", "index", "task_index")
INFO = {
    "codebase_version",
    "robot_type",
    "total_episodes",
    "total_frames",
    "total_tasks",
    "chunks_size",
    "data_files_size_in_mb",
    "video_files_size_in_mb",
    "fps",
    "splits",
    "data_path",
    "video_path",
    "features",
}


def info_of(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "meta" / "info.json").read_text())  # type: ignore[no-any-return]


def numbers(array: pa.Array) -> np.ndarray[Any, Any]:
    """The numbers of nested lists, flat, with their dtype."""
    while pa.types.is_nested(array.type):
        array = array.flatten()
    assert array.null_count == 0
    return array.to_numpy(zero_copy_only=False)


def frames_of(folder: Path) -> dict[str, np.ndarray[Any, Any]]:
    """All frames, by feature, as info.json describes them: (frames, *shape)."""
    info = info_of(folder)
    table = pa.concat_tables([pq.read_table(path) for path in sorted((folder / "data").glob("*/*.parquet"))])
    assert table.column_names == list(info["features"])
    frames = {}
    for name, feature in info["features"].items():
        column = table[name].combine_chunks()
        if feature["dtype"] == "image":
            assert column.type == pa.struct([("bytes", pa.binary()), ("path", pa.string())])
            assert feature["names"] == ["height", "width", "channels"]
            images = [np.asarray(Image.open(io.BytesIO(one["bytes"]))) for one in column.to_pylist()]
            frames[name] = np.stack(images)
        else:
            flat = numbers(column)
            assert flat.dtype == np.dtype(feature["dtype"])
            assert not (feature["shape"] == [1] and pa.types.is_nested(column.type))  # LeRobot reads a plain number.
            frames[name] = flat.reshape(len(table), *feature["shape"])
        assert list(frames[name].shape[1:]) == feature["shape"]
    return frames


def episodes_of(folder: Path) -> list[dict[str, Any]]:
    paths = sorted((folder / "meta" / "episodes").glob("*/*.parquet"))
    return pa.concat_tables([pq.read_table(path) for path in paths]).to_pylist()  # type: ignore[no-any-return]


def leaves(value: Any, path: str) -> dict[str, np.ndarray[Any, Any]]:
    """The parts of an observation or action by the name of their feature."""
    if isinstance(value, dict):
        return {name: one for key, item in value.items() for name, one in leaves(item, f"{path}.{key}").items()}
    array = np.asarray(value)
    is_image = array.dtype == np.uint8 and array.ndim == 3
    first, _, rest = path.partition(".")
    if first == "observation":
        path = f"observation.{'images.' * is_image}{rest}" if rest else "observation.state"
    return {path: array}


def expected_of(row: dict[str, Any]) -> dict[str, np.ndarray[Any, Any]]:
    """The features that come from the environment, of one row of the loop."""
    flags = {name: np.bool_(row[name]) for name in ("terminated", "truncated")}
    done = flags["terminated"] | flags["truncated"]
    return {
        **leaves(row["obs"], "observation"),
        **leaves(row["action"], "action"),
        "next.reward": np.float64(row["reward"]),
        "next.done": done,
        **{f"next.{name}": flag for name, flag in flags.items()},
    }


def key(row: dict[str, Any]) -> tuple[int, str, int]:
    return row.get("env", -1), row["agent"], row["episode"]


def ensure_equal(folder: Path, rows: list[dict[str, Any]], fps: float, task: str | None = None) -> None:
    """Raise AssertionError unless the folder has these rows, in LeRobot's layout."""
    info, frames, episodes = info_of(folder), frames_of(folder), episodes_of(folder)
    groups: dict[Any, list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    assert info.keys() == INFO
    assert (info["codebase_version"], info["fps"]) == ("v3.0", fps)
    assert (info["total_frames"], info["total_episodes"]) == (len(rows), len(groups))
    assert info["splits"] == {"train": f"0:{len(groups)}"}
    assert set(expected_of(rows[0])) | set(OWN) == set(frames)
    at = 0
    for number, episode in enumerate(episodes):
        own = {name.removeprefix("recording/"): value for name, value in episode.items() if name.startswith("rec")}
        group = groups.pop((-1 if own["env"] is None else own["env"], own["agent"], own["episode"]))
        assert (episode["episode_index"], episode["length"]) == (number, len(group))
        assert (episode["dataset_from_index"], episode["dataset_to_index"]) == (at, at + len(group))
        assert own["seed"] == (None if group[0]["seed"] is None else str(group[0]["seed"]))
        assert task is None or episode["tasks"] == [task]
        for index, row in enumerate(group):
            for name, value in expected_of(row).items():
                stored = frames[name][at + index]
                assert stored.dtype == value.dtype, name
                assert stored.shape == (value.shape or (1,)), name
                assert stored.tobytes() == value.tobytes(), name
            stored_own = tuple(frames[name][at + index].item() for name in OWN)
            assert stored_own == (np.float32(index / fps), index, number, at + index, 0)
        at += len(group)
    assert not groups
