"""A stripe: the rows of the meadow that one shard owns, as a small meadow of its own with a halo around it.

Invariants between ticks:
    1. Plants, swarms, substances and the signal and energy layers are those of the own rows; elsewhere there are none.
    2. ``biotope.total`` and ``biotope.toxins`` are right in one row of halo, ``biotope.wind`` in all of it.
    3. Ids, parameters, budgets and the drought are equal in all shards. Counters hold what happened in this one.
Within the state, y counts from the first row that is held; messages and pieces count y in the whole meadow.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
import numpy as np
import numpy.typing as npt

from sim.kernel.arithmetic.fixed_point import ONE, PLACES
from sim.kernel.messages import Event
from sim.kernel.state import Snapshot, State
from sim.sharding.shard_plan import Piece
from sim.sharding.stripes import RowsOfOthers, Stripes
from sim.worlds.meadow.config.meadow import MeadowConfig
from sim.worlds.meadow.model.context import PhaseContext, Values
from sim.worlds.meadow.model.energy_ledger import Flow, Ledger, balance
from sim.worlds.meadow.model.layout import make_schema
from sim.worlds.meadow.model.plants import COLUMNS as PLANT_COLUMNS
from sim.worlds.meadow.model.swarms import COLUMNS as SWARM_COLUMNS
from sim.worlds.meadow.model.table_rows import rows_by_id
from sim.worlds.meadow.phases.signalling import COLUMNS as SUBSTANCE_COLUMNS
from sim.worlds.meadow.shards.piece_changes import SentRows

HALO = 2  # A swarm moves one cell, and its daughter is one cell further.

TABLES = {"plants": PLANT_COLUMNS, "swarms": SWARM_COLUMNS, "substances": SUBSTANCE_COLUMNS}
COUNTERS = ("births", "deaths", "defence_cost", "heads_born", "heads_lost")
SHARED = (
    *("tick", "seed", "next_plant_id", "next_swarm_id", "next_substance_id", "parameters", "player_budget"),
    *("climate.drought_ticks", "climate.drought_percent", "biotope.front"),
)
GRIDS = ("biotope.energy", "biotope.total", "biotope.flow", "biotope.signals", "biotope.toxins", "biotope.wind")

Stage = tuple[int, int]  # A moment within the tick, in the order of the rules: phase, and number in it.
RowChange = tuple[Stage, str, str, Values]  # When; the table; "add" or "free"; the ids.


def round_cells(wind: int) -> int:
    """Return the cells that a wind carries a signal in a tick, in whichever direction."""
    return abs((wind + ONE // 2) >> PLACES)


def grids_of(state: State | Snapshot) -> tuple[str, ...]:
    """Return the names of all fields that have a value for each cell, but for the occupant."""
    return (*GRIDS, *(name for name in state if name.startswith("sight.")))


class Stripe:
    """The rows of one shard, and the book of what came and went in them in the current tick.

    Attributes:
        number, stripes: which of all stripes it is.
        config: of the whole meadow.
        context: of the small meadow: its state, with its own grid.
        first: the number, in the whole meadow, of the first row that is held.
        top, bottom: the first own row, and the one after the last, in the state.
        south_max: cells that no wind of the whole meadow carries a signal further than, to the south or to the north.
    """

    def __init__(self, number: int, stripes: Stripes, config: MeadowConfig, *, has_ledger: bool) -> None:
        self.number, self.stripes, self.config = number, stripes, config
        self.first, last = stripes.held(number)
        own = stripes.own(number)
        self.top, self.bottom = own[0] - self.first, own[1] - self.first
        grid = attrs.evolve(config.grid, height=last - self.first)
        local = attrs.evolve(config, grid=grid, plants=(), swarms=(), inputs=())
        self.south_max = 0
        self._schema = make_schema(local)
        self._has_ledger = has_ledger
        self.context = PhaseContext.of(State(self._schema), local, Ledger() if has_ledger else None)
        self._sent = SentRows()
        self._row_changes: list[RowChange] = []
        self._events: list[tuple[Stage, list[Event]]] = []
        self._phases: list[tuple[str, dict[Flow, int], tuple[int, int]]] = []

    @property
    def state(self) -> State:
        """The state of the small meadow."""
        return self.context.state

    # --- the state

    def load(self, whole: Snapshot) -> None:
        """Take the own rows, and the halo, out of a state of the whole meadow."""
        ledger = Ledger() if self._has_ledger else None
        self.context = PhaseContext.of(State(self._schema), self.context.config, ledger)
        state, (_, end) = self.state, self.stripes.held(self.number)
        for name in SHARED:
            state[name][...] = whole[name]
        if self.number == 0:  # What was counted before counts once.
            for name in COUNTERS:
                state[name][...] = whole[name]
        for name in grids_of(state):
            state[name][...] = whole[name][..., self.first : end, :]
        self.clear_halo(state["biotope.energy"])
        self.clear_halo(state["biotope.signals"])
        plants: Values = np.zeros(0, np.int64)
        for table, columns in TABLES.items():
            rows = rows_by_id(whole, table)
            if table == "substances":
                rows = rows[np.isin(whole["substances.owner"][rows], plants)]
            else:
                rows = rows[self.stripes.owner(whole[f"{table}.y"][rows]) == self.number]
            if table == "plants":
                plants = whole["plants.id"][rows]
            added = state.add_rows(table, len(rows))
            for column in columns:
                state[f"{table}.{column}"][added] = whole[f"{table}.{column}"][rows]
            if "y" in columns:
                state[f"{table}.y"][added] -= self.first
        state["biotope.occupant"][state["plants.y"], state["plants.x"]] = np.arange(len(plants)) + 1
        self._sent.take(self._own_cells(), self._own_tables())
        self.context.event_log.forget(self.context.tick)
        self.south_max = max((round_cells(int(part)) for part in np.unique(whole["biotope.wind"][1])), default=0)

    def clear_halo(self, layers: npt.NDArray[Any]) -> None:
        """Set the rows that others own to 0. layers: (..., height, width)."""
        layers[..., : self.top, :] = 0
        layers[..., self.bottom :, :] = 0

    def owns(self, y: Values) -> npt.NDArray[np.bool_]:
        """Return the mask of the rows, as the state counts them, that are own ones."""
        own: npt.NDArray[np.bool_] = (y >= self.top) & (y < self.bottom)
        return own

    def ids(self, table: str) -> Values:
        """Return the ids of a table, in the order of its rows."""
        ids = self.state[f"{table}.id"]
        living: Values = ids[ids != 0]
        return living

    # --- rows of grids for others

    def rows_for(self, other: int, layers: npt.NDArray[Any], width: int) -> RowsOfOthers:
        """Return the own rows that are at most width rows away from those of another shard. layers: (..., height, width)."""
        ranges = self.stripes.rows_near(self.number, other, width)
        return [(start, layers[..., start - self.first : stop - self.first, :].copy()) for start, stop in ranges]

    def put_rows(self, layers: npt.NDArray[Any], rows: RowsOfOthers) -> None:
        """Write rows that another shard sent."""
        for start, values in rows:
            layers[..., start - self.first : start - self.first + values.shape[-2], :] = values

    # --- the book of the tick

    def begin_tick(self, *, wants_events: bool) -> None:
        """Begin a tick with an empty book."""
        self._row_changes, self._events, self._phases = [], [], []
        self.context.event_log.wanted = wants_events
        self.context.event_log.begin()

    def note_new(self, stage: Stage, table: str, ids: Values) -> None:
        """Note entities that have come into a table."""
        if len(ids):
            self._row_changes.append((stage, table, "add", np.array(ids, np.int64)))

    def note_gone(self, stage: Stage, table: str, ids: Values) -> None:
        """Note entities that have left a table, to where no other shard has them."""
        if len(ids):
            self._row_changes.append((stage, table, "free", np.array(ids, np.int64)))

    def close_stage(self, stage: Stage) -> None:
        """Keep the events since the last stage."""
        log = self.context.event_log
        if log.is_open:
            events = log.events(self.context.tick)
            log.begin()
            for event in events:
                if "y" in event:
                    event["y"] = int(event["y"]) + self.first
            if events:
                self._events.append((stage, events))

    def close_phase(self, name: str) -> None:
        """Keep the flows of energy of a phase, and the energy after it, if there is a ledger."""
        if self.context.ledger is not None:
            self._phases.append((name, self.context.ledger.take_open(), balance(self.state)))

    def renumber_substances(self, ids: Mapping[int, int]) -> None:
        """Replace ids of substances that were used for the time being, in the book."""
        self._row_changes = [
            (stage, table, change, np.array([ids.get(one, one) for one in noted.tolist()], np.int64))
            if table == "substances"
            else (stage, table, change, noted)
            for stage, table, change, noted in self._row_changes
        ]
        for _, events in self._events:
            for event in events:
                if "defence" in event:
                    event["defence"] = ids.get(event["defence"], event["defence"])

    def piece(self) -> Piece:
        """Return what has changed in the own part of the state since the last piece, and the book of the tick."""
        state = self.state
        piece: dict[str, Any] = {name: state[name].copy() for name in (*COUNTERS, *SHARED)}
        for name, cells in self._own_cells().items():
            piece[name] = self._sent.cell_changes(name, cells)
        for table, columns in self._own_tables().items():
            piece[f"{table}.id"] = columns["id"]
            piece[table] = self._sent.column_changes(table, columns)
        return piece | {"row_changes": self._row_changes, "events": self._events, "phases": self._phases}

    def _own_cells(self) -> dict[str, npt.NDArray[Any]]:
        return {name: self.state[name][..., self.top : self.bottom, :] for name in grids_of(self.state)}

    def _own_tables(self) -> dict[str, dict[str, npt.NDArray[Any]]]:
        """The tables, in ascending id; y counts in the whole meadow."""
        tables = {}
        for table, names in TABLES.items():
            rows = rows_by_id(self.state, table)
            tables[table] = {name: self.state[f"{table}.{name}"][rows] for name in names}
            if "y" in names:
                tables[table]["y"] = tables[table]["y"] + self.first
        return tables
