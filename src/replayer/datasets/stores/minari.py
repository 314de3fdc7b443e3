"""Build Minari data sets out of the table of pairs: one episode for each run and agent, one data set for each split.

    DIR/fog-v0/data/main_data.hdf5         for "-o fog"; MINARI_DATASETS_PATH=DIR minari.load_dataset("fog-v0")
    DIR/fog-train-v0/data/main_data.hdf5   with splits

HDF5, since Minari 0.5 gives back only the beginning of long episodes that are stored as Arrow (Minari #351).

Invariant: an episode of T actions has T + 1 observations, of ticks without a gap.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import attrs
import gymnasium
import minari
import numpy as np
from minari.data_collector.episode_buffer import EpisodeBuffer
from minari.dataset.minari_storage import MinariStorage

from replayer.datasets.dataset import file_table
from replayer.datasets.manifest import PARTS_FORMAT, Tables, described_file
from replayer.datasets.plan import TapeInput, open_source
from replayer.datasets.request import ExtractionError
from replayer.datasets.rows.columns import Array, Shape
from replayer.datasets.rows.states import AGENT, RUN, TICK
from replayer.datasets.table import DatasetTable, values_of
from replayer.datasets.task import Task

DATA_FORMAT = "hdf5"
OBSERVED, DONE, WORTH, THEN = "obs.", "action.", "reward.", "next."
NOTES = ("author", "author_email", "code_permalink", "description", "algorithm_name")  # Of a tape, which go in.
_SEED_MAX = (1 << 63) - 1  # What an attribute of HDF5 holds.


def ensure_fits(task: Task) -> None:
    """Raises ExtractionError if the request asks for what Minari cannot hold."""
    request = task.request
    if task.tables != ("pairs",):
        raise ExtractionError(f"Minari holds pairs, and no table {', '.join(set(task.tables) - {'pairs'})}")
    if len(request.rewards) != 1:
        given = ", ".join(request.rewards) or "none"
        raise ExtractionError(f"Minari holds one reward a step; asked for: {given}")
    if not task.encodings:
        raise ExtractionError("Minari holds actions: give an encoding of them, since the inputs are no numbers")
    if request.mode == "inputs" or len(request.ranges) > 1:
        what = "only pairs with inputs" if request.mode == "inputs" else "several ranges of ticks"
        raise ExtractionError(f"an episode of Minari has no gaps, which {what} would leave in it")


def ensure_columns(table: str, columns: Mapping[str, Mapping[str, Any]]) -> None:
    """Raises ExtractionError if Minari cannot hold these."""
    for name, shape in columns.items():
        if shape["is_list"]:
            raise ExtractionError(
                f"Minari holds arrays of one shape, and {name} is a list of any length (table {table})"
            )
        if "/" in name:
            raise ExtractionError(f"Minari cannot hold a column called {name} (table {table})")
    for start, what in ((OBSERVED, "observation"), (DONE, "action")):
        if not any(name.startswith(start) for name in columns):
            raise ExtractionError(f"Minari holds an {what} for each step, and the pairs have none")


def versions() -> dict[str, str]:
    """Of the packages that decide what the data sets hold."""
    return {name: metadata.version(name) for name in ("minari", "h5py")}


def assemble(folder: Path, name: str, tables: Tables, task: Task) -> Tables:
    """Build the data sets out of the Arrow files below folder; what the manifest says of them.

    Raises ExtractionError if an episode would have a gap, OSError.
    """
    built: Tables = {}
    splits = [split for split, _ in task.request.splits] or [""]
    for table, told in tables.items():
        identities, listed = [], []
        for split in splits:
            rows = file_table(folder, PARTS_FORMAT, table, told, split or None)
            identity = dataset_id(name, split)
            if (folder / identity).exists():
                shutil.rmtree(folder / identity)
            if rows.rows:
                own = [source for source in task.sources if source.split == split]
                path = folder.resolve() / identity / "data"  # Minari joins a relative one to itself.
                _Building(rows, own, identity).write(path)
                identities.append(identity)
                found = sorted(file for file in (folder / identity).rglob("*") if file.is_file())
                listed += [described_file(folder, file) for file in found]
        built[table] = {
            "rows": told["rows"],
            "columns": told["columns"],
            "datasets": identities,
            "files": listed,
        }
    return built


def dataset_id(name: str, split: str) -> str:
    """The id of a data set in a folder of this name: without what ids cannot have, and with a version, which they must."""
    stem, version = re.fullmatch(r"(.*?)(-v\d+)?", name, re.DOTALL).groups()  # type: ignore[union-attr]
    stem = re.sub(r"[^A-Za-z0-9_-]+", "-", stem).strip("-") or "data"
    return f"{stem}{'-' if split else ''}{split}{version or '-v0'}"


@attrs.define
class _Episode:
    """An episode that is being written.

    Attributes:
        number: among those of the data set. rows: of it. written: so many of them so far.
        then: the tick at which the last row that was looked at ends, and another one would begin.
    """

    number: int
    rows: int = 0
    written: int = 0
    then: int | None = None


_Key = tuple[str, str]  # A run and an agent.


class _Building:
    """Writes one data set."""

    def __init__(self, table: DatasetTable, sources: Sequence[TapeInput], identity: str) -> None:
        """Raises ExtractionError if there is a gap."""
        self._table, self._identity = table, identity
        self._sources = {source.run: source for source in sources}
        shapes = {name: shape for name, shape in table.shapes.items() if shape is not None}
        self._observed = {name.removeprefix(OBSERVED): one for name, one in shapes.items() if name.startswith(OBSERVED)}
        self._done = {name.removeprefix(DONE): one for name, one in shapes.items() if name.startswith(DONE)}
        [self._reward] = [name for name in shapes if name.startswith(WORTH)]
        self._episodes = self._look_over()

    def _look_over(self) -> dict[_Key, _Episode]:
        """All episodes, in the order in which they begin. Raises ExtractionError if one has a gap."""
        found: dict[_Key, _Episode] = {}
        for batch in self._table.select(RUN, TICK, AGENT, "ticks"):
            columns = {name: values_of(batch, name, self._table.shapes[name]) for name in batch.schema.names}
            for run, tick, agent, ticks in zip(*(columns[name] for name in (RUN, TICK, AGENT, "ticks")), strict=True):
                episode = found.setdefault((str(run), str(agent)), _Episode(len(found)))
                if episode.then is not None and tick != episode.then:
                    raise ExtractionError(
                        f"{self._sources[str(run)].name}{f', agent {agent}' if agent else ''}: the pairs from tick "
                        f"{episode.then:,} to {tick:,} are missing, and an episode of Minari has no gaps: give --ticks "
                        "without them, or use parquet"
                    )
                episode.rows, episode.then = episode.rows + 1, int(tick + ticks)
        return found

    def write(self, path: Path) -> None:
        """Make the data set at path, batch by batch. Raises OSError."""
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
        """Episodes in pieces, each as long as a batch has rows of it; those of one number are put together."""
        for batch in self._table:
            columns = {name: values_of(batch, name, shape) for name, shape in self._table.shapes.items()}
            runs, agents = np.asarray(columns[RUN]), np.asarray(columns[AGENT])
            for run, agent in dict.fromkeys(zip(runs.tolist(), agents.tolist(), strict=True)):
                mask = (runs == run) & (agents == agent)
                own = {name: np.asarray(values)[mask] for name, values in columns.items()}
                yield self._piece(self._episodes[run, agent], run, own)

    def _piece(self, episode: _Episode, run: str, own: dict[str, Array]) -> EpisodeBuffer:
        """The first piece brings the first observation; the others are those after each action."""
        is_first = episode.written == 0

        def along(first: Array, then: Array) -> Array:
            return np.concatenate([first[:1], then]) if is_first else then

        seen = {name: along(own[OBSERVED + name], own[THEN + name]) for name in self._observed}
        done = {name: own[DONE + name] for name in self._done}
        ticks = {"tick": along(own[TICK], own[TICK] + own["ticks"])}
        terminated, truncated = own["terminated"].copy(), own["truncated"].copy()
        episode.written += len(terminated)
        if episode.written == episode.rows and not terminated[-1]:
            truncated[-1] = True  # The run goes on, but not here.
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
        """Attributes of an episode. The total is that of its last piece until it is set here."""
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
        """What the tapes say of who made this, and how; what they do not say is left out."""
        notes: dict[str, list[str]] = {}
        policies: dict[str, None] = {}
        for source in self._sources.values():
            with open_source(source) as tape:
                given = tape.meta.get("notes")
            own = given if isinstance(given, dict) else {}
            for name in NOTES:
                if isinstance(own.get(name), str) and own[name] not in notes.setdefault(name, []):
                    notes[name].append(own[name])
            players = own.get("players")
            for agent, policy in (players if isinstance(players, dict) else {}).items():
                if any(agent == acting for _, acting in self._episodes):
                    policies[f"{agent}={policy}"] = None
        if policies:
            notes.setdefault("algorithm_name", list(policies))
        notes.setdefault("description", [self._description()])
        people = {name: {", ".join(texts)} for name, texts in notes.items() if name.startswith("author")}
        texts = {name: ", ".join(texts) for name, texts in notes.items()}
        return {"dataset_id": self._identity, "minari_version": minari.__version__} | texts | people

    def _description(self) -> str:
        worlds = dict.fromkeys(
            "a simulation of the user's" if one.world is None else f"the world {one.world['name']}"
            for one in self._sources.values()
        )
        return (
            f"Recordings of {', '.join(worlds)}: {len(self._episodes)} episodes of {len(self._sources)} runs, one for "
            f"each run and agent. The reward is {self._reward.removeprefix(WORTH)}."
        )


def _seed(source: TapeInput) -> int | None:
    """The run's, if its world's configuration names one."""
    seed = source.world["config"].get("seed") if source.world is not None else None
    return seed if type(seed) is int and 0 <= seed <= _SEED_MAX else None


def _plain(arrays: dict[str, Array]) -> Any:
    return next(iter(arrays.values())) if len(arrays) == 1 else arrays


def _space(shapes: Mapping[str, Shape]) -> gymnasium.Space[Any]:
    """All values that the dtypes can have, since nobody says which ones the world can give."""
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
