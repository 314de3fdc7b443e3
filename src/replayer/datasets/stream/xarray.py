"""Tapes as lazy xarray data sets: a variable for each field. Slicing it seeks and simulates the ticks.

    xarray.open_dataset("run.tape", engine="tape")["biotope.flow"].sel(tick=450)

Invariant: each value is of a state with the recorded hash. A state that cannot be reached raises.
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

    description = "Recordings of simulations: fields over ticks, simulated when they are sliced"

    def guess_can_open(self, filename_or_obj: Any) -> bool:
        """Return True for the path of a tape, by its suffix or its first bytes."""
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
        """Open a tape as a lazy data set. Its coordinate tick has all ticks that a keyframe and frames lead to.

        world: makes the simulation, for tapes that name no registered world. rows: the number of rows of a table's
        columns; rows beyond the live ones are zeros, and a state with more live rows raises. Tables that are not named
        are left out and listed in the attribute left_out; the variable TABLE.count has their live rows. dims: names of
        the axes of a field, without the one of ticks. cache_bytes: of states that are kept, so that several variables at
        the same ticks are simulated once.

        Raises ExtractionError for unknown tables and fields, and as opening a tape does.
        """
        dropped = {drop_variables} if isinstance(drop_variables, str) else set(drop_variables or ())
        path = Path(filename_or_obj)
        with Tape(path) as tape:
            _distrust_if_damaged(tape)
            make_simulation(tape, world)  # Raises here if it does not fit, not when a variable is sliced.
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
        dataset = xarray.Dataset(variables, {TICK: ((TICK,), ticks)}, attributes | {"left_out": left_out})
        dataset.set_close(states.close)
        return dataset


@attrs.frozen
class _Field:
    """A variable, as it is at one tick.

    Attributes:
        source: the name of the field, or of the table whose live rows are counted.
        dtype, shape: of the variable at one tick.
        table: of a column; None for a field of fixed size. is_count: True for the count of a table.
    """

    source: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...] = ()
    table: str | None = None
    is_count: bool = False

    def of(self, tick: int, state: Snapshot) -> Array | int:
        """Return its value. Raises ExtractionError if the state has it with a different dtype or shape."""
        if self.is_count:
            return state.count(self.source)
        if self.source not in state:
            raise ExtractionError(f"tick {tick:,}: the state has no field {self.source}, unlike the first state")
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
                f"tick {tick:,}: expected {self.source} as {self.dtype} {self.shape} like in the first state, "
                f"got {value.dtype} {value.shape}"
            )
        return value


class _LazyField(BackendArray):  # type: ignore[misc]
    """A variable over all ticks, which xarray slices."""

    def __init__(self, states: States, ticks: Array, field: _Field) -> None:
        self._states, self._ticks, self._field = states, ticks, field
        self.shape, self.dtype = (len(ticks), *field.shape), field.dtype

    def __getitem__(self, key: indexing.ExplicitIndexer) -> Any:
        return indexing.explicit_indexing_adapter(key, self.shape, indexing.IndexingSupport.OUTER, self._read)

    def _read(self, key: tuple[Any, ...]) -> Array:
        ticks = self._ticks[key[0]]
        values = self._states.read(np.atleast_1d(ticks), self._field, key[1:])
        return values if ticks.ndim else values[0]


class States:
    """The states of a tape by tick, from memory or by seeking. Pickles as the path of the tape, for other processes."""

    def __init__(self, path: Path, world: Factory | None, cache_bytes: int) -> None:
        self._path, self._world, self._cache_bytes = path, world, cache_bytes
        self._timeline: Timeline | None = None
        self._kept: collections.OrderedDict[int, tuple[int, Snapshot]] = collections.OrderedDict()
        self._bytes, self._reads = 0, 0
        self._lock = threading.Lock()  # Schedulers read chunks in threads, and a timeline is one simulation.

    def __reduce__(self) -> tuple[type[States], tuple[Path, Factory | None, int]]:
        return States, (self._path, self._world, self._cache_bytes)

    def read(self, ticks: Array, field: _Field, key: tuple[Any, ...]) -> Array:
        """Read the part of a field that key selects, at each of these ticks: (ticks, ...).

        Raises as Timeline.at does, and ExtractionError for a value of a different shape.
        """
        unique_ticks, positions = np.unique(
            ticks, return_inverse=True
        )  # Ascending, each once: no tick is simulated twice.
        with self._lock:
            self._reads += 1
            values = [
                _selected(np.asarray(field.of(tick, self._state(tick)), field.dtype), key)
                for tick in unique_ticks.tolist()
            ]
        if not values:
            return np.empty((0, *_selected(np.empty(field.shape, field.dtype), key).shape), field.dtype)
        stacked: Array = np.stack(values)
        return stacked if np.array_equal(unique_ticks, ticks) else stacked[positions]

    def _state(self, tick: int) -> Snapshot:
        if tick in self._kept:
            state = self._kept.pop(tick)[1]
            self._kept[tick] = (self._reads, state)
            return state
        if self._timeline is None:
            self._timeline = Timeline(self._path, self._world)
            _distrust_if_damaged(self._timeline.tape)
        state = self._timeline.at(tick)
        # States kept by this read stay: the next variable at the same ticks finds them.
        while self._kept and self._bytes + state.arena.nbytes > self._cache_bytes:
            oldest, (read, oldest_state) = next(iter(self._kept.items()))
            if read == self._reads:
                return state
            del self._kept[oldest]
            self._bytes -= oldest_state.arena.nbytes
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


def _selected(value: Array, key: tuple[Any, ...]) -> Array:
    """Copy the part of a value that a key selects, axis by axis. A view would keep the complete state in memory."""
    for axis in reversed(range(len(key))):
        value = value[(slice(None),) * axis + (key[axis],)]
    return value.copy()


def _distrust_if_damaged(tape: Tape) -> None:
    """Make a damaged tape ignore its index, which may hide blocks that are there."""
    if tape.status == "corrupt":
        tape.distrust_index()


def _first_state(tape: Tape) -> Snapshot:
    """Return the first keyframe that can be read. Raises MissingTickError if there is none."""
    for keyframe in tape.keyframes:
        try:
            return tape.snapshot(keyframe)
        except (CorruptError, TornError):
            continue  # Slicing at its tick raises the error.
    raise MissingTickError(tape.first_tick, "no keyframe can be read", damaged=True)


def _reachable(tape: Tape) -> tuple[Array, list[tuple[int, int]]]:
    """Return the ticks that can be reached from a keyframe, and the ranges of those that cannot."""
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
    is_reachable = np.ones(len(ticks), np.bool_)
    for first, last in lost:
        is_reachable[first - first_tick : last - first_tick + 1] = False
    return ticks[is_reachable], lost


def _chunks(tape: Tape, ticks: Array) -> tuple[int, ...]:
    """Return the number of ticks from each keyframe to the next, which are simulated together."""
    starts = np.searchsorted(ticks, [keyframe.tick for keyframe in tape.keyframes])
    sizes = np.diff([0, *starts[1:], len(ticks)])
    return tuple(int(size) for size in sizes if size)


def _describe(tape: Tape) -> dict[str, Any]:
    """Return the facts of the run as attributes, without those that are missing or of a wrong type."""
    meta = tape.meta
    world = meta.get("world")
    world = world if isinstance(world, dict) else {}
    config = world.get("config")
    config = config if isinstance(config, dict) else {}
    facts = {
        "run": tape.run_id,
        "status": tape.status,
        "simulation": meta.get("simulation"),
        "world": world.get("name"),
        "world_version": world.get("version"),
        "scenario": config.get("name"),
        "seed": config.get("seed"),
    }
    return {name: value for name, value in facts.items() if isinstance(value, str | int)}


def _map_shape(tape: Tape, state: Snapshot) -> tuple[int, ...] | None:
    """Return (height, width) of the world's maps; None if it has no maps."""
    world = find_world(tape.meta["world"]["name"])
    return None if world.picture is None else world.picture(state).shape


def _fields(layout: Layout, rows: Mapping[str, int]) -> tuple[dict[str, _Field], list[str]]:
    """Return the variables by name, and the columns left out. Raises ExtractionError for unknown tables."""
    tables = {entry.name for entry in layout.schema.entries if isinstance(entry, Table)}
    tables = {name for name in tables if not name.startswith(SCENARIO_PREFIX)}
    unknown = next((name for name in rows if name not in tables), None)
    if unknown is not None:
        raise ExtractionError(f"rows: there is no table {unknown}; tables: {', '.join(sorted(tables)) or 'none'}")
    negative = next((name for name, count in rows.items() if count < 0), None)
    if negative is not None:
        raise ExtractionError(f"rows: expected at least 0 for {negative}, got {rows[negative]}")
    fields, left_out = {}, []
    for slot in chosen_slots(layout, ()):
        if slot.owner is None:
            fields[f"own.{TICK}" if slot.name == TICK else slot.name] = _Field(slot.name, slot.dtype, slot.shape)
        elif slot.owner in rows:
            shape = (rows[slot.owner], *slot.shape[1:])
            fields[slot.name] = _Field(slot.name, slot.dtype, shape, slot.owner)
        else:
            left_out.append(slot.name)
    for table in sorted(tables):
        name = f"{table}.count" if f"{table}.count" not in layout.slots else f"{table}.live_rows"
        fields[name] = _Field(table, np.dtype(np.int64), is_count=True)
    left_out += [entry.name for entry in layout.schema.entries if isinstance(entry, Blob)]
    return fields, left_out


def _dims(
    fields: Mapping[str, _Field], dims: Mapping[str, Sequence[str]], map_shape: tuple[int, ...] | None
) -> dict[str, tuple[str, ...]]:
    """Name the axes of each variable: as in dims; y and x for maps; the table for its rows; else by their size.

    Axes of the same size get the same name, so that fields of the same shape can be used in one expression.
    Raises ExtractionError for names that do not fit.
    """
    unknown = next((name for name in dims if name not in fields), None)
    if unknown is not None:
        raise ExtractionError(f"dims: there is no variable {unknown}; variables: {', '.join(fields)}")
    named = {}
    for name, field in fields.items():
        axes = len(field.shape)
        names = [f"axis_{size}" for size in field.shape]
        if map_shape is not None and axes > 1 and field.shape[-2:] == map_shape:
            names[-2:] = ["y", "x"]
        if field.table is not None:
            names[0] = field.table
        unique = [
            f"{label}_{names[:axis].count(label)}" if label in names[:axis] else label
            for axis, label in enumerate(names)
        ]
        chosen = tuple(dims.get(name, unique))
        if len(chosen) != axes or len({TICK, *chosen}) != axes + 1:
            raise ExtractionError(
                f"dims: {name} has shape {field.shape}: expected {axes} different names, got {chosen}"
            )
        named[name] = chosen
    return named
