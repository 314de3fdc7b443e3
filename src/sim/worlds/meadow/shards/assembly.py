"""The whole state, events and ledger of a meadow from the pieces of its stripes.

Rows of the tables are handed out here, by ids alone: a stripe knows nothing of them. Invariant: the arena, with its
capacities and free rows, is the one of a single process.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sim.kernel.messages import Event
from sim.kernel.state import State
from sim.sharding.shard_plan import Piece
from sim.sharding.stripes import Stripes
from sim.worlds.meadow.model.energy_ledger import Ledger
from sim.worlds.meadow.model.event_log import UNLINKED
from sim.worlds.meadow.model.table_rows import add_entities, clear_rows, rows_by_id
from sim.worlds.meadow.shards.piece_changes import apply_cells, apply_columns
from sim.worlds.meadow.shards.stripe import COUNTERS, SHARED, TABLES, Stage, grids_of

INTERACTION: Stage = (2, 0)  # Here, events are in the order of swarms, not of kinds.

_SECOND_KINDS = (UNLINKED, "swarm_died", "substance_ended")  # Of two kinds in a stage, the one that comes second.


def assemble_state(state: State, stripes: Stripes, pieces: Sequence[Piece]) -> None:
    """Advance the state of the whole meadow by one tick."""
    _change_rows(state, pieces)
    for name in SHARED:
        assert all(np.array_equal(piece[name], pieces[0][name]) for piece in pieces), name
        state[name][...] = pieces[0][name]
    for name in COUNTERS:
        state[name][...] = np.sum([piece[name] for piece in pieces], axis=0)
    for name in grids_of(state):
        for shard, piece in enumerate(pieces):
            first, end = stripes.own(shard)
            apply_cells(state[name][..., first:end, :], piece[name])
    for table in TABLES:
        ids = np.concatenate([piece[f"{table}.id"] for piece in pieces])
        rows = rows_by_id(state, table)
        expected = np.sort(ids, kind="stable")  # Fast: sorted runs, one a piece.
        if not np.array_equal(state[f"{table}.id"][rows], expected):
            raise RuntimeError(f"tick {int(state['tick'])}: the shards do not hold each of the {table} exactly once")
        for piece in pieces:
            own = rows[np.searchsorted(state[f"{table}.id"][rows], piece[f"{table}.id"])]
            apply_columns(state, table, own, piece[table])
    state["biotope.occupant"][...] = 0
    rows = np.flatnonzero(state["plants.id"])
    state["biotope.occupant"][state["plants.y"][rows], state["plants.x"][rows]] = rows + 1


def _change_rows(state: State, pieces: Sequence[Piece]) -> None:
    """Free and take rows at the moments of the rules."""
    changes: dict[tuple[Stage, str, str], list[Any]] = {}
    for piece in pieces:
        for stage, table, change, ids in piece["row_changes"]:
            changes.setdefault((stage, table, change), []).append(ids)
    for (_, table, change), parts in sorted(changes.items(), key=lambda item: item[0]):
        ids = np.sort(np.concatenate(parts))
        if change == "free":
            clear_rows(state, table, TABLES[table], np.flatnonzero(np.isin(state[f"{table}.id"], ids)))
            continue
        add_entities(state, table, f"next_{table[:-1]}_id", {}, len(ids), ids)


def assemble_events(pieces: Sequence[Piece]) -> list[Event]:
    """Return the events of the step, in the order of a single process."""
    stages: dict[Stage, list[Event]] = {}
    for piece in pieces:
        for stage, events in piece["events"]:
            stages.setdefault(stage, []).extend(events)
    assembled: list[Event] = []
    for stage, events in sorted(stages.items(), key=lambda item: item[0]):
        events.sort(key=(lambda event: event["swarm"]) if stage == INTERACTION else _place)
        for event in events:
            if event["kind"] != UNLINKED or event != assembled[-1]:  # Both of the pair have died, in two stripes.
                assembled.append(event)
    return assembled


def _place(event: Event) -> tuple[Any, ...]:
    """The place of an event within its stage."""
    for key in ("defence", "swarm", "plant"):
        if key in event:
            return event["kind"] in _SECOND_KINDS, event[key], event.get("other", 0)
    raise AssertionError(event)


def assemble_ledger(ledger: Ledger, tick: int, pieces: Sequence[Piece]) -> None:
    """Add the flows of all stripes to the ledger, phase by phase. Raises LedgerError if the sums do not agree."""
    for phases in zip(*(piece["phases"] for piece in pieces), strict=True):
        for _, flows, _ in phases:
            for flow, amount in flows.items():
                ledger.note(flow, amount)
        plants, swarms = (sum(found[place] for _, _, found in phases) for place in (0, 1))
        ledger.close_with(phases[0][0], tick, (plants, swarms))
