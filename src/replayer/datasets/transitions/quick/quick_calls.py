"""Replay a block of an environment's calls and collect what each transition of it saw, did and got, as columns.

Invariant: what an environment returns or is given is copied before its next step, which may overwrite it.
"""

from __future__ import annotations

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
from sim.adapters.gymnasium.inputs import decode_call, passed_on


@attrs.frozen(eq=False)
class BlockOfCalls:
    """A block to replay.

    Attributes:
        calls: the decoded ticks. expected: the hash of each state that is compared, None for the others.
        others: the ticks of calls that are no steps. attempts: those of calls that raised.
    """

    calls: DecodedBlock
    expected: Sequence[int | None]
    others: frozenset[int]
    attempts: frozenset[int]

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


class _FromAnywhere:
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


class SingleCalls(_FromAnywhere):
    """The calls of a Gymnasium environment. Between two states that are compared, its steps are called without the adapter."""

    def __init__(self, simulation: Any, facts: EnvironmentFacts, columns: TransitionColumns) -> None:
        self._simulation = simulation
        self._observed, self._done = SpaceColumns(OBSERVED, columns.forms), SpaceColumns(DONE, columns.forms)
        observation, action = facts.space("observation"), facts.space("action")
        assert observation is not None
        assert action is not None
        self._see, self._do = self._observed.adder(observation), self._done.adder(action)
        self._arrays = self._observed.arrays_of(observation)
        form = columns.forms.get(DONE)
        self._number = form.dtype if form is not None and not form.shape else ""

    def replay(self, block: BlockOfCalls) -> Replayed:
        """See Replayer."""
        simulation, last, see = self._simulation, self._simulation.last, self._see
        self._observed.clear()
        self._done.clear()
        actions = block.actions(self._number)
        done = self._done_numbers(block)
        if done is None:
            for action in actions:
                if action is not None:
                    self._do(action)
            done = self._done.columns()
        has_seen = np.ones(len(actions) + 1, np.bool_)
        has_seen[0] = last.observation is not None  # None before the first reset.
        if has_seen[0]:
            see(last.observation)
        rewards: list[Any] = []
        ends: tuple[list[Any], list[Any]] = ([], [])
        begin, first, skips = 0, block.calls.first_tick, simulation.capture_skipped
        inputs = block.calls.inputs_at
        stops = [
            i
            for i, (action, one) in enumerate(zip(actions, block.expected, strict=True))
            if action is None or one is not None
        ]
        for stop in [*stops, len(actions)]:
            if begin < stop:
                self._steps(actions[begin:stop], rewards, *ends)
            begin = stop + 1
            if stop == len(actions):
                break
            expected = block.expected[stop]
            if expected is None and first + stop not in block.attempts and self._reset(inputs(stop)):
                continue
            if skips is (expected is not None):
                skips = simulation.capture_skipped = expected is None
            if actions[stop] is not None:
                observation, reward, is_terminated, is_truncated, _ = simulation.act(actions[stop])
                see(observation)
                rewards.append(reward)
                ends[0].append(is_terminated)
                ends[1].append(is_truncated)
            else:
                simulation.step(inputs(stop))
                has_seen[stop + 1] = first + stop not in block.attempts
                if has_seen[stop + 1]:
                    see(last.observation)
            ensure_compared(simulation, expected)
        places = np.cumsum(has_seen) - 1
        at = np.array([index for index, action in enumerate(actions) if action is not None], np.int64)
        values = values_of_rows(self._observed.columns(), places[at], places[at + 1], done, rewards)
        return Replayed(at, None, values, dict(zip(ENDS, map(flags, ends), strict=True)))

    def _done_numbers(self, block: BlockOfCalls) -> dict[str, Array] | None:
        """The column of actions, if all of a block's are numbers of its dtype, as they were decoded; else None."""
        columns, first = block.calls.columns, block.calls.first_tick
        if not isinstance(columns, NumberInputs) or columns.key != self._number or not self._number:
            return None
        if any(first + index not in block.others for index in columns.others):
            return None
        is_step = np.ones(len(columns.numbers), np.bool_)
        is_step[[*columns.others]] = False
        return {DONE: columns.numbers[is_step].astype(self._number)}

    def _steps(self, actions: list[Any], rewards: list[Any], terminated: list[Any], truncated: list[Any]) -> None:
        """Make steps that nothing is captured of."""
        step = self._simulation.env.step
        see, reward_with = self._see, rewards.append
        terminate_with, truncate_with = terminated.append, truncated.append
        if self._arrays is not None:  # The most frequent case, without a call of ours for each step.
            see_with = self._arrays.append
            for action in actions:
                observation, reward, is_terminated, is_truncated, _ = step(action)
                see_with(observation.copy())
                reward_with(reward)
                terminate_with(is_terminated)
                truncate_with(is_truncated)
        else:
            for action in actions:
                observation, reward, is_terminated, is_truncated, _ = step(action)
                see(observation)
                reward_with(reward)
                terminate_with(is_terminated)
                truncate_with(is_truncated)
        self._simulation.count_steps(len(actions))

    def _reset(self, inputs: Any) -> bool:
        """Make a reset that nothing is captured of; False if the inputs are another call. Raises ValueError."""
        if type(inputs) is not dict or "reset" not in inputs:
            return False
        _, arguments = decode_call(inputs)
        observation, _ = self._simulation.env.reset(**passed_on(arguments))
        self._see(observation)
        self._simulation.count_steps(1)
        return True


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


class ParallelCalls(_FromAnywhere):
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
