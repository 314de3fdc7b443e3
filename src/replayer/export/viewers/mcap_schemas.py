"""The JSON schemas of the messages in an MCAP file.

Grids and points are Foxglove's own messages (foxglove.Grid, foxglove.PointCloud), which its panels draw. Foxglove knows
their schemas by these names; the schemas here contain the fields that are used. The other messages are ours.
"""

from __future__ import annotations

from typing import Any

FLOAT64 = 8  # Foxglove's number of this type, in a PackedElementField.

_TICK = {"type": "integer", "minimum": 0, "description": "tick of the state"}
_HEX = {"type": "string", "pattern": "^[0-9a-f]*$"}
_BYTES = {"type": "string", "contentEncoding": "base64"}


def _object(title: str, properties: dict[str, Any], *, required: list[str] | None = None, more: Any = None) -> Any:
    schema: dict[str, Any] = {"title": title, "type": "object", "properties": properties}
    schema["required"] = list(properties) if required is None else required
    return schema if more is None else schema | {"additionalProperties": more}


TELEMETRY = _object("tape.Telemetry", {"tick": _TICK}, more={"type": ["number", "string"]})
EVENT = _object("tape.Event", {"tick": _TICK, "kind": {"type": "string"}}, more=True)
INPUTS = _object("tape.Inputs", {"tick": _TICK, "inputs": {"description": "inputs of the step to this tick"}})
_HASH = _HEX | {"description": "xxh3-64 of the state, 16 digits"}
STATE = _object("tape.State", {"tick": _TICK, "state_hash": _HASH})
FRAME = _object(
    "tape.Frame",
    {
        "tick": _TICK,
        "state_hash": _HASH,
        "link": _HEX | {"description": "in place of state_hash: chained hash of the changes, 16 digits"},
        "field_hashes": _HEX | {"description": "4 digits for each field, in the order of the state's layout"},
        "phase_hashes": {
            "type": "object",
            "additionalProperties": _HEX,
            "description": "4 digits by phase of the step",
        },
    },
    required=["tick"],
)
KEYFRAME = _object("tape.Keyframe", {"tick": _TICK, "full": {"type": "boolean"}})
ARRAY = _object(
    "tape.Array",
    {
        "tick": _TICK,
        "dtype": {"type": "string", "description": "as NumPy writes it, little-endian, such as <f8"},
        "shape": {"type": "array", "items": {"type": "integer", "minimum": 0}},
        "data": _BYTES | {"description": "the values, row by row"},
        "value": {"type": ["number", "boolean", "string"], "description": "the value of a single number, for curves"},
        "values": {"type": "array", "description": "the values of a small array"},
    },
    required=["tick", "dtype", "shape", "data"],
)
VALUE = _object("tape.Value", ARRAY["properties"], required=["tick"])  # A text, or as tape.Array: it may change.

_NUMBER = {"type": "number"}
_POSE = _object(
    "foxglove.Pose",
    {
        "position": _object("foxglove.Vector3", dict.fromkeys("xyz", _NUMBER)),
        "orientation": _object("foxglove.Quaternion", dict.fromkeys("xyzw", _NUMBER)),
    },
)
_COUNT = {"type": "integer", "minimum": 0}
_PACKED = {
    "type": "array",
    "items": _object("foxglove.PackedElementField", {"name": {"type": "string"}, "offset": _COUNT, "type": _COUNT}),
}
_HEAD = {
    "timestamp": _object("time", {"sec": _COUNT, "nsec": _COUNT | {"maximum": 999_999_999}}),
    "frame_id": {"type": "string"},
    "pose": _POSE,
}
GRID = _object(
    "foxglove.Grid",
    _HEAD
    | {
        "column_count": _COUNT,
        "cell_size": _object("foxglove.Vector2", dict.fromkeys("xy", _NUMBER)),
        "row_stride": _COUNT,
        "cell_stride": _COUNT,
        "fields": _PACKED,
        "data": _BYTES,
    },
)
POINTS = _object("foxglove.PointCloud", _HEAD | {"point_stride": _COUNT, "fields": _PACKED, "data": _BYTES})

FRAME_ID = "map"  # Shared by all grids and points: they overlay each other.
ORIGIN = {"position": dict.fromkeys("xyz", 0.0), "orientation": {"x": 0.0, "y": 0.0, "z": 0.0, "w": 1.0}}
