"""What happened in the step just made, for Meadow.events(): output, which no step reads.

Phases hand over copies of what they have at hand, if somebody wants to hear of it; words are made of it only when he
asks. Nobody does, as a rule: then a step costs next to nothing more.

Order: the phases in theirs; within the inputs as they are carried out; else kind by kind as the phase goes, each in
ascending ids (links by both of theirs), but what a swarm does in the interaction swarm by swarm. Rows of tables are
nowhere told, and decide nothing.
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
        wanted: whether what happens is to be collected, from the next step on.
        is_open: whether it is, or was, in the step that was made last; False before there was one.
    """

    def __init__(self, config: MeadowConfig) -> None:
        self._flora = [species.name for species in config.flora]
        self._herbivores = [species.name for species in config.herbivores]
        self._substances = [substance.name for substance in config.substances]
        self._told: list[tuple[Callable[..., Iterator[Event]], tuple[Any, ...]]] = []
        self.wanted = self.is_open = False
        self._start = 0  # The tick to which no step has led.

    def begin(self) -> None:
        """A step begins."""
        self._told, self.is_open = [], self.wanted

    def forget(self, tick: int) -> None:
        """The state was replaced by that of a tick: no step has led to it."""
        self._told, self.is_open, self._start = [], False, tick

    def events(self, tick: int) -> list[Event]:
        """All of them, in order. tick: of the state. Raises RuntimeError if its step was made while nobody wanted them."""
        if not self.is_open and tick != self._start:
            raise RuntimeError("what happened in this step was not collected: set events_wanted = True before it")
        return [event for tell, facts in self._told for event in tell(*facts)]

    # --- plants

    def plants_born(self, first_id: int, cells: Sequence[Values], mothers: Values | None) -> None:
        """Plants with ids from first_id on. cells: species, x and y of each. mothers: ids; None for an input."""
        if self.is_open and len(cells[0]):
            self._told.append((self._plants_born, (first_id, cells, mothers)))

    def _plants_born(self, first_id: int, cells: Sequence[Values], mothers: Values | None) -> Iterator[Event]:
        by = "input" if mothers is None else "dispersal"
        own = [None] * len(cells[0]) if mothers is None else mothers.tolist()
        for number, (species, x, y, mother) in enumerate(zip(*_lists(cells), own, strict=True)):
            plant = {"plant": first_id + number, "species": self._flora[species], "x": x, "y": y}
            yield {"kind": "plant_born", **plant, "by": by, "mother": mother}

    def plants_died(self, state: State, rows: Values) -> None:
        """Plants that are about to leave the table, in ascending id."""
        if self.is_open and len(rows):
            names = ("id", "species", "x", "y", "loss_cause", "links")
            self._told.append((self._plants_died, tuple(state[f"plants.{name}"][rows] for name in names)))

    def _plants_died(self, ids: Values, *columns: Values) -> Iterator[Event]:
        *facts, links = columns
        for plant, species, x, y, cause in zip(*_lists((ids, *facts)), strict=True):
            where = {"species": self._flora[species], "x": x, "y": y}
            yield {"kind": "plant_died", "plant": plant, **where, "cause": _word(LossCause(cause))}
        place, direction = np.nonzero(links)
        yield from _pairs(UNLINKED, ids[place], links[place, direction])

    def linked(self, state: State, rows: Values, others: Values) -> None:
        """Each plant of these rows has got a link to the other one."""
        if self.is_open:
            ids = state["plants.id"]
            self._told.append((_pairs, (LINKED, ids[rows], ids[others])))

    # --- swarms

    def swarms_born(self, by: str, swarms: Iterable[Any], first_id: int, mothers: Sequence[int | None]) -> None:
        """Swarms with ids from first_id on, as add_swarms takes them. mothers: their ids; None for those of an input."""
        facts = [(swarm.species, swarm.x, swarm.y, swarm.population) for swarm in swarms]
        if self.is_open and facts:
            self._told.append((self._swarms_born, (by, facts, first_id, mothers)))

    def _swarms_born(self, by: str, facts: Any, first_id: int, mothers: Sequence[int | None]) -> Iterator[Event]:
        for number, ((species, x, y, heads), mother) in enumerate(zip(facts, mothers, strict=True)):
            swarm = {"swarm": first_id + number, "species": self._herbivores[species], "x": x, "y": y, "heads": heads}
            yield {"kind": "swarm_born", **swarm, "by": by, "mother": mother}

    def swarms_died(self, state: State, rows: Values, loss: HeadLoss) -> None:
        """Swarms that are about to leave the table, in ascending id."""
        if self.is_open and len(rows):
            columns = [state[f"swarms.{name}"][rows] for name in ("id", "species", "x", "y")]
            self._told.append((self._swarms_died, (columns, loss)))

    def _swarms_died(self, columns: Sequence[Values], loss: HeadLoss) -> Iterator[Event]:
        for swarm, species, x, y in zip(*_lists(columns), strict=True):
            where = {"species": self._herbivores[species], "x": x, "y": y}
            yield {"kind": "swarm_died", "swarm": swarm, **where, "cause": _word(loss)}

    def heads_lost(self, state: State, rows: Values, heads: Values, loss: HeadLoss) -> None:
        """How many heads each of these swarms lost, those that lost none among them; in ascending id."""
        if self.is_open and heads.any():
            place = np.flatnonzero(heads)
            rows = rows[place]
            columns = [state["swarms.id"][rows], state["swarms.species"][rows], heads[place]]
            self._told.append((self._heads_lost, (columns, loss)))

    def _heads_lost(self, columns: Sequence[Values], loss: HeadLoss) -> Iterator[Event]:
        for swarm, species, heads in zip(*_lists(columns), strict=True):
            yield self._lost(swarm, species, heads, loss)

    def _lost(self, swarm: int, species: int, heads: int, loss: HeadLoss) -> Event:
        own = {"swarm": swarm, "species": self._herbivores[species]}
        return {"kind": HEADS_LOST, **own, "heads": heads, "cause": _word(loss)}

    def deeds(self, state: State, rows: Values, deeds: Values) -> None:
        """What the swarms of these rows, in ascending id, did in the interaction: columns as in swarm_turn.py."""
        if self.is_open:
            own = [state["swarms.id"][rows], state["swarms.species"][rows]]
            plants = np.maximum(deeds[EATEN_FROM], 0)  # Of those that ate from none, any: nobody asks.
            names = [state[f"plants.{name}"][plants] for name in ("id", "species")] if deeds[EATEN].any() else own
            self._told.append(
                (self._deeds, (*own, *names, *(deeds[column].copy() for column in (EATEN, STARVED, BORN))))
            )

    def _deeds(self, *columns: Values) -> Iterator[Event]:
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
        """Substances in these rows, in ascending id, that have begun, are active from now on, or are about to go."""
        if self.is_open and len(rows):
            columns = [state[f"substances.{name}"][rows] for name in ("id", "substance", "owner")]
            self._told.append((self._changed, (kind, columns, cause)))

    def _changed(self, kind: str, columns: Sequence[Values], cause: str | None) -> Iterator[Event]:
        why = {"cause": cause} if cause is not None else {}
        for number, substance, owner in zip(*_lists(columns), strict=True):
            yield {"kind": kind, "defence": number, "substance": self._substances[substance], "plant": owner, **why}


def _pairs(kind: str, one: Values, other: Values) -> Iterator[Event]:
    """Each pair of plants once, whoever of the two it was told of."""
    pairs = {(min(pair), max(pair)) for pair in zip(*_lists((one, other)), strict=True)}
    for first, second in sorted(pairs):
        yield {"kind": kind, "plant": first, "other": second}


def _lists(columns: Sequence[Values]) -> list[list[int]]:
    return [column.tolist() for column in columns]


def _word(cause: LossCause | HeadLoss) -> str:
    return cause.name.lower()
