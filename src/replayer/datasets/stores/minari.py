"""Build Minari data sets from the table of pairs: one episode for each run and agent, one data set for each split.

Those from transitions of environments, which have episodes of their own, are made in minari_episodes.py.

    DIR/fog-v0/data/main_data.hdf5         for "-o fog"; MINARI_DATASETS_PATH=DIR minari.load_dataset("fog-v0")
    DIR/fog-train-v0/data/main_data.hdf5   with splits

The files are HDF5: of long episodes stored as Arrow, Minari 0.5 returns only the beginning (Minari #351).

Invariant: an episode of T actions has T + 1 observations, of ticks without a gap.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import attrs
import gymnasium
import numpy as np
from minari.data_collector.episode_buffer import EpisodeBuffer
from minari.dataset.minari_storage import MinariStorage

from replayer.datasets.dataset import file_table
from replayer.datasets.manifest import PARTS_FORMAT, Tables, described_file
from replayer.datasets.plan import TapeInput
from replayer.datasets.request import ExtractionError
from replayer.datasets.rows.columns import AGENT, Array, Shape
from replayer.datasets.rows.states import RUN, TICK
from replayer.datasets.stores.minari_episodes import ensure_episodes_fit, write_episodes
from replayer.datasets.stores.minari_metadata import DATA_FORMAT, SEED_MAX, dataset_id, describe_dataset
from replayer.datasets.table import DatasetTable, values_of
from replayer.datasets.task import Task
from replayer.datasets.transitions.transition_rows import TRANSITIONS

OBSERVED, DONE, WORTH, THEN = "obs.", "action.", "reward.", "next."


def ensure_fits(task: Task) -> None:
    """Raise ExtractionError if Minari cannot hold what the request asks for."""
    request = task.request
    if task.tables == (TRANSITIONS,):
        ensure_episodes_fit(task)
        return
    if task.tables != ("pairs",):
        others = ", ".join(set(task.tables) - {"pairs", TRANSITIONS}) or "pairs and transitions together"
        raise ExtractionError(
            f"Minari holds only pairs or transitions, not the table {others}: choose one of them with --table, or use parquet"
        )
    if len(request.rewards) != 1:
        names = ", ".join(request.rewards) or "none"
        raise ExtractionError(f"Minari holds one reward per step: expected one reward, got {names} (--reward)")
    if not task.encodings:
        raise ExtractionError(
            "Minari needs actions: give an encoding, since the inputs are not numbers (--action), or use parquet"
        )
    if request.mode == "inputs" or len(request.ranges) > 1:
        cause = "only pairs with inputs" if request.mode == "inputs" else "several ranges of ticks"
        raise ExtractionError(f"an episode of Minari must not have gaps, which {cause} would cause")


def ensure_columns(table: str, columns: Mapping[str, Mapping[str, Any]]) -> None:
    """Raise ExtractionError if Minari cannot hold these columns."""
    if table == TRANSITIONS:
        return  # The spaces were checked before.
    for name, shape in columns.items():
        if shape["is_list"]:
            raise ExtractionError(
                f"Minari holds arrays of one shape, and {name} is a list of any length (table {table}): use parquet"
            )
        if shape["dtype"][1] == "c":
            raise ExtractionError(
                f"Minari has no complex numbers, and {name} has some (table {table}): give an observation of its real "
                "and imaginary parts, or use another format"
            )
        if "/" in name:
            raise ExtractionError(f"Minari cannot hold a column called {name} (table {table}): use parquet")
    for prefix, kind in ((OBSERVED, "observation"), (DONE, "action")):
        if not any(name.startswith(prefix) for name in columns):
            raise ExtractionError(f"Minari needs an {kind} for each step, and the pairs have none: use parquet")


def versions() -> dict[str, str]:
    """Return the versions of the packages that decide the contents of the data sets."""
    return {name: metadata.version(name) for name in ("minari", "h5py")}


def assemble(folder: Path, name: str, tables: Tables, task: Task) -> Tables:
    """Build the data sets from the Arrow files below folder, and return their entries for the manifest.

    Raises ExtractionError if an episode would have a gap, OSError.
    """
    built: Tables = {}
    splits = [split for split, _ in task.request.splits] or [""]
    for table, entry in tables.items():
        identities, listed = [], []
        for split in splits:
            rows = file_table(folder, PARTS_FORMAT, table, entry, split or None)
            identity = dataset_id(name, split)
            if (folder / identity).exists():
                shutil.rmtree(folder / identity)
            if rows.rows:
                own = [source for source in task.sources if source.split == split]
                path = folder.resolve() / identity / "data"  # Minari joins a relative one to itself.
                if table == TRANSITIONS:
                    write_episodes(rows, own, identity, path, task)
                else:
                    _Building(rows, own, identity).write(path)
                identities.append(identity)
                files = sorted(file for file in (folder / identity).rglob("*") if file.is_file())
                listed += [described_file(folder, file) for file in files]
        built[table] = {
            "rows": entry["rows"],
            "columns": entry["columns"],
            "datasets": identities,
            "files": listed,
        }
    return built


@attrs.define
class _Episode:
    """An episode that is being written.

    Attributes:
        number: in the data set. rows: of the episode. written: the number of rows written so far.
        then: the tick at which the last row read so far ends, and the next one has to begin.
    """

    number: int
    rows: int = 0
    written: int = 0
    then: int | None = None


_Key = tuple[str, str]  # A run and an agent.


class _Building:
    """Writes one data set."""

    def __init__(self, table: DatasetTable, sources: Sequence[TapeInput], identity: str) -> None:
        """Raises ExtractionError if an episode has a gap."""
        self._table, self._identity = table, identity
        self._sources = {source.run: source for source in sources}
        shapes = {name: shape for name, shape in table.shapes.items() if shape is not None}
        self._observed = {
            name.removeprefix(OBSERVED): shape for name, shape in shapes.items() if name.startswith(OBSERVED)
        }
        self._done = {name.removeprefix(DONE): shape for name, shape in shapes.items() if name.startswith(DONE)}
        [self._reward] = [name for name in shapes if name.startswith(WORTH)]
        self._episodes = self._find_episodes()

    def _find_episodes(self) -> dict[_Key, _Episode]:
        """Find all episodes, in the order in which they begin. Raises ExtractionError if one has a gap."""
        episodes: dict[_Key, _Episode] = {}
        for batch in self._table.select(RUN, TICK, AGENT, "ticks"):
            columns = {name: values_of(batch, name, self._table.shapes[name]) for name in batch.schema.names}
            for run, tick, agent, ticks in zip(*(columns[name] for name in (RUN, TICK, AGENT, "ticks")), strict=True):
                episode = episodes.setdefault((str(run), str(agent)), _Episode(len(episodes)))
                if episode.then is not None and tick != episode.then:
                    raise ExtractionError(
                        f"{self._sources[str(run)].name}{f', agent {agent}' if agent else ''}: the pairs from tick "
                        f"{episode.then:,} to {tick:,} are missing, and an episode of Minari must not have gaps: give "
                        "--ticks without them, or use parquet"
                    )
                episode.rows, episode.then = episode.rows + 1, int(tick + ticks)
        return episodes

    def write(self, path: Path) -> None:
        """Write the data set at path, batch by batch. Raises OSError."""
        path.mkdir(parents=True)
        storage = MinariStorage.new(
            path,
            observation_space=_space(self._observed),
            action_space=_space(self._done),
            data_format=DATA_FORMAT,
            jpeg_encoding=False,  # Pixels must come back as they were.
        )
        storage.update_metadata(self._metadata())
        storage.update_episodes(self._pieces())
        storage.update_episode_metadata(
            [self._about(key, episode) for key, episode in self._episodes.items()], range(len(self._episodes))
        )

    def _pieces(self) -> Iterator[EpisodeBuffer]:
        """Yield episodes in pieces, one per batch; Minari joins the pieces of one number."""
        for batch in self._table:
            columns = {name: values_of(batch, name, shape) for name, shape in self._table.shapes.items()}
            runs, agents = np.asarray(columns[RUN]), np.asarray(columns[AGENT])
            for run, agent in dict.fromkeys(zip(runs.tolist(), agents.tolist(), strict=True)):
                mask = (runs == run) & (agents == agent)
                own = {name: np.asarray(values)[mask] for name, values in columns.items()}
                yield self._piece(self._episodes[run, agent], run, own)

    def _piece(self, episode: _Episode, run: str, own: dict[str, Array]) -> EpisodeBuffer:
        """Make a piece. The first one begins with the first observation; all hold the observations after each action."""
        is_first = episode.written == 0

        def with_first(first: Array, then: Array) -> Array:
            return np.concatenate([first[:1], then]) if is_first else then

        seen = {name: with_first(own[OBSERVED + name], own[THEN + name]) for name in self._observed}
        done = {name: own[DONE + name] for name in self._done}
        ticks = {"tick": with_first(own[TICK], own[TICK] + own["ticks"])}
        terminated, truncated = own["terminated"].copy(), own["truncated"].copy()
        episode.written += len(terminated)
        if episode.written == episode.rows and not terminated[-1]:
            truncated[-1] = True  # The run continues, but not in this data set.
        return EpisodeBuffer(
            id=episode.number,
            seed=_seed(self._sources[run]) if is_first else None,
            observations=_plain(seen),
            actions=_plain(done),
            rewards=own[self._reward],
            terminations=terminated,
            truncations=truncated,
            infos=ticks,
        )

    def _about(self, key: _Key, episode: _Episode) -> dict[str, Any]:
        """Return the attributes of an episode. Until total_steps is set here, it is that of the last piece."""
        run, agent = key
        source = self._sources[run]
        return {
            "total_steps": episode.rows,
            "run": run,
            "agent": agent,
            "tape": source.path.name,
            "reason": source.reason if episode.then == source.last_tick else "",
            "outcome": source.outcome(agent),
        }

    def _metadata(self) -> dict[str, Any]:
        agents = {agent for _, agent in self._episodes}
        return describe_dataset(self._identity, list(self._sources.values()), agents, self._description())

    def _description(self) -> str:
        worlds = dict.fromkeys(
            "the user's own simulation" if source.world is None else f"the world {source.world['name']}"
            for source in self._sources.values()
        )
        return (
            f"Recordings of {', '.join(worlds)}: {len(self._episodes)} episodes of {len(self._sources)} runs, one for "
            f"each run and agent. The reward is {self._reward.removeprefix(WORTH)}."
        )


def _seed(source: TapeInput) -> int | None:
    """Return the run's seed, if its world's configuration has one."""
    seed = source.world["config"].get("seed") if source.world is not None else None
    return seed if type(seed) is int and 0 <= seed <= SEED_MAX else None


def _plain(arrays: dict[str, Array]) -> Any:
    return next(iter(arrays.values())) if len(arrays) == 1 else arrays


def _space(shapes: Mapping[str, Shape]) -> gymnasium.Space[Any]:
    """Make a space of all values of the dtypes, since the world's own limits are unknown."""
    boxes = {name: _box(shape) for name, shape in shapes.items()}
    return next(iter(boxes.values())) if len(boxes) == 1 else gymnasium.spaces.Dict(boxes)  # type: ignore[arg-type]


def _box(shape: Shape) -> gymnasium.spaces.Box:
    dtype = np.dtype(shape.dtype)
    if dtype.kind == "b":
        return gymnasium.spaces.Box(0, 1, shape.shape, np.bool_)  # type: ignore[arg-type]
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return gymnasium.spaces.Box(limits.min, limits.max, shape.shape, dtype.type)
    return gymnasium.spaces.Box(-np.inf, np.inf, shape.shape, dtype.type)
