"""Replay a block of the calls of a PettingZoo environment whose agents act in turn, and collect its transitions as columns.

See streams.TurnsStream for what a transition is: it may begin in one block and end in a later one.
"""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np

from replayer.datasets.request import Request
from replayer.datasets.rows.columns import Array
from replayer.datasets.transitions.quick.quick_calls import (
    BlockOfCalls,
    Replayed,
    columns_of_agents,
    ensure_compared,
    values_of_rows,
)
from replayer.datasets.transitions.quick.space_columns import flags
from replayer.datasets.transitions.streams import EpisodesOnTape
from replayer.datasets.transitions.transition import EnvironmentFacts
from replayer.datasets.transitions.transition_rows import ENDS, TransitionColumns
from sim.adapters.gymnasium.inputs import decode_call

NOWHERE = -1


@attrs.define(eq=False)
class _Turn:
    """A turn whose agent has not had its next one.

    Attributes:
        tick: of the observation. seen, done: the places of observation and action among those of the block.
        kept: both, as parts by column, from one block to the next.
    """

    tick: int
    seen: int
    done: int
    kept: tuple[dict[str, Any], dict[str, Any]] = attrs.field(factory=lambda: ({}, {}))


@attrs.define(eq=False)
class _Rows:
    """The transitions of a block, by what each has."""

    ends: list[int] = attrs.field(factory=list)
    begins: list[int] = attrs.field(factory=list)
    agents: list[str] = attrs.field(factory=list)
    steps: list[int] = attrs.field(factory=list)
    seen: list[int] = attrs.field(factory=list)
    then: list[int] = attrs.field(factory=list)
    done: list[int] = attrs.field(factory=list)
    rewards: list[Any] = attrs.field(factory=list)
    flags: tuple[list[Any], list[Any]] = attrs.field(factory=lambda: ([], []))


class TurnsCalls:
    """The calls of an environment whose agents act in turn. See Replayer for the methods."""

    def __init__(self, simulation: Any, facts: EnvironmentFacts, columns: TransitionColumns, request: Request) -> None:
        self._simulation = simulation
        self._observed, self._see, self._done, self._do, self._ignored = columns_of_agents(facts, columns, request)
        self._episodes = EpisodesOnTape(facts)
        self._starts = [episode.first_tick for episode in facts.episodes]
        self._is_known = False
        self._open: dict[Any, _Turn] = {}
        self._turns: dict[Any, int] = {}  # By agent: the number of its actions in this episode.
        self._counts = [0, 0]  # Of observations and of actions in this block.

    def start_of(self, first: int) -> int:
        """See Replayer. Only the first tick of an episode has no turns before it."""
        return max((tick for tick in self._starts if tick <= first), default=first)

    def begin(self, tick: int) -> None:
        """See Replayer."""
        episode = self._episodes.at(tick)
        self._is_known = episode is not None and episode.first_tick == tick
        self._open, self._turns = {}, {}

    def replay(self, block: BlockOfCalls) -> Replayed:
        """See Replayer."""
        simulation, last, rows = self._simulation, self._simulation.last, _Rows()
        self._take_up()
        agent, is_over, seen = last.agent, _is_over(last), self._look()
        for index, (inputs, expected) in enumerate(zip(block.calls.inputs(), block.expected, strict=True)):
            tick = block.calls.first_tick + index
            is_step = tick not in block.others
            turn = None
            if is_step and self._is_known and agent is not None and not is_over and str(agent) not in self._ignored:
                self._do[str(agent)](decode_call(inputs)[1] if type(inputs) is dict else inputs)
                turn = _Turn(tick - 1, seen, self._counts[1])
                self._counts[1] += 1
            simulation.step(inputs)
            ensure_compared(simulation, expected)
            if tick in block.attempts:
                continue
            agent, is_over, seen, before = last.agent, _is_over(last), self._look(), agent
            if not is_step:
                self._open, self._turns, self._is_known = {}, {}, True
            elif turn is not None:
                self._open[before] = turn
            if is_step and agent in self._open:
                self._close(index, agent, seen, rows)
        return self._replayed(rows)

    def _close(self, index: int, agent: Any, then: int, rows: _Rows) -> None:
        turn, last = self._open.pop(agent), self._simulation.last
        self._turns[agent] = step = self._turns.get(agent, -1) + 1
        rows.ends.append(index)
        rows.begins.append(turn.tick)
        rows.agents.append(str(agent))
        rows.steps.append(step)
        rows.seen.append(turn.seen)
        rows.then.append(then)
        rows.done.append(turn.done)
        rows.rewards.append(last.rewards)
        rows.flags[0].append(last.terminations)
        rows.flags[1].append(last.truncations)

    def _replayed(self, rows: _Rows) -> Replayed:
        observed, done = self._observed.columns(), self._done.columns()
        for turn in self._open.values():
            turn.kept = _parts_at(observed, turn.seen), _parts_at(done, turn.done)
        done = {name: column[np.array(rows.done, np.int64)] for name, column in done.items()}
        places = np.array(rows.seen, np.int64), np.array(rows.then, np.int64)
        return Replayed(
            np.array(rows.ends, np.int64),
            rows.agents,
            values_of_rows(observed, *places, done, rows.rewards),
            dict(zip(ENDS, map(flags, rows.flags), strict=True)),
            begins=np.array(rows.begins, np.int64),
            steps=np.array(rows.steps, np.int64),
        )

    def _take_up(self) -> None:
        """Begin a block with the turns that are open."""
        self._observed.clear()
        self._done.clear()
        for place, turn in enumerate(self._open.values()):
            self._observed.add_parts(turn.kept[0])
            self._done.add_parts(turn.kept[1])
            turn.seen = turn.done = place
        self._counts = [len(self._open), len(self._open)]

    def _look(self) -> int:
        """Add the observation of the selected agent; return its place."""
        last = self._simulation.last
        if last.agent is None or str(last.agent) in self._ignored:
            return NOWHERE
        self._see[str(last.agent)](last.observations)
        self._counts[0] += 1
        return self._counts[0] - 1


def _is_over(last: Any) -> bool:
    return bool(last.terminations or last.truncations)


def _parts_at(columns: dict[str, Array], place: int) -> dict[str, Any]:
    return {name: column[place].copy() for name, column in columns.items()}
