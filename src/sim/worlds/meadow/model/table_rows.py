"""Rows of the tables: use the lowest free rows for new entities, zero removed rows, list living ones in order of id."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from sim.kernel.registry import Readable
from sim.kernel.state import State
from sim.worlds.meadow.model.loops import set_changed
from sim.worlds.meadow.model.numba_loops import SWARMS_MIN, compiled_for

Rows = npt.NDArray[np.int64]


def rows_by_id(state: Readable, table: str) -> Rows:
    """Return the rows of the living entities of a table in ascending id: the stable order of every phase."""
    return in_order_of_id(state, table, np.flatnonzero(state[f"{table}.id"] != 0))


def in_order_of_id(state: Readable, table: str, rows: Rows) -> Rows:
    """Sort rows of living entities by ascending id."""
    ids = state[f"{table}.id"][rows]
    if (ids[1:] > ids[:-1]).all():  # True as long as no row was reused.
        return rows
    return rows[np.argsort(ids, kind="stable")]


def add_entities(
    state: State, table: str, counter: str, columns: Mapping[str, Any], count: int, ids: Rows | None = None
) -> Rows:
    """Add count entities with these columns and with ids from the field counter on; return their rows.

    ids: to use instead; the counter then stays as it is.
    """
    free = np.flatnonzero(state[f"{table}.id"] == 0)[:count]
    if len(free) < count:
        added = state.add_rows(table, count - len(free))
        free = np.concatenate([free, np.arange(added.start, added.stop)])
    first_id = int(state[counter])
    new_ids = np.arange(first_id, first_id + count) if ids is None else ids
    for name, value in {**columns, "id": new_ids}.items():
        state[f"{table}.{name}"][free] = value
        state.mark(f"{table}.{name}", free)
    if ids is None:
        state[counter][()] = first_id + count
        state.mark(counter)
    return free


def clear_rows(state: State, table: str, columns: tuple[str, ...], rows: Rows) -> None:
    """Free rows: set them to zeros."""
    if not len(rows):
        return
    for name in columns:
        state[f"{table}.{name}"][rows] = 0
        state.mark(f"{table}.{name}", rows)


def set_rows(state: State, name: str, rows: Rows, values: npt.NDArray[Any] | int) -> None:
    """Set a column of integers in these rows, each given once, and mark those that changed; State.set takes twice as long."""
    column = state[name]
    if isinstance(values, int):
        values = np.full(len(rows), values)
    compiled = compiled_for(len(rows), SWARMS_MIN, set_changed)
    if compiled is not None:
        room = np.empty(len(rows), np.int64)
        count = compiled(column, rows, values, room)
        if count:
            state.mark(name, room[:count])
        return
    changed = np.flatnonzero(column[rows] != values)
    if len(changed):
        rows = rows[changed]
        column[rows] = values[changed]
        state.mark(name, rows)


def write_changed(state: State, name: str, values: npt.NDArray[Any]) -> None:
    """Set all values of a field, and mark those that changed."""
    field = state[name]
    differs = field != values
    count = int(np.count_nonzero(differs))
    if count:
        np.copyto(field, values)
        mark_changed(state, name, differs.reshape(-1), count)


def mark_changed(state: State, name: str, differs: npt.NDArray[np.bool_], count: int) -> None:
    """Mark the rows of a field that these flags name. count: the number of the flags that are set."""
    if count:
        # Above half, marking single items costs more than marking all of them, for the reader of the marks, too.
        state.mark(name, None if 2 * count > differs.size else differs)
