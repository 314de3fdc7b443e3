"""Build a LeRobotDataset of version 3.0 from transitions: one episode for each episode of an environment and agent.

    DIR/meta/info.json, stats.json, tasks.parquet, episodes/chunk-000/file-000.parquet
    DIR/data/chunk-000/file-000.parquet

A frame is an observation, the action that followed, and the reward and the flags which that step returned.

Invariant: the frames of an episode are all in one file, in order, without a gap.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pyarrow as pa

from recorder.storage.atomic_file import write_file
from replayer.datasets.dataset import file_table
from replayer.datasets.manifest import PARTS_FORMAT, Tables, described_file
from replayer.datasets.request import ExtractionError
from replayer.datasets.rows.columns import Array
from replayer.datasets.stores.episode_rows import EpisodeRows, about_origin, episodes_of
from replayer.datasets.stores.lerobot_features import (
    ENDED,
    EPISODE_INDEX,
    FRAME,
    INDEX,
    TASK_INDEX,
    TIMESTAMP,
    Feature,
    data_schema,
    features_of,
)
from replayer.datasets.stores.lerobot_files import CHUNK_FILES, FILE_MIB, FileLocation, NumberedFiles, write_tasks
from replayer.datasets.stores.lerobot_statistics import FeatureStatistics, statistics_of, statistics_types
from replayer.datasets.table import DatasetTable
from replayer.datasets.task import Task
from replayer.datasets.transitions.transition import EnvironmentFacts
from replayer.datasets.transitions.transition_rows import ENDS, ENVIRONMENT, TRANSITIONS, WORTH

VERSION = "v3.0"
DEFAULT_FPS = 30.0
META, DATA = "meta", "data"
_PATHS = "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"  # As LeRobot fills it in.
_ORIGIN = "recording/"  # The prefix of the columns of ours in the table of episodes.
_ORIGIN_TYPES = {
    "run": pa.string(),
    "tape": pa.string(),
    "agent": pa.string(),
    "env": pa.int64(),
    "episode": pa.int64(),
    "seed": pa.string(),  # Of any size.
    "end": pa.string(),
}


def ensure_fits(task: Task) -> None:
    """Raise ExtractionError if LeRobot cannot hold what the request asks for."""
    if task.tables != (TRANSITIONS,):
        others = ", ".join(table for table in task.tables if table != TRANSITIONS)
        raise ExtractionError(f"LeRobot holds only transitions, not the table {others}: use parquet")
    if task.request.info:
        raise ExtractionError("infos are not written for LeRobot: leave --info out, or use parquet")
    if len(task.request.ranges) > 1:
        raise ExtractionError("an episode of LeRobot must not have gaps, which several ranges of ticks would cause")
    _features(task)
    _fps(task)


def ensure_columns(table: str, columns: Mapping[str, Mapping[str, Any]]) -> None:
    """The columns were checked before: this does nothing."""


def versions() -> dict[str, str]:
    """Return the versions of the packages that decide the contents of the files."""
    return {name: metadata.version(name) for name in ("pyarrow", "pillow")}


def assemble(folder: Path, name: str, tables: Tables, task: Task) -> Tables:  # noqa: ARG001 - the name is the folder's
    """Build the data set from the Arrow files below folder, and return its entry for the manifest.

    Raises ExtractionError if an episode would have a gap, OSError.
    """
    for own in (META, DATA):
        if (folder / own).exists():
            shutil.rmtree(folder / own)
    if TRANSITIONS not in tables:
        return {}  # No rows.
    entry = tables[TRANSITIONS]
    splits = {
        split or "train": file_table(folder, PARTS_FORMAT, TRANSITIONS, entry, split or None)
        for split in [split for split, _ in task.request.splits] or [""]
    }
    fps, origin = _fps(task)
    _Building(folder, task, fps, has_reward=_has_reward(splits.values())).write(splits)
    files = sorted(file for own in (META, DATA) for file in (folder / own).rglob("*") if file.is_file())
    about = {"rows": entry["rows"], "columns": entry["columns"], "fps": _number(fps), "fps_from": origin}
    return {TRANSITIONS: {**about, "files": [described_file(folder, file) for file in files]}}


def _features(task: Task) -> list[Feature]:
    assert task.columns is not None
    has_agents = any(facts.kind in ("parallel", "turns", "agents") for facts in task.environments)
    hints = ["choose agents whose values have one shape (--agent)"] if has_agents else []
    hints += ["extract the tapes one by one"] if len(task.sources) > 1 else []
    return features_of(task.columns.forms, hints)


def _has_reward(tables: Iterable[DatasetTable]) -> bool:
    """Return False if no row has a reward, as of a simulation that does not tell it."""
    names = [(table, name) for table in tables for name in table.shapes if name.partition(".")[0] == WORTH]
    return any(batch.column(name).null_count < batch.num_rows for table, name in names for batch in table.select(name))


def _fps(task: Task) -> tuple[float, str]:
    """The frames per second, and where the number is from. Raises ExtractionError if the tapes differ."""
    if task.fps is not None:
        return task.fps, "given"
    known = {facts.render_fps: facts.title for facts in task.environments}
    if len(known) > 1:
        listed = ", ".join(f"{'unknown' if rate is None else f'{rate:g}'} of {title}" for rate, title in known.items())
        raise ExtractionError(f"a data set of LeRobot has one rate of frames, and render_fps is {listed}: give --fps")
    [rate] = known
    return (DEFAULT_FPS, "default") if rate is None else (rate, "render_fps of the environment")


def _number(value: float) -> int | float:
    """A number for JSON, without a point if it is whole: LeRobot prints it."""
    return int(value) if value == int(value) else value


@attrs.define
class _Numbers:
    """The numbers of the next frame and episode."""

    frame: int = 0
    episode: int = 0


class _Building:
    """A data set that is being written."""

    def __init__(self, folder: Path, task: Task, fps: float, *, has_reward: bool) -> None:
        self._folder, self._fps = folder, fps
        self._features = [one for one in _features(task) if has_reward or one.column.partition(".")[0] != WORTH]
        self._sources = {source.run: source for source in task.sources}
        tasks = _tasks_of(task.environments)
        self._tasks = list(dict.fromkeys(tasks))
        self._task_of_run = {source.run: one for source, one in zip(task.sources, tasks, strict=True)}
        self._all: dict[str, FeatureStatistics] = {one.name: statistics_of(one) for one in self._features}
        self._next = _Numbers()

    def write(self, splits: Mapping[str, DatasetTable]) -> None:
        """Write all files. splits: the transitions by the name of their split. Raises ExtractionError, OSError."""
        ranges = {}
        schema = self._episodes_schema()
        with (
            NumberedFiles(self._folder / DATA, data_schema(self._features), (EPISODE_INDEX, INDEX, TASK_INDEX)) as data,
            NumberedFiles(self._folder / META / "episodes", schema, (EPISODE_INDEX,)) as about,
        ):
            for split, table in splits.items():
                first = self._next.episode
                for episode in episodes_of(table, "LeRobot"):
                    row = self._write_episode(episode, data)
                    row |= _location(f"{META}/episodes", about.location)
                    about.add(pa.Table.from_pylist([row], schema=schema))
                ranges[split] = f"{first}:{self._next.episode}"
            data.finish()
            about.finish()
        write_tasks(self._folder / META / "tasks.parquet", self._tasks)
        statistics = {name: _plain(one) for name, one in self._all.items()}
        write_file(self._folder / META / "stats.json", json.dumps(statistics, indent=4) + "\n", existing="replace")
        info = json.dumps(self._info(ranges), indent=4, ensure_ascii=False) + "\n"
        write_file(self._folder / META / "info.json", info, existing="replace")

    def _write_episode(self, episode: EpisodeRows, data: NumberedFiles) -> dict[str, Any]:
        """Write the frames of an episode; return its row for the table of episodes, without the place of that row."""
        episode.ensure_complete()
        location, numbers = data.location, self._next
        first, count, task = numbers.frame, len(episode), self._task_of_run[episode.run]
        values = self._values(episode, task)
        columns, statistics = [], {}
        for feature in self._features:
            columns.append(feature.to_arrow(values[feature.name]))
            self._all[feature.name].add(values[feature.name])
            own = statistics_of(feature)
            own.add(values[feature.name])
            for name, one in _plain(own).items():
                statistics[f"stats/{feature.name}/{name}"] = one
        data.add(pa.Table.from_arrays(columns, schema=data_schema(self._features)))
        self._next = _Numbers(first + count, numbers.episode + 1)
        seed = None if episode.seed is None else str(episode.seed)
        origin = {**about_origin(episode, self._sources), "seed": seed}
        origin.pop(ENVIRONMENT, None)  # The task tells it.
        return {
            EPISODE_INDEX: numbers.episode,
            "tasks": [task],
            "length": count,
            **_location(DATA, location),
            "dataset_from_index": first,
            "dataset_to_index": first + count,
            **statistics,
            **{f"{_ORIGIN}{name}": one for name, one in origin.items()},
        }

    def _values(self, episode: EpisodeRows, task: str) -> dict[str, Array]:
        """The values of all features in the frames of an episode."""
        count = len(episode)
        frames = np.arange(count)
        terminated, truncated = (episode.column(name) for name in ENDS)
        values = {one.name: episode.column(one.column) for one in self._features if one.column}
        values[ENDED] = terminated | truncated
        values[TIMESTAMP] = (frames / self._fps).astype(np.float32)
        values[FRAME], values[INDEX] = frames, frames + self._next.frame
        values[EPISODE_INDEX] = np.full(count, self._next.episode)
        values[TASK_INDEX] = np.full(count, self._tasks.index(task))
        return values

    def _episodes_schema(self) -> pa.Schema:
        types: dict[str, pa.DataType] = {
            EPISODE_INDEX: pa.int64(),
            "tasks": pa.list_(pa.string()),
            "length": pa.int64(),
            **dict.fromkeys(_location(DATA, FileLocation(0, 0)), pa.int64()),
            "dataset_from_index": pa.int64(),
            "dataset_to_index": pa.int64(),
        }
        for feature in self._features:
            types |= {f"stats/{feature.name}/{name}": one for name, one in statistics_types(feature).items()}
        types |= dict.fromkeys(_location(f"{META}/episodes", FileLocation(0, 0)), pa.int64())
        return pa.schema(types | {f"{_ORIGIN}{name}": one for name, one in _ORIGIN_TYPES.items()})

    def _info(self, splits: Mapping[str, str]) -> dict[str, Any]:
        return {
            "codebase_version": VERSION,
            "robot_type": None,
            "total_episodes": self._next.episode,
            "total_frames": self._next.frame,
            "total_tasks": len(self._tasks),
            "chunks_size": CHUNK_FILES,
            "data_files_size_in_mb": FILE_MIB,
            "video_files_size_in_mb": 2 * FILE_MIB,
            "fps": _number(self._fps),
            "splits": dict(splits),
            "data_path": _PATHS,
            "video_path": None,
            "features": {feature.name: feature.plain() for feature in self._features},
        }


def _location(prefix: str, location: FileLocation) -> dict[str, int]:
    return {f"{prefix}/chunk_index": location.chunk, f"{prefix}/file_index": location.file}


def _plain(statistics: FeatureStatistics) -> dict[str, Any]:
    return {name: array.tolist() for name, array in statistics.arrays().items()}


def _tasks_of(environments: Sequence[EnvironmentFacts]) -> list[str]:
    """The task of each tape: the title of its environment, with the arguments where these alone tell environments apart."""
    titles, labels = ([getattr(facts, name) for facts in environments] for name in ("title", "label"))
    is_enough = len(set(titles)) == len(set(labels))
    return [title or "recorded" for title in titles] if is_enough else labels
