"""The events of the last step, for Meadow.events(): output that no step reads.

Phases hand over copies of the values they have, if events are enabled. The events are built from them only when
events() is called. Events are disabled by default: then they cost a step almost nothing.

Order: phase by phase. Within the phase inputs, as the inputs are carried out. Otherwise kind by kind as the phase
proceeds, each kind in ascending id (links by both ids); in the interaction swarm by swarm. Rows of tables never appear
in events and never decide their order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from sim.kernel.arithmetic.fixed_point import to_number
from sim.kernel.messages import Event
from sim.kernel.state import State
from sim.worlds.meadow.config.meadow import MeadowConfig
from sim.worlds.meadow.model.layout import HeadLoss, LossCause
from sim.worlds.meadow.model.swarm_turn import BORN, EATEN, EATEN_FROM, STARVED

Values = npt.NDArray[Any]

LINKED, UNLINKED = "linked", "unlinked"
FED, HEADS_BORN, HEADS_LOST = "fed", "heads_born", "heads_lost"
BEGUN, ACTIVE, ENDED = "substance_begun", "substance_active", "substance_ended"


class EventLog:
    """The events of one step.

    Attributes:
        wanted: collect events, from the next step on.
        is_open: events are collected in the current step, or were in the last one; False before the first step.
    """

    def __init__(self, config: MeadowConfig) -> None:
        self._flora = [species.name for species in config.flora]
        self._herbivores = [species.name for species in config.herbivores]
        self._substances = [substance.name for substance in config.substances]
        self._records: list[tuple[Callable[..., Iterator[Event]], tuple[Any, ...]]] = []
        self.wanted = self.is_open = False
        self._start = 0  # The tick of the initial or restored state, which no step produced.

    def begin(self) -> None:
        """Begin a step."""
        self._records, self.is_open = [], self.wanted

    def forget(self, tick: int) -> None:
        """Discard the events: the state was replaced by a restored one at this tick."""
        self._records, self.is_open, self._start = [], False, tick

    def events(self, tick: int) -> list[Event]:
        """Return all events of the step, in order. tick: of the state. Raises RuntimeError if they were not collected."""
        if not self.is_open and tick != self._start:
            raise RuntimeError("the events of this step were not collected: set events_wanted = True before the step")
        return [event for make_events, facts in self._records for event in make_events(*facts)]

    # --- plants

    def plants_born(self, ids: Sequence[int], cells: Sequence[Values], mothers: Values | None) -> None:
        """Note plants with these ids. cells: species, x and y of each. mothers: ids; None for an input."""
        if self.is_open and len(cells[0]):
            self._records.append((self._plants_born, (ids, cells, mothers)))

    def _plants_born(self, ids: Sequence[int], cells: Sequence[Values], mothers: Values | None) -> Iterator[Event]:
        by = "input" if mothers is None else "dispersal"
        mother_ids = [None] * len(cells[0]) if mothers is None else mothers.tolist()
        for plant_id, species, x, y, mother in zip(ids, *_lists(cells), mother_ids, strict=True):
            plant = {"plant": plant_id, "species": self._flora[species], "x": x, "y": y}
            yield {"kind": "plant_born", **plant, "by": by, "mother": mother}

    def plants_died(self, state: State, rows: Values) -> None:
        """Note plants that are about to leave the table, in ascending id."""
        if self.is_open and len(rows):
            names = ("id", "species", "x", "y", "loss_cause", "links")
            self._records.append((self._plants_died, tuple(state[f"plants.{name}"][rows] for name in names)))

    def _plants_died(self, ids: Values, *columns: Values) -> Iterator[Event]:
        *facts, links = columns
        for plant, species, x, y, cause in zip(*_lists((ids, *facts)), strict=True):
            where = {"species": self._flora[species], "x": x, "y": y}
            yield {"kind": "plant_died", "plant": plant, **where, "cause": _word(LossCause(cause))}
        index, direction = np.nonzero(links)
        yield from _pairs(UNLINKED, ids[index], links[index, direction])

    def linked(self, ids: Values, neighbours: Values) -> None:
        """Note a new link from each plant to its neighbour, both by id."""
        if self.is_open:
            self._records.append((_pairs, (LINKED, ids, neighbours)))

    # --- swarms

    def swarms_born(self, by: str, swarms: Iterable[Any], ids: Sequence[int], mothers: Sequence[int | None]) -> None:
        """Note swarms with these ids, as given to add_swarms. mothers: their ids; None for an input."""
        facts = [(swarm.species, swarm.x, swarm.y, swarm.population) for swarm in swarms]
        if self.is_open and facts:
            self._records.append((self._swarms_born, (by, facts, ids, mothers)))

    def _swarms_born(self, by: str, facts: Any, ids: Sequence[int], mothers: Sequence[int | None]) -> Iterator[Event]:
        for swarm_id, (species, x, y, heads), mother in zip(ids, facts, mothers, strict=True):
            swarm = {"swarm": swarm_id, "species": self._herbivores[species], "x": x, "y": y, "heads": heads}
            yield {"kind": "swarm_born", **swarm, "by": by, "mother": mother}

    def swarms_died(self, state: State, rows: Values, loss: HeadLoss) -> None:
        """Note swarms that are about to leave the table, in ascending id."""
        if self.is_open and len(rows):
            columns = [state[f"swarms.{name}"][rows] for name in ("id", "species", "x", "y")]
            self._records.append((self._swarms_died, (columns, loss)))

    def _swarms_died(self, columns: Sequence[Values], loss: HeadLoss) -> Iterator[Event]:
        for swarm, species, x, y in zip(*_lists(columns), strict=True):
            where = {"species": self._herbivores[species], "x": x, "y": y}
            yield {"kind": "swarm_died", "swarm": swarm, **where, "cause": _word(loss)}

    def heads_lost(self, state: State, rows: Values, heads: Values, loss: HeadLoss) -> None:
        """Note the number of heads that each of these swarms lost, which may be 0; in ascending id."""
        if self.is_open and heads.any():
            losers = np.flatnonzero(heads)
            rows = rows[losers]
            columns = [state["swarms.id"][rows], state["swarms.species"][rows], heads[losers]]
            self._records.append((self._heads_lost, (columns, loss)))

    def _heads_lost(self, columns: Sequence[Values], loss: HeadLoss) -> Iterator[Event]:
        for swarm, species, heads in zip(*_lists(columns), strict=True):
            yield self._lost(swarm, species, heads, loss)

    def _lost(self, swarm: int, species: int, heads: int, loss: HeadLoss) -> Event:
        own = {"swarm": swarm, "species": self._herbivores[species]}
        return {"kind": HEADS_LOST, **own, "heads": heads, "cause": _word(loss)}

    def interactions(self, state: State, rows: Values, results: Values) -> None:
        """Note the results of the interaction for the swarms of these rows, in ascending id: columns of swarm_turn.py."""
        if self.is_open:
            own = [state["swarms.id"][rows], state["swarms.species"][rows]]
            plants = np.maximum(results[EATEN_FROM], 0)  # Row 0 for swarms that ate nothing; it is never read.
            names = [state[f"plants.{name}"][plants] for name in ("id", "species")] if results[EATEN].any() else own
            self._records.append(
                (self._interactions, (*own, *names, *(results[column].copy() for column in (EATEN, STARVED, BORN))))
            )

    def _interactions(self, *columns: Values) -> Iterator[Event]:
        for swarm, species, plant, flower, eaten, starved, born in zip(*_lists(columns), strict=True):
            own = {"swarm": swarm, "species": self._herbivores[species]}
            if eaten:
                yield {"kind": FED, **own, "plant": plant, "flora": self._flora[flower], "energy": to_number(eaten)}
            if starved:
                yield self._lost(swarm, species, starved, HeadLoss.STARVATION)
            if born:
                yield {"kind": HEADS_BORN, **own, "heads": born}

    # --- substances

    def substances(self, kind: str, state: State, rows: Values, cause: str | None = None) -> None:
        """Note substances of these rows, in ascending id, that have begun, become active or are about to be removed."""
        if self.is_open and len(rows):
            columns = [state[f"substances.{name}"][rows] for name in ("id", "substance", "owner")]
            self._records.append((self._changed, (kind, columns, cause)))

    def _changed(self, kind: str, columns: Sequence[Values], cause: str | None) -> Iterator[Event]:
        cause_field = {"cause": cause} if cause is not None else {}
        for number, substance, owner in zip(*_lists(columns), strict=True):
            yield {
                "kind": kind,
                "defence": number,
                "substance": self._substances[substance],
                "plant": owner,
                **cause_field,
            }


def _pairs(kind: str, ids: Values, neighbours: Values) -> Iterator[Event]:
    """Yield an event for each pair of plants once, even if it was noted for both."""
    pairs = {(min(pair), max(pair)) for pair in zip(*_lists((ids, neighbours)), strict=True)}
    for first, second in sorted(pairs):
        yield {"kind": kind, "plant": first, "other": second}


def _lists(columns: Sequence[Values]) -> list[list[int]]:
    return [column.tolist() for column in columns]


def _word(cause: LossCause | HeadLoss) -> str:
    return cause.name.lower()
