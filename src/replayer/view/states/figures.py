"""Figures of a state for curves: one number for a field, or for the path of a value in recorded objects."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from replayer.desync.object_diff import MALFORMED, objects_in
from replayer.export.viewers.object_values import values_of
from replayer.tape.fields import shown_slots
from sim.kernel.state import Snapshot

CURVES_MAX = 200  # Names offered to choose from, of fields and of paths each.


def figures_of(snapshot: Snapshot, names: Iterable[str]) -> dict[str, float]:
    """The figure of each name that has one in this state: a number, or the sum of an array's values in use."""
    figures = {name: _figure(value) for name, value in _values(snapshot, names).items()}
    return {name: figure for name, figure in figures.items() if np.isfinite(figure)}


def summed_names(snapshot: Snapshot, names: Iterable[str]) -> list[str]:
    """The names whose figure is the sum of an array in this state, not a number of its own."""
    return [name for name, value in _values(snapshot, names).items() if value.ndim]


def _values(snapshot: Snapshot, names: Iterable[str]) -> dict[str, np.ndarray[Any, Any]]:
    """The value of each name that has one in this state."""
    fields = set(snapshot)
    paths = [name for name in names if name not in fields]
    values = {name: np.asarray(snapshot[name]) for name in names if name in fields}
    if paths and (tree := objects_in(snapshot)) is not None:
        for path in paths:
            try:
                value = dict(values_of(tree, [path])).get(path) if tree.find(path) is not None else None
            except MALFORMED:
                continue
            if isinstance(value, np.ndarray):
                values[path] = value
    return values


def curve_names(snapshot: Snapshot, tree_values: Mapping[str, Any]) -> list[str]:
    """Names that figures_of understands: numeric fields, and the paths of numbers. tree_values: as values_of gives."""
    numeric = "biuf"
    shown = [slot.name for slot in shown_slots(snapshot.layout) if slot.dtype.kind in numeric]
    fields = [name for name in shown if name not in tree_values]
    paths = [
        path for path, value in tree_values.items() if isinstance(value, np.ndarray) and value.dtype.kind in numeric
    ]
    return [*paths[:CURVES_MAX], *fields[:CURVES_MAX]]


def _figure(array: np.ndarray[Any, Any]) -> float:
    return float(np.asarray(array).sum(dtype=np.float64)) if array.dtype.kind in "biuf" else float("nan")
