"""A state as plain data, for a message to another process."""

from __future__ import annotations

from typing import Any

import numpy as np

from sim.kernel.schema import make_layout, schema_from_plain, schema_to_plain
from sim.kernel.state import Snapshot


def snapshot_to_plain(snapshot: Snapshot) -> list[Any]:
    """Encode a state as plain data."""
    layout = snapshot.layout
    return [schema_to_plain(layout.schema), dict(layout.capacities), snapshot.arena.tobytes()]


def snapshot_from_plain(plain: list[Any]) -> Snapshot:
    """Decode the plain data of snapshot_to_plain."""
    schema, capacities, content = plain
    return Snapshot(make_layout(schema_from_plain(schema), capacities), np.frombuffer(content, np.uint8).copy())
