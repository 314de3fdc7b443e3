"""What a load() does not give back, as save() shows it right after the load."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from sim.kernel.hooks import HasAdapter, hook
from sim.kernel.schema import Blob
from sim.kernel.simulation import ArenaOfSaved, Simulation


def lost_on_load(simulation: Simulation) -> str | None:
    """The first field in which save() differs right after a restore; None if it is equal, or cannot be compared.

    None as well for a simulation without a save() and a load() of its own, and if two calls of save() differ. Bytes other than
    JSON are not compared: two pickles of equal objects may differ. Raises any exception of the user's save().
    """
    if not isinstance(simulation, ArenaOfSaved) or hook(simulation.inner, HasAdapter) is not None:
        return None
    first, second = (ArenaOfSaved(simulation.inner).state for _ in range(2))
    if first.hash() != second.hash():
        return None
    loaded = simulation.state
    blobs = {entry.name for entry in first.layout.schema.entries if isinstance(entry, Blob)}
    for name in first:
        if name not in loaded.layout.slots:
            continue
        one, other = (_json(state.blob(name)) if name in blobs else _array(state[name]) for state in (loaded, first))
        if one is not None and other is not None and one != other:
            return name
    return None


def _array(value: np.ndarray[Any, Any]) -> Any:
    return str(value.dtype), value.shape, value.tobytes()


def _json(value: bytes) -> str | None:
    """The values of JSON, in one order of the keys; None for other bytes."""
    try:
        return json.dumps(json.loads(value), sort_keys=True)
    except (ValueError, RecursionError):
        return None
