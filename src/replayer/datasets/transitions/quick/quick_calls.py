"""Replay a block of an environment's calls and collect what each transition of it saw, did and got, as columns.

Invariant: what an environment returns or is given is copied before its next step, which may overwrite it.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import attrs
import numpy as np

from recorder.format.recording.decoded_blocks import DecodedBlock
from recorder.format.recording.frame_columns import NumberInputs
from replayer.datasets.request import Request
from replayer.datasets.rows.columns import Array, Column
from replayer.datasets.transitions.quick.space_columns import Add, SpaceColumns, UnusualError, decimals, flags
from replayer.datasets.transitions.transition import EnvironmentFacts
from replayer.datasets.transitions.transition_rows import DONE, ENDS, OBSERVED, THEN, WORTH, TransitionColumns
from sim.adapters.gymnasium.inputs import decode_call


@attrs.frozen(eq=False, slots=False)
class BlockOfCalls:
    """A block to replay.

    Attributes:
        calls: the decoded ticks. compared: the indices of the states that are compared, in order.
        others: the ticks of calls that are no steps. attempts: those of calls that raised.
    """

    calls: DecodedBlock
    compared: Sequence[int]
    others: frozenset[int]
    attempts: frozenset[int]

    @functools.cached_property
    def expected(self) -> Sequence[int | None]:
        """The hash of each state that is compared, None for the others."""
        hashes = self.calls.hashes
        if len(self.compared) == len(hashes):
            return hashes if isinstance(hashes, list) else hashes.tolist()
        expected: list[int | None] = [None] * len(hashes)
        for index in self.compared:
            expected[index] = int(hashes[index])
        return expected

    def actions(self, number: str = "") -> list[Any]:
        """The action of each call as it was passed; None for a call that is no step. Raises UnusualError, ValueError.

        number: the dtype of most actions, if these are NumPy numbers.
        """
        make = np.dtype(number).type if number else None
        columns = self.calls.columns
        if isinstance(columns, NumberInputs) and columns.key in ("", number):
            return self._actions_of_numbers(columns)
        actions: list[Any] = []
        for tick, inputs in enumerate(self.calls.inputs(), self.calls.first_tick):
            action = inputs
            if type(inputs) is dict:
                plain = inputs.get(number)
                if plain is not None and len(inputs) == 1 and make is not None:
                    action = make(plain)
                else:
                    action = None if tick in self.others else decode_call(inputs)[1]
            elif inputs is None:
                raise UnusualError
            actions.append(action)
        return actions

    def _actions_of_numbers(self, columns: NumberInputs) -> list[Any]:
        actions: list[Any] = [*columns.numbers.astype(columns.key)] if columns.key else columns.numbers.tolist()
        for index, inputs in columns.others.items():
            if inputs is None:
                raise UnusualError
            is_step = self.calls.first_tick + index not in self.others
            action = inputs if type(inputs) is not dict else decode_call(inputs)[1] if is_step else None
            actions[index] = action
        return actions


@attrs.frozen(eq=False)
class Replayed:
    """The transitions of a block.

    Attributes:
        indices: of the calls that they end with. agents: of each; None for an environment without agents.
        values: obs, action, reward and next. flags: terminated and truncated.
        begins: the ticks of the observations; None if each is the tick before the last one. steps: of the episodes; None
            if each tick is one. facts: the columns without a form; None if they follow from the ticks.
    """

    indices: Array
    agents: list[str] | None
    values: Mapping[str, Array]
    flags: Mapping[str, Array]
    begins: Array | None = None
    steps: Array | None = None
    facts: Mapping[str, Column] | None = None


class Replayer(Protocol):
    """Replays blocks one after the other. What was unusual raises; the state of the simulation is then unknown."""

    def start_of(self, first: int) -> int:
        """The tick from which ticks have to be replayed, to make the transitions after the first one."""

    def begin(self, tick: int) -> None:
        """Take the simulation as it is at a tick."""

    def replay(self, block: BlockOfCalls) -> Replayed:
        """Make the calls of a block."""


class FromAnywhere:
    """A replayer whose transitions depend on their own ticks only. See Replayer."""

    def start_of(self, first: int) -> int:
        """See Replayer."""
        return first

    def begin(self, tick: int) -> None:
        """See Replayer."""


def ensure_compared(simulation: Any, expected: int | None) -> None:
    """Raise UnusualError unless the state has the hash that is expected, if one is."""
    if expected is not None and simulation.state.hash() != expected:
        raise UnusualError


def values_of_rows(
    observed: Mapping[str, Array], before: Array, after: Array, done: Mapping[str, Array], rewards: list[Any]
) -> dict[str, Array]:
    """The columns of the rows. before, after: the rows' places among the observations."""
    if any(len(column) != len(before) for column in done.values()):
        raise UnusualError
    seen = {name: column[before] for name, column in observed.items()}
    then = {THEN + name.removeprefix(OBSERVED): column[after] for name, column in observed.items()}
    return {**seen, **done, WORTH: decimals(rewards), **then}


def columns_of_agents(
    facts: EnvironmentFacts, columns: TransitionColumns, request: Request
) -> tuple[SpaceColumns, dict[str, Add], SpaceColumns, dict[str, Add], frozenset[str]]:
    """Observations and actions, each with a function by agent that adds one; and the agents that are not requested."""
    chosen = [agent for agent in facts.agents if request.agents is None or agent in request.agents]
    observed, done = SpaceColumns(OBSERVED, columns.forms), SpaceColumns(DONE, columns.forms)
    see: dict[str, Add] = {}
    do: dict[str, Add] = {}
    for agent in chosen:
        seen, acted = facts.space("observation", agent), facts.space("action", agent)
        assert seen is not None
        assert acted is not None
        see[agent], do[agent] = observed.adder(seen), done.adder(acted)
    return observed, see, done, do, frozenset(facts.agents) - frozenset(chosen)


class ParallelCalls(FromAnywhere):
    """The calls of a PettingZoo environment whose agents act at once."""

    def __init__(self, simulation: Any, facts: EnvironmentFacts, columns: TransitionColumns, request: Request) -> None:
        self._simulation = simulation
        self._observed, self._see, self._done, self._do, self._ignored = columns_of_agents(facts, columns, request)
        self._count = 0  # Of the observations of this block so far.

    def replay(self, block: BlockOfCalls) -> Replayed:
        """See Replayer."""
        simulation, last = self._simulation, self._simulation.last
        self._observed.clear()
        self._done.clear()
        self._count = 0
        before = self._look(last.observations)
        rows: list[tuple[int, int, int, int, str]] = []  # Call, observation before and after, action, agent.
        rewards: list[Any] = []
        ends: tuple[list[Any], list[Any]] = ([], [])
        done = 0
        inputs = block.calls.inputs()
        for index, (actions, expected) in enumerate(zip(block.actions(), block.expected, strict=True)):
            acting = [] if actions is None else [agent for agent in actions if str(agent) not in self._ignored]
            for agent in acting:
                self._do[str(agent)](actions[agent])
            simulation.step(inputs[index])
            ensure_compared(simulation, expected)
            if block.calls.first_tick + index in block.attempts:
                continue
            after = self._look(last.observations)
            for number, agent in enumerate(acting, done):
                if agent in last.rewards or agent in last.observations:  # Otherwise it had left before.
                    rows.append((index, before[agent], after[agent], number, str(agent)))
                    rewards.append(last.rewards[agent])
                    ends[0].append(last.terminations[agent])
                    ends[1].append(last.truncations[agent])
            done += len(acting)
            before = after
        at, seen, then, number_of, agents = zip(*rows, strict=True) if rows else ((), (), (), (), ())
        actions_of_rows = np.array(number_of, np.int64)
        done_columns = {name: column[actions_of_rows] for name, column in self._done.columns().items()}
        places = np.array(seen, np.int64), np.array(then, np.int64)
        values = values_of_rows(self._observed.columns(), *places, done_columns, rewards)
        return Replayed(np.array(at, np.int64), [*agents], values, dict(zip(ENDS, map(flags, ends), strict=True)))

    def _look(self, observations: Mapping[Any, Any] | None) -> dict[Any, int]:
        """Add the observations of the chosen agents; return the place of each."""
        places = {}
        for agent, observation in (observations or {}).items():
            if str(agent) not in self._ignored:
                self._see[str(agent)](observation)
                places[agent] = self._count
                self._count += 1
        return places
