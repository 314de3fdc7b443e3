"""Write a tape into a Rerun recording: one entity per field, map or log, on the timeline "tick".

    tape                text: description of the recording; static
    tape/state_hash     text log: the hash of each exported state
    tape/keyframes      text log
    tape/losses         text log: data that is missing on the tape
    telemetry/NAME      curves
    events              text log, one event per line
    inputs              text log: the inputs of each step that has any
    state/FIELD         curves of up to CURVES_MAX numbers, depth images of other grids, bars of rows, else tensors
    state/TABLE         curve: number of rows
    state/PATH          of captured objects, as state/units/[14]/hp: numbers as above; a text log of other values, with
                        a line where they change
    layers/NAME         depth images: maps of the world
    points/NAME         points on these maps

Curves are 64-bit floats, the only type of Rerun's curves. All other data keeps its dtype, except booleans (bytes of 0
and 1) and complex numbers (a last axis of real and imaginary part).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import rerun as rr

from replayer.export.viewers.object_values import Value
from replayer.export.viewers.rerun_blueprint import make_blueprint
from replayer.export.viewers.tick_range import OnProgress, TickRange
from replayer.report.tape_facts import tape_facts
from replayer.tape.fields import has_sides_of_map
from replayer.value_text import plain_text, to_json
from sim.kernel.state import Snapshot

TIMELINE = "tick"
CURVES_MAX = 16  # More curves of one field could not be distinguished.
BATCH_BYTES = 8 << 20  # Collected before it is passed to Rerun.
BATCH_ROWS = 4096
TEXT_CHARS_MAX = 4096  # Of one line in a log.

_STEP = re.compile(r"\[(?:'[^']*'|[^\]]*)\]|[^.\[\]]+")

OnBatch = Callable[[], None]  # Called after each batch, when Rerun may have written output.


@contextmanager
def strict() -> Iterator[None]:
    """Make Rerun raise ValueError for data that it cannot store; by default it warns and leaves the row out."""
    before = rr.strict_mode()
    rr.set_strict_mode(True)
    try:
        yield
    finally:
        rr.set_strict_mode(before)


def fill(
    recording: rr.RecordingStream,
    source: TickRange,
    on_progress: OnProgress,
    prefix: str = "",
    on_batch: OnBatch | None = None,
) -> None:
    """Write everything. States that cannot be reached are collected by source, and listed at tape/losses.

    prefix: prefix of all entities. on_batch: called after each batch. Raises as TickRange does.
    """
    rows = _Rows(recording, prefix, on_batch or (lambda: None))
    with strict():
        _add_tape(rows, source)
        _add_telemetry(rows, source)
        _add_ticks(rows, source)
        layers = _add_states(rows, source, on_progress)
        for line in source.losses()[0]:
            rows.add("tape/losses", source.first, rr.TextLog, plain_text(line), level="WARN")
        rows.flush()
        recording.send_blueprint(make_blueprint(prefix, layers), make_active=False, make_default=True)


class _Rows:
    """Collects rows of entities and sends them as columns: about ten times as fast as single rows."""

    def __init__(self, recording: rr.RecordingStream, prefix: str, on_batch: OnBatch) -> None:
        self._recording, self._on_batch = recording, on_batch
        self.prefix = prefix.strip("/")
        self._ticks: dict[tuple[str, Any], list[int]] = {}
        self._values: dict[tuple[str, Any], list[Any]] = {}
        self._bytes = 0

    def path(self, *parts: str) -> str:
        """The entity path of these names, escaped, below the prefix."""
        escaped = "/".join(rr.escape_entity_path_part(part) if part else "_" for part in parts)
        return f"{self.prefix}/{escaped}" if self.prefix else escaped

    def add_static(self, entity: str, what: Any) -> None:
        """Write data that is valid at all ticks."""
        self._recording.log(entity, what, static=True)

    def add(self, entity: str, tick: int, archetype: Any, value: Any, level: str = "INFO") -> None:
        """Add one row. value: an array, or a text for a text log."""
        if archetype is rr.TextLog:
            value = (value[:TEXT_CHARS_MAX], level)
            entity = f"{self.prefix}/{entity}" if self.prefix else entity
        self._add(entity, tick, archetype, value)

    def _add(self, entity: str, tick: int, archetype: Any, value: Any) -> None:
        key = (entity, archetype)
        self._ticks.setdefault(key, []).append(tick)
        self._values.setdefault(key, []).append(value)
        self._bytes += value.nbytes if isinstance(value, np.ndarray) else len(value[0])
        if self._bytes > BATCH_BYTES or len(self._ticks[key]) >= BATCH_ROWS:
            self.flush()

    def add_text(self, entity: str, tick: int, text: str) -> None:
        """Add one line of a text log at a complete path."""
        self._add(entity, tick, rr.TextLog, (text[:TEXT_CHARS_MAX], "INFO"))

    def send(self, entity: str, ticks: npt.NDArray[np.int64], columns: Any) -> None:
        """Send complete columns."""
        self._recording.send_columns(entity, [rr.TimeColumn(TIMELINE, sequence=ticks)], columns)
        self._on_batch()

    def flush(self) -> None:
        """Send the collected rows."""
        for (entity, archetype), ticks in self._ticks.items():
            columns = _COLUMNS[archetype](self._values[entity, archetype])
            self._recording.send_columns(entity, [rr.TimeColumn(TIMELINE, sequence=ticks)], columns)
        self._ticks, self._values, self._bytes = {}, {}, 0
        self._on_batch()


# --- rows as columns


def _curves(values: Sequence[npt.NDArray[Any]]) -> Any:
    numbers = np.concatenate([value.reshape(-1).astype(np.float64) for value in values])
    return rr.Scalars.columns(scalars=numbers).partition([value.size for value in values])


def _images(values: Sequence[npt.NDArray[Any]]) -> Any:
    formats = [
        rr.components.ImageFormat(
            width=value.shape[1],
            height=value.shape[0],
            channel_datatype=rr.ChannelDatatype.from_np_dtype(value.dtype),
        )
        for value in values
    ]
    return rr.DepthImage.columns(
        buffer=[value.tobytes() for value in values],
        format=formats,
        colormap=[rr.components.Colormap.Viridis] * len(values),
    )


def _points(values: Sequence[npt.NDArray[Any]]) -> Any:
    counts = [len(value) for value in values]
    return rr.Points2D.columns(positions=np.concatenate(values)).partition(counts)


def _tensors(values: Sequence[npt.NDArray[Any]]) -> pa.Array:
    # Tensor.columns does not accept a list of arrays, but it accepts an Arrow array.
    return pa.concat_arrays([rr.components.TensorDataBatch(value).as_arrow_array() for value in values])


def _texts(values: Sequence[tuple[str, str]]) -> Any:
    return rr.TextLog.columns(text=[text for text, _ in values], level=[level for _, level in values])


_COLUMNS: dict[Any, Callable[[Sequence[Any]], Any]] = {
    rr.Scalars: _curves,
    rr.DepthImage: _images,
    rr.Points2D: _points,
    rr.Tensor: lambda values: rr.Tensor.columns(data=_tensors(values)),
    rr.BarChart: lambda values: rr.BarChart.columns(values=_tensors(values)),
    rr.TextLog: _texts,
}


# --- contents


def _add_tape(rows: _Rows, source: TickRange) -> None:
    facts = json.dumps(tape_facts(source.tape, check=False), indent=1, ensure_ascii=False)
    rows.add_static(rows.path("tape"), rr.TextDocument(facts, media_type="text/plain"))
    for place in source.keyframes():
        rows.add("tape/keyframes", place.tick, rr.TextLog, "full" if place.is_full else "delta")


def _add_telemetry(rows: _Rows, source: TickRange) -> None:
    columns = dict(source.telemetry())
    ticks = columns.pop("tick", np.empty(0, np.int64))
    for name, values in columns.items():
        present = ~np.isnan(values) if values.dtype.kind == "f" else np.ones(len(values), bool)
        if present.any():  # Missing values are left out.
            shown = rr.Scalars.columns(scalars=values[present].astype(np.float64))
            rows.send(rows.path("telemetry", name), ticks[present], shown)


def _add_ticks(rows: _Rows, source: TickRange) -> None:
    for frame in source.frames():
        inputs = source.inputs(frame)
        if inputs is not None:
            rows.add("inputs", frame.tick, rr.TextLog, _line(inputs))
    for tick, event in source.events():
        rows.add(
            "events", tick, rr.TextLog, f"{event['kind']} {_line({k: v for k, v in event.items() if k != 'kind'})}"
        )


def _line(value: Any) -> str:
    return plain_text(json.dumps(to_json(value), ensure_ascii=False))


def _add_states(rows: _Rows, source: TickRange, on_progress: OnProgress) -> list[str]:
    """Write the states; return the entities of the layers."""
    named: set[str] = set()
    texts: dict[str, str] = {}
    layers: dict[str, None] = {}
    for tick, snapshot in source.states(on_progress):
        rows.add("tape/state_hash", tick, rr.TextLog, f"{snapshot.hash():016x}")
        _add_fields(rows, source, tick, snapshot, named)
        _add_values(rows, source.values(snapshot), tick, texts)
        for name, layer in source.layers(tick, snapshot).items():
            entity = rows.path("layers", name)
            layers[entity] = None
            rows.add(entity, tick, rr.DepthImage, drawable(layer))
        for name, places in source.points(tick, snapshot).items():
            rows.add(rows.path("points", name), tick, rr.Points2D, places)
    return list(layers)


def _add_fields(rows: _Rows, source: TickRange, tick: int, snapshot: Snapshot, named: set[str]) -> None:
    tables: dict[str, int] = {}
    for name, array in source.fields(snapshot).items():
        owner = snapshot.layout.slots[name].owner
        entity = rows.path("state", *_parts(name))
        values = drawable(array)
        kind = _kind(values, is_of_table=owner is not None)
        if kind is rr.Scalars and values.size > 1 and entity not in named:
            named.add(entity)
            names = [f"{name}[{', '.join(map(str, place))}]" for place in np.ndindex(values.shape)]
            rows.add_static(entity, rr.SeriesLines(names=names))
        rows.add(entity, tick, kind, values)
        if owner is not None and owner != name:  # A blob is its own owner.
            tables[owner] = len(array)
    for name, count in tables.items():
        rows.add(rows.path("state", *_parts(name)), tick, rr.Scalars, np.array(count))


def _add_values(rows: _Rows, values: Mapping[str, Value], tick: int, texts: dict[str, str]) -> None:
    """Add values of captured objects. texts: the last one at each path."""
    for path, value in values.items():
        entity = rows.path("state", *_steps(path))
        if isinstance(value, np.ndarray):
            shown = drawable(value)
            rows.add(entity, tick, _kind(shown, is_of_table=False), shown)
        elif texts.get(path) != value:
            rows.add_text(entity, tick, plain_text(value))
            texts[path] = value


def _steps(path: str) -> list[str]:
    """The steps of a path: units[14].hp is units, [14], hp."""
    steps = _STEP.findall(path)
    return steps if "".join(f".{step}" if step[0] != "[" else step for step in steps).lstrip(".") == path else [path]


def _parts(name: str) -> list[str]:
    """A field's name as parts of an entity path: the columns of a table are below the table."""
    parts = name.split(".")
    return parts if all(parts) else [name]


def drawable(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Copy an array to a dtype that Rerun supports; little-endian, C order."""
    if array.dtype.kind == "c":
        parts = np.ascontiguousarray(array).view(f"<f{array.dtype.itemsize // 2}")
        return parts.reshape(*array.shape, 2).copy()
    return np.array(array, np.uint8 if array.dtype.kind == "b" else array.dtype, order="C")


def _kind(values: npt.NDArray[Any], *, is_of_table: bool) -> Any:
    """The archetype for a field."""
    if not is_of_table and values.size <= CURVES_MAX:
        return rr.Scalars
    if values.ndim == 1:
        return rr.BarChart
    is_map = values.ndim == 2 and not is_of_table and has_sides_of_map(values.shape)
    return rr.DepthImage if is_map else rr.Tensor
