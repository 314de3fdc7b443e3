"""Read a Rerun file with Rerun's own reader: values by entity, component and tick."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

Found = dict[str, dict[str, dict[Any, Any]]]  # By entity, then by component, then by tick (None is always).


def read_rrd(path: Path) -> Found:
    """Everything in the first recording of a file."""
    from rerun.chunk import RrdReader  # Slow to import.

    found: Found = {}
    for chunk in RrdReader(path).stream():
        batch = chunk.to_record_batch()
        names = batch.schema.names
        ticks = batch.column("tick").to_pylist() if "tick" in names else [None] * batch.num_rows
        entity = found.setdefault(str(chunk.entity_path), {})
        for name in set(names) - {"tick", "rerun.controls.RowId"}:
            rows = entity.setdefault(name.partition(":")[2], {})
            for tick, row in zip(ticks, batch.column(name), strict=True):
                rows.setdefault(tick, []).append(_value(row))
    return found


def _value(row: Any) -> Any:
    """A row of a component: an array if it is one, otherwise plain values."""
    value = row.values
    if str(value.type).startswith("struct<shape"):
        (one,) = value
        shape, buffer = one["shape"].as_py(), one["buffer"]
        dtype = {"halffloat": "float16", "float": "float32", "double": "float64"}
        kind = str(buffer.value.type.value_type)
        return np.array(buffer.value.values.to_numpy(zero_copy_only=False), dtype.get(kind, kind)).reshape(shape)
    return value.to_pylist()
