"""An independent reading of the rows of the table of transitions: what a value of an environment has to look like."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from gymnasium import spaces

FACTS = ("episode", "step", "agent", "seed", "env")
DTYPES = {
    "uint8": "u1",
    "int8": "i1",
    "int16": "i2",
    "int32": "i4",
    "int64": "i8",
    "float": "f4",
    "double": "f8",
    "bool": "b1",
}


def leaves(value: Any, path: str, space: Any = None) -> dict[str, Any]:
    """The parts of a value by the names of their columns. space: needed where the value does not show its kind."""
    if isinstance(space, spaces.OneOf):
        chosen = leaves(value[1], f"{path}.{value[0]}", space.spaces[value[0]])
        return {f"{path}.choice": value[0], **chosen}
    if isinstance(space, spaces.Sequence):
        return items_of(value, path, space.feature_space)
    if isinstance(value, Mapping):
        items = [(str(key), item, space and space[key]) for key, item in value.items()]
    elif hasattr(value, "_fields"):
        items = [(name, item, None) for name, item in zip(value._fields, value, strict=True)]
    elif isinstance(value, tuple):
        items = [(str(index), item, space and space[index]) for index, item in enumerate(value)]
    else:
        return {} if value is None else {path: value}
    return {name: leaf for key, item, one in items for name, leaf in leaves(item, f"{path}.{key}", one).items()}


def items_of(value: Any, path: str, feature: Any) -> dict[str, Any]:
    """The items of a sequence: a tuple of them, or stacked."""
    if isinstance(value, dict):
        return {f"{path}.{key}": item for key, item in value.items()}
    if isinstance(feature, spaces.Text):
        return {path: list(value)}
    return {path: np.array(value, feature.dtype).reshape(-1, *feature.shape)}


def innermost(kind: pa.DataType) -> pa.DataType:
    """The type of the numbers in nested lists."""
    while pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind):
        kind = kind.value_type
    return kind


def ensure_value(name: str, got: Any, expected: Any, kind: pa.DataType) -> None:
    """Raise AssertionError unless the value in a column is the expected one: value, dtype, shape, bytes."""
    if isinstance(expected, list):
        assert got == expected, name
        assert kind == pa.list_(pa.string()), name
        return
    if isinstance(expected, str):
        assert got == expected, name
        assert kind == pa.string(), name
        return
    array = np.asarray(expected)
    dtype = np.dtype(DTYPES[str(innermost(kind))])
    assert dtype == array.dtype, (name, kind, array.dtype)
    if not len(np.atleast_1d(array)):
        assert got == [], name
        return
    assert np.array(got, dtype).shape == array.shape, name
    assert np.array(got, dtype).tobytes() == array.tobytes(), name


def ensure_row(row: Mapping[str, Any], expected: Mapping[str, Any], schema: pa.Schema, observed: Any = None) -> None:
    """Raise AssertionError unless a row holds what a loop collected, and nothing else. observed: the space."""
    for name in FACTS:
        assert row.get(name) == expected.get(name), name
    assert (row["terminated"], row["truncated"]) == (bool(expected["terminated"]), bool(expected["truncated"]))
    assert row["reward"] == float(expected["reward"])
    for prefix in ("obs", "action", "next"):
        wanted = leaves(expected[prefix], prefix, None if prefix == "action" else observed)
        mine = {name for name in row if name.partition(".")[0] == prefix}
        for name in mine - wanted.keys():
            assert row[name] is None, name
        for name, value in wanted.items():
            if 0 in np.shape(value)[1:] or (np.shape(value) == (0,) and name not in mine):
                continue  # Without numbers.
            ensure_value(name, row[name], value, schema.field(name).type)
    assert not any(name.startswith("info") for name in row)
