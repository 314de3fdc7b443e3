"""Tapes as lazy xarray data sets: a variable for each field, whose ticks are sought and simulated when it is sliced.

    xarray.open_dataset("run.tape", engine="tape")["biotope.flow"].sel(tick=450)

Invariant: each value is of a state that has the recorded hash; what cannot be had raises, and is never made up.
"""

from __future__ import annotations

import collections
import os
import threading
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import numpy.typing as npt
import xarray
from xarray.backends import BackendArray, BackendEntrypoint
from xarray.core import indexing

from recorder.errors import CorruptError, MissingTickError, TornError
from recorder.format.blocks.file_header import MAGIC
from replayer.datasets.request import ExtractionError
from replayer.datasets.rows.states import chosen_slots
from replayer.playback.make_simulation import Factory, make_simulation
from replayer.tape.tape import Tape
from replayer.timeline.timeline import Timeline
from sim.kernel.registry import find_world
from sim.kernel.schema import Blob, Layout, Table
from sim.kernel.simulation import SCENARIO_PREFIX
from sim.kernel.state import Snapshot

TICK = "tick"
CACHE_BYTES = 256 << 20
SUFFIX = ".tape"

Array = npt.NDArray[Any]


class TapeBackend(BackendEntrypoint):  # type: ignore[misc]
    """The xarray engine "tape"."""

    description = "Recordings of simulations: fields over ticks, sought and simulated when they are sliced"

    def guess_can_open(self, filename_or_obj: Any) -> bool:
        """Whether this is the path of a tape, by its name or its first bytes."""
        if not isinstance(filename_or_obj, str | os.PathLike):
            return False
        path = Path(filename_or_obj)
        if path.suffix == SUFFIX:
            return True
        try:
            with path.open("rb") as file:
                return file.read(len(MAGIC)) == MAGIC
        except OSError:
            return False

    def open_dataset(  # type: ignore[override, unused-ignore]
        self,
        filename_or_obj: Any,
        *,
        drop_variables: str | Iterable[str] | None = None,
        world: Factory | None = None,
        rows: Mapping[str, int] | None = None,
        dims: Mapping[str, Sequence[str]] | None = None,
        cache_bytes: int = CACHE_BYTES,
    ) -> xarray.Dataset:
        """A lazy data set of a tape, with the coordinate tick of all ticks that have what it takes to seek them.

        world: makes the simulation, for tapes that name no registered world. rows: for tables, how many rows their columns
        are to have; what is above the live ones is zeros, and a state with more of them raises. Tables that are not named
        here are left out, see the attribute left_out; how many live rows each has is the variable TABLE.count. dims: names
        of the axes of a field, the one of ticks not included. cache_bytes: states kept, so that several variables at the
        same ticks are simulated once.

        Raises ExtractionError for tables and fields that there are not, and what opening a tape raises.
        """
        dropped = {drop_variables} if isinstance(drop_variables, str) else set(drop_variables or ())
        path = Path(filename_or_obj)
        with Tape(path) as tape:
            _distrust_if_damaged(tape)
            make_simulation(tape, world)  # What does not fit is told now, and not when a variable is sliced.
            state = _first_state(tape)
            ticks, lost = _reachable(tape)
            attributes = _describe(tape) | {"missing_ticks": [f"{first}..{last}" for first, last in lost]}
            chunks = _chunks(tape, ticks)
            map_shape = _map_shape(tape, state) if world is None else None
        fields, left_out = _fields(state.layout, rows or {})
        names = _dims(fields, dims or {}, map_shape)
        states = States(path, world, cache_bytes)
        variables = {}
        for name, field in fields.items():
            if name not in dropped:
                lazy = indexing.LazilyIndexedArray(_LazyField(states, ticks, field))
                encoding = {"preferred_chunks": {TICK: chunks}}
                variables[name] = xarray.Variable((TICK, *names[name]), lazy, encoding=encoding)
        made = xarray.Dataset(variables, {TICK: ((TICK,), ticks)}, attributes | {"left_out": left_out})
        made.set_close(states.close)
        return made


@attrs.frozen
class _Field:
    """A variable at one tick.

    Attributes:
        source: the name of the field, or of the table whose live rows are counted.
        dtype, shape: of the variable at one tick.
        table: whose column it is; None for a field of fixed size. is_count: whether it is the count of a table.
    """

    source: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...] = ()
    table: str | None = None
    is_count: bool = False

    def of(self, tick: int, state: Snapshot) -> Array | int:
        """Its value. Raises ExtractionError for what is not of this dtype and shape."""
        if self.is_count:
            return state.count(self.source)
        if self.source not in state:
            raise ExtractionError(f"tick {tick:,}: there is no field {self.source}, as there was at first")
        value = state[self.source]
        if self.table is not None and value.shape[1:] == self.shape[1:]:
            if len(value) > self.shape[0]:
                raise ExtractionError(
                    f"tick {tick:,}: {self.table} has {len(value):,} rows: "
                    f'give rows={{"{self.table}": {len(value)}}} or more, or drop the variable {self.source}'
                )
            padded = np.zeros(self.shape, value.dtype)
            padded[: len(value)] = value
            value = padded
        if (value.shape, value.dtype) != (self.shape, self.dtype):
            raise ExtractionError(
                f"tick {tick:,}: {self.source} is {value.dtype} {value.shape}, and was {self.dtype} {self.shape} at first"
            )
        return value


class _LazyField(BackendArray):  # type: ignore[misc]
    """A variable over all ticks, as xarray slices it."""

    def __init__(self, states: States, ticks: Array, field: _Field) -> None:
        self._states, self._ticks, self._field = states, ticks, field
        self.shape, self.dtype = (len(ticks), *field.shape), field.dtype

    def __getitem__(self, key: indexing.ExplicitIndexer) -> Any:
        return indexing.explicit_indexing_adapter(key, self.shape, indexing.IndexingSupport.OUTER, self._read)

    def _read(self, key: tuple[Any, ...]) -> Array:
        ticks = self._ticks[key[0]]
        found = self._states.read(np.atleast_1d(ticks), self._field, key[1:])
        return found if ticks.ndim else found[0]


class States:
    """The states of a tape by tick, from memory or by seeking. Pickles as the tape's path, for other processes."""

    def __init__(self, path: Path, world: Factory | None, cache_bytes: int) -> None:
        self._path, self._world, self._cache_bytes = path, world, cache_bytes
        self._timeline: Timeline | None = None
        self._kept: collections.OrderedDict[int, tuple[int, Snapshot]] = collections.OrderedDict()
        self._bytes, self._reads = 0, 0
        self._lock = threading.Lock()  # Schedulers read chunks in threads, and a timeline is one simulation.

    def __reduce__(self) -> tuple[type[States], tuple[Path, Factory | None, int]]:
        return States, (self._path, self._world, self._cache_bytes)

    def read(self, ticks: Array, field: _Field, key: tuple[Any, ...]) -> Array:
        """What key chooses of a field at each of these ticks, (ticks, ...).

        Raises as Timeline.at does, and ExtractionError for a value of another shape.
        """
        wanted, places = np.unique(ticks, return_inverse=True)  # Ascending, each once: no tick is simulated twice.
        with self._lock:
            self._reads += 1
            values = [
                _chosen(np.asarray(field.of(tick, self._state(tick)), field.dtype), key) for tick in wanted.tolist()
            ]
        if not values:
            return np.empty((0, *_chosen(np.empty(field.shape, field.dtype), key).shape), field.dtype)
        found: Array = np.stack(values)
        return found if np.array_equal(wanted, ticks) else found[places]

    def _state(self, tick: int) -> Snapshot:
        if tick in self._kept:
            state = self._kept.pop(tick)[1]
            self._kept[tick] = (self._reads, state)
            return state
        if self._timeline is None:
            self._timeline = Timeline(self._path, self._world)
            _distrust_if_damaged(self._timeline.tape)
        state = self._timeline.at(tick)
        # What this very read has kept stays: the next variable at the same ticks finds that much.
        while self._kept and self._bytes + state.arena.nbytes > self._cache_bytes:
            oldest, (read, other) = next(iter(self._kept.items()))
            if read == self._reads:
                return state
            del self._kept[oldest]
            self._bytes -= other.arena.nbytes
        if state.arena.nbytes <= self._cache_bytes:
            self._kept[tick] = (self._reads, state)
            self._bytes += state.arena.nbytes
        return state

    def close(self) -> None:
        """Close the tape and forget the states."""
        with self._lock:
            self._kept.clear()
            self._bytes = 0
            if self._timeline is not None:
                self._timeline.close()
                self._timeline = None


def _chosen(value: Array, key: tuple[Any, ...]) -> Array:
    """What a key chooses of a value, each axis by itself; always a copy, which does not keep a whole state in memory."""
    for axis in reversed(range(len(key))):
        value = value[(slice(None),) * axis + (key[axis],)]
    return value.copy()


def _distrust_if_damaged(tape: Tape) -> None:
    """What the index of a damaged tape hides may be there."""
    if tape.status == "corrupt":
        tape.distrust_index()


def _first_state(tape: Tape) -> Snapshot:
    """Raises MissingTickError if no keyframe can be read."""
    for place in tape.keyframes:
        try:
            return tape.snapshot(place)
        except (CorruptError, TornError):
            continue  # Whoever slices at its tick hears of it.
    raise MissingTickError(tape.first_tick, "no keyframe can be read", damaged=True)


def _reachable(tape: Tape) -> tuple[Array, list[tuple[int, int]]]:
    """The ticks to which frames lead from a keyframe, and the ranges of those to which they do not."""
    first_tick, last_tick = tape.first_tick, tape.last_tick
    lost = []
    for first, last in tape.missing_ticks():
        tick = first
        while tick <= last:
            keyframe = tape.keyframe_after(tick)
            end = keyframe.tick if keyframe is not None else last_tick + 1
            if end > tick:
                lost.append((tick, end - 1))
            tick = end + 1
    ticks = np.arange(first_tick, last_tick + 1)
    is_there = np.ones(len(ticks), np.bool_)
    for first, last in lost:
        is_there[first - first_tick : last - first_tick + 1] = False
    return ticks[is_there], lost


def _chunks(tape: Tape, ticks: Array) -> tuple[int, ...]:
    """How many ticks there are from each keyframe to the next: what is simulated in one go."""
    starts = np.searchsorted(ticks, [place.tick for place in tape.keyframes])
    sizes = np.diff([0, *starts[1:], len(ticks)])
    return tuple(int(size) for size in sizes if size)


def _describe(tape: Tape) -> dict[str, Any]:
    """What the tape says of its run, as far as it is of the kind that it should be."""
    meta = tape.meta
    world = meta.get("world")
    world = world if isinstance(world, dict) else {}
    config = world.get("config")
    config = config if isinstance(config, dict) else {}
    told = {
        "run": tape.run_id,
        "status": tape.status,
        "simulation": meta.get("simulation"),
        "world": world.get("name"),
        "world_version": world.get("version"),
        "scenario": config.get("name"),
        "seed": config.get("seed"),
    }
    return {name: value for name, value in told.items() if isinstance(value, str | int)}


def _map_shape(tape: Tape, state: Snapshot) -> tuple[int, ...] | None:
    """(height, width) of the world's maps, if it has some."""
    world = find_world(tape.meta["world"]["name"])
    return None if world.picture is None else world.picture(state).shape


def _fields(layout: Layout, rows: Mapping[str, int]) -> tuple[dict[str, _Field], list[str]]:
    """The variables by name, and the columns that are left out. Raises ExtractionError for tables that there are not."""
    tables = {entry.name for entry in layout.schema.entries if isinstance(entry, Table)}
    tables = {name for name in tables if not name.startswith(SCENARIO_PREFIX)}
    strange = next((name for name in rows if name not in tables), None)
    if strange is not None:
        raise ExtractionError(f"rows: there is no table {strange}; tables: {', '.join(sorted(tables)) or 'none'}")
    too_few = next((name for name, count in rows.items() if count < 0), None)
    if too_few is not None:
        raise ExtractionError(f"rows: {too_few} cannot have {rows[too_few]}")
    found, left_out = {}, []
    for slot in chosen_slots(layout, ()):
        if slot.owner is None:
            found[f"own.{TICK}" if slot.name == TICK else slot.name] = _Field(slot.name, slot.dtype, slot.shape)
        elif slot.owner in rows:
            shape = (rows[slot.owner], *slot.shape[1:])
            found[slot.name] = _Field(slot.name, slot.dtype, shape, slot.owner)
        else:
            left_out.append(slot.name)
    for table in sorted(tables):
        name = f"{table}.count" if f"{table}.count" not in layout.slots else f"{table}.live_rows"
        found[name] = _Field(table, np.dtype(np.int64), is_count=True)
    left_out += [entry.name for entry in layout.schema.entries if isinstance(entry, Blob)]
    return found, left_out


def _dims(
    fields: Mapping[str, _Field], given: Mapping[str, Sequence[str]], map_shape: tuple[int, ...] | None
) -> dict[str, tuple[str, ...]]:
    """Names of the axes of each variable: as given; y and x for maps; the table for its rows; else by their size.

    Axes of one size have one name, so that fields of one shape can be reckoned with each other.
    Raises ExtractionError for names that do not fit.
    """
    strange = next((name for name in given if name not in fields), None)
    if strange is not None:
        raise ExtractionError(f"dims: there is no variable {strange}; variables: {', '.join(fields)}")
    found = {}
    for name, field in fields.items():
        axes = len(field.shape)
        names = [f"axis_{size}" for size in field.shape]
        if map_shape is not None and axes > 1 and field.shape[-2:] == map_shape:
            names[-2:] = ["y", "x"]
        if field.table is not None:
            names[0] = field.table
        unique = [f"{one}_{names[:axis].count(one)}" if one in names[:axis] else one for axis, one in enumerate(names)]
        wanted = tuple(given.get(name, unique))
        if len(wanted) != axes or len({TICK, *wanted}) != axes + 1:
            raise ExtractionError(f"dims: {name} has shape {field.shape}: {axes} different names were expected")
        found[name] = wanted
    return found
