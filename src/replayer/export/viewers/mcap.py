"""Write an MCAP file: JSON messages with schemas, in tick order, in zstd-compressed chunks.

    /telemetry       tape.Telemetry: the figures of a tick
    /events          tape.Event
    /inputs          tape.Inputs: the inputs of a step, if it has any
    /frames          tape.Frame: hashes of the state, of its fields, and after each phase
    /keyframes       tape.Keyframe
    /states          tape.State: the hash of the state in the following messages
    /state/FIELD     tape.Array: the exact bytes
    /state/PATH      tape.Value: of captured objects, as /state/units[14].hp: the same, or a text
    /layers/NAME     foxglove.Grid: maps of the world; without a world, those of the simulation's own layers(), and fields
                     of two dimensions; 64-bit floats
    /points/NAME     foxglove.PointCloud: points on these maps

Metadata "tape" describes the recording and the exported range, metadata "losses" lists missing data. META and the
world's configuration are attachments.

Invariant: log_time is tick × Clock.tick_ns, and never descends.
"""

from __future__ import annotations

import base64
import heapq
import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from importlib import metadata
from typing import Any, Self

import attrs
import numpy as np
import numpy.typing as npt
from mcap.well_known import MessageEncoding, SchemaEncoding
from mcap.writer import CompressionType, Writer

from recorder.exit_codes import UsageError
from recorder.storage.atomic_file import atomic_file
from replayer.export.viewers import mcap_schemas as schemas
from replayer.export.viewers.object_values import Value
from replayer.export.viewers.tick_range import OnProgress, TickRange
from replayer.tape.digest import tape_digest
from replayer.tape.fields import has_sides_of_map
from replayer.value_text import inputs_to_json, to_json
from sim.kernel.state import Snapshot

VALUES_MAX = 16  # Arrays up to this size are also written as JSON numbers.
TIME_NS_MAX = (1 << 63) - 1  # Readers in other languages use signed integers.

_Message = tuple[int, int, str, Any, dict[str, Any]]  # Tick, rank among those of a tick, topic, schema, content.


@attrs.frozen
class Clock:
    """Conversion of ticks to times.

    Attributes:
        tick_ns: duration of a tick.
    """

    tick_ns: int

    @classmethod
    def of_seconds(cls, tick_seconds: float) -> Self:
        """The clock for a tick length. Raises UsageError if that is less than a nanosecond or too large."""
        tick_ns = round(tick_seconds * 1e9) if tick_seconds < TIME_NS_MAX / 1e9 else 0
        if tick_ns < 1:
            raise UsageError(f"expected a tick length from 1 nanosecond to some centuries, got {tick_seconds} seconds")
        return cls(tick_ns)

    def at(self, tick: int) -> int:
        """The time of a tick in ns. Raises UsageError for a time that is too large for the format's readers."""
        time_ns = tick * self.tick_ns
        if time_ns > TIME_NS_MAX:
            raise UsageError(
                f"the time of tick {tick:,} is too large for MCAP at {self.tick_ns} ns per tick: "
                "give a shorter --tick-seconds"
            )
        return time_ns


def write_mcap(source: TickRange, path: str | os.PathLike[str], on_progress: OnProgress, clock: Clock) -> None:
    """Write the range; an existing file is replaced. Raises OSError, UsageError and as TickRange does."""
    clock.at(source.last)
    with atomic_file(path, existing="replace") as part, part.open("wb") as file:
        writer = Writer(file, compression=CompressionType.ZSTD)
        writer.start(library=f"simulation-flight-recorder {metadata.version('simulation-flight-recorder')}")
        _attach(writer, source)
        channels = _Channels(writer, clock)
        streams = [
            _telemetry(source),
            _frames(source),
            _keyframes(source),
            _events(source),
            _states(source, clock, on_progress),
        ]
        for tick, _, topic, schema, content in heapq.merge(*streams, key=lambda message: message[:2]):
            channels.add(tick, topic, schema, content)
        writer.add_metadata("tape", _about(source, clock))
        losses = source.losses()[0]
        writer.add_metadata("losses", {str(number): line for number, line in enumerate(losses, 1)})
        writer.finish()  # type: ignore[no-untyped-call]


class _Channels:
    """The channels of a file, registered at their first message."""

    def __init__(self, writer: Writer, clock: Clock) -> None:
        self._writer, self._clock = writer, clock
        self._schemas: dict[str, int] = {}
        self._channels: dict[str, int] = {}

    def add(self, tick: int, topic: str, schema: Any, content: dict[str, Any]) -> None:
        """Write one message."""
        if topic not in self._channels:
            title = schema["title"]
            if title not in self._schemas:
                encoded = json.dumps(schema).encode()
                self._schemas[title] = self._writer.register_schema(title, SchemaEncoding.JSONSchema, encoded)
            self._channels[topic] = self._writer.register_channel(topic, MessageEncoding.JSON, self._schemas[title])
        time_ns = self._clock.at(tick)
        self._writer.add_message(
            self._channels[topic], time_ns, strict_json(content), time_ns, sequence=tick & _SEQUENCE
        )


_SEQUENCE = 0xFFFFFFFF  # The format has 32 bits for it.


def strict_json(value: Any) -> bytes:
    """Encode value as standard JSON: numbers that are not finite become texts ("NaN", "Infinity", "-Infinity")."""
    try:
        return json.dumps(value, allow_nan=False).encode()
    except ValueError:
        return json.dumps(_without_nan(value), allow_nan=False).encode()


def _without_nan(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nan(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_without_nan(inner) for inner in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


# --- metadata and attachments


def _attach(writer: Writer, source: TickRange) -> None:
    meta = source.tape.meta
    world = meta.get("world")
    attached = {"meta.json": meta}
    if isinstance(world, dict) and "config" in world:
        attached["config.json"] = world["config"]
    for name, content in attached.items():
        writer.add_attachment(0, 0, name, "application/json", strict_json(to_json(content)))


def _about(source: TickRange, clock: Clock) -> dict[str, str]:
    tape = source.tape
    named = tape.meta.get("world")
    world = named if isinstance(named, dict) else {}
    about = {
        "run_id": tape.run_id,
        "sha256": tape_digest(tape.path),
        "status": tape.status,
        "world": world.get("name"),
        "world_version": world.get("version"),
        "simulation": tape.meta.get("simulation"),
        "first_tick": source.first,
        "last_tick": source.last,
        "every": "keyframes" if source.request.keyframes else source.every,
        "states": source.state_count,
        "tick_ns": clock.tick_ns,
    }
    return {name: str(value) for name, value in about.items() if value is not None}


# --- telemetry, frames, events


def _telemetry(source: TickRange) -> Iterator[_Message]:
    columns = source.telemetry()
    names = list(columns)
    for row in zip(*(values.tolist() for values in columns.values()), strict=True):
        figures = {
            name: value
            for name, value in zip(names, row, strict=True)
            if not (isinstance(value, float) and math.isnan(value))  # NaN: no value was recorded at this tick.
        }
        yield row[0], 0, "/telemetry", schemas.TELEMETRY, figures


def _frames(source: TickRange) -> Iterator[_Message]:
    phases = source.tape.meta.get("phases")
    for frame in source.frames():
        content: dict[str, Any] = {"tick": frame.tick, **frame.proof()}
        if frame.field_hashes:
            content["field_hashes"] = frame.field_hashes.hex()
        if frame.phase_hashes:
            content["phase_hashes"] = _by_phase(phases, frame.phase_hashes)
        yield frame.tick, 1, "/frames", schemas.FRAME, content
        inputs = source.inputs(frame)
        if inputs is not None:
            yield frame.tick, 1, "/inputs", schemas.INPUTS, {"tick": frame.tick, "inputs": inputs_to_json(inputs)}


def _by_phase(phases: Any, hashes: bytes) -> dict[str, str]:
    """Hashes by the phase names in META; by phase number if the names are lost."""
    short_hashes = [hashes[start : start + 2].hex() for start in range(0, len(hashes), 2)]
    named = isinstance(phases, list) and len(phases) == len(short_hashes)
    names: Sequence[Any] = phases if named else range(len(short_hashes))
    return {str(name): short_hash for name, short_hash in zip(names, short_hashes, strict=True)}


def _keyframes(source: TickRange) -> Iterator[_Message]:
    for place in source.keyframes():
        yield place.tick, 2, "/keyframes", schemas.KEYFRAME, {"tick": place.tick, "full": place.is_full}


def _events(source: TickRange) -> Iterator[_Message]:
    for tick, event in source.events():
        yield tick, 3, "/events", schemas.EVENT, {"tick": tick, **to_json(event)}


# --- states


def _states(source: TickRange, clock: Clock, on_progress: OnProgress) -> Iterator[_Message]:
    for tick, snapshot in source.states(on_progress):
        fields = source.fields(snapshot)
        yield tick, 4, "/states", schemas.STATE, {"tick": tick, "state_hash": f"{snapshot.hash():016x}"}
        for name, array in fields.items():
            yield tick, 4, f"/state/{name}", schemas.ARRAY, array_message(tick, array)
        values = source.values(snapshot)
        for path, value in values.items():
            content = {"tick": tick, "value": value} if isinstance(value, str) else array_message(tick, value)
            yield tick, 4, f"/state/{path}", schemas.VALUE, content
        timestamp = dict(zip(("sec", "nsec"), divmod(clock.at(tick), 10**9), strict=True))
        head = {"timestamp": timestamp, "frame_id": schemas.FRAME_ID, "pose": schemas.ORIGIN}
        own = source.layers(tick, snapshot)
        maps = own if source.draws_itself else {**_flat(snapshot, fields, values), **own}
        for name, layer in maps.items():
            yield tick, 5, f"/layers/{name}", schemas.GRID, head | _grid(layer)
        for name, places in source.points(tick, snapshot).items():
            yield tick, 6, f"/points/{name}", schemas.POINTS, head | _points(places)


def _flat(snapshot: Snapshot, fields: Any, values: Mapping[str, Value]) -> dict[str, npt.NDArray[Any]]:
    """Fields and values of two dimensions, which are maps without a world."""
    slots = snapshot.layout.slots
    arrays = {name: array for name, array in fields.items() if slots[name].owner is None}
    arrays |= {path: value for path, value in values.items() if isinstance(value, np.ndarray)}
    return {
        name: array
        for name, array in arrays.items()
        if array.ndim == 2 and array.dtype.kind != "c" and has_sides_of_map(array.shape)
    }


def array_message(tick: int, array: npt.NDArray[Any]) -> dict[str, Any]:
    """An array as a tape.Array message, little-endian."""
    little = array.astype(array.dtype.newbyteorder("<"), copy=False)
    content: dict[str, Any] = {"tick": tick, "dtype": little.dtype.str, "shape": list(array.shape)}
    content["data"] = base64.b64encode(little.tobytes()).decode()
    if array.size == 1 and array.dtype.kind != "c":
        content["value"] = array.reshape(-1)[0].item()
    elif array.size <= VALUES_MAX:
        content["values"] = to_json(array.reshape(-1))
    return content


def _grid(layer: npt.NDArray[Any]) -> dict[str, Any]:
    values = np.ascontiguousarray(layer, np.dtype("f8").newbyteorder("<"))
    return {
        "column_count": layer.shape[1],
        "cell_size": {"x": 1.0, "y": 1.0},
        "row_stride": layer.shape[1] * 8,
        "cell_stride": 8,
        "fields": [{"name": "value", "offset": 0, "type": schemas.FLOAT64}],
        "data": base64.b64encode(values.tobytes()).decode(),
    }


def _points(places: npt.NDArray[np.float64]) -> dict[str, Any]:
    return {
        "point_stride": 16,
        "fields": [{"name": name, "offset": 8 * number, "type": schemas.FLOAT64} for number, name in enumerate("xy")],
        "data": base64.b64encode(np.ascontiguousarray(places, np.dtype("f8").newbyteorder("<")).tobytes()).decode(),
    }
