"""The part of a whole state that the tape of a shard holds, and the whole state from the parts of all shards.

A part has the cells of the shard's own rows, its plants, swarms and substances in the order of ids, with their rows in
the tables of the whole, and all numbers that the meadow has once. It depends on the whole state alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from sim.kernel.registry import Readable
from sim.kernel.schema import Field, Schema, Table
from sim.kernel.state import State
from sim.sharding.stripes import Stripes
from sim.worlds.meadow.config.meadow import MeadowConfig
from sim.worlds.meadow.model.layout import make_schema
from sim.worlds.meadow.model.table_rows import rows_by_id
from sim.worlds.meadow.shards.stripe import COUNTERS, SHARED, TABLES, grids_of

ROOM = "room"  # Rows and capacity of each table of the whole: (tables, 2) int64.


def part_schema(config: MeadowConfig, whole: Readable, stripes: Stripes, shard: int) -> Schema:
    """Return the fields of the part of a shard."""
    first, last = stripes.own(shard)
    entries: list[Field | Table] = [Field(ROOM, "i8", (len(TABLES), 2))]
    entries += [Field(name, whole[name].dtype, whole[name].shape) for name in (*SHARED, *COUNTERS)]
    for name in grids_of(whole):
        *layers, _, width = whole[name].shape
        entries.append(Field(name, whole[name].dtype, (*layers, last - first, width)))
    for entry in make_schema(config).entries:
        if isinstance(entry, Table):
            columns = [Field(field.name, field.dtype, field.shape) for field in entry.columns]
            entries.append(Table(entry.name, *columns, Field("row", "i8"), capacity=16))
    return Schema(*entries)


def write_part(whole: Readable, stripes: Stripes, shard: int, part: State) -> None:
    """Write the part of a shard into a state of its schema."""
    first, last = stripes.own(shard)
    part[ROOM][...] = [[whole.count(table), whole.layout.capacities[table]] for table in TABLES]
    for name in (*SHARED, *COUNTERS):
        part[name][...] = whole[name]
    for name in grids_of(whole):
        part[name][...] = whole[name][..., first:last, :]
    for table, columns in TABLES.items():
        rows = rows_by_id(whole, table)
        rows = rows[owners_of(whole, stripes, table, rows) == shard]
        part.truncate_rows(table, min(len(rows), part.count(table)))
        part.add_rows(table, len(rows) - part.count(table))
        for column in columns:
            part[f"{table}.{column}"][...] = whole[f"{table}.{column}"][rows]
        part[f"{table}.row"][...] = rows


def differing_fields(part: Readable, other: Readable) -> list[str]:
    """Return the cells and entities that differ: names of fields. What the meadow has once is no shard's own."""
    once = {ROOM, *SHARED, *COUNTERS, *(f"{table}.row" for table in TABLES)}
    return [name for name in part if name not in once and not np.array_equal(part[name], other[name])]


def owners_of(whole: Readable, stripes: Stripes, table: str, rows: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Return the shard of the entities in these rows; a substance is where its plant is."""
    if table != "substances":
        return stripes.owner(whole[f"{table}.y"][rows])
    plants = rows_by_id(whole, "plants")
    places = np.searchsorted(whole["plants.id"][plants], whole["substances.owner"][rows])
    found = np.minimum(places, max(len(plants) - 1, 0))  # The plant of a substance may have died in this tick.
    return stripes.owner(whole["plants.y"][plants[found]]) if len(plants) else np.zeros(len(rows), np.int64)


def join_parts(config: MeadowConfig, parts: Sequence[Readable]) -> State:
    """Return the whole state from the parts of all shards, in their order."""
    room = parts[0][ROOM]
    state = State(make_schema(config), {name: int(room[place, 1]) for place, name in enumerate(TABLES)})
    for name in (*SHARED, *COUNTERS):
        state[name][...] = parts[0][name]
    for name in grids_of(state):
        state[name][...] = np.concatenate([part[name] for part in parts], axis=-2)
    for place, (table, columns) in enumerate(TABLES.items()):
        state.add_rows(table, int(room[place, 0]))
        for part in parts:
            for column in columns:
                state[f"{table}.{column}"][part[f"{table}.row"]] = part[f"{table}.{column}"]
    rows = np.flatnonzero(state["plants.id"])
    state["biotope.occupant"][state["plants.y"][rows], state["plants.x"][rows]] = rows + 1
    return state
