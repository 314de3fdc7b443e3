"""Replay the calls of a Gymnasium environment. Between two states that are compared, it is called without the adapter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from recorder.format.recording.frame_columns import NumberInputs
from replayer.datasets.rows.columns import Array
from replayer.datasets.transitions.quick.quick_calls import (
    BlockOfCalls,
    FromAnywhere,
    Replayed,
    ensure_compared,
    values_of_rows,
)
from replayer.datasets.transitions.quick.space_columns import SpaceColumns, UnusualError, flags
from replayer.datasets.transitions.transition import EnvironmentFacts
from replayer.datasets.transitions.transition_rows import DONE, ENDS, OBSERVED, TransitionColumns
from sim.adapters.gymnasium.inputs import decode_call, passed_on


class SingleCalls(FromAnywhere):
    """The calls of a Gymnasium environment."""

    def __init__(self, simulation: Any, facts: EnvironmentFacts, columns: TransitionColumns) -> None:
        self._simulation = simulation
        self._observed, self._done = SpaceColumns(OBSERVED, columns.forms), SpaceColumns(DONE, columns.forms)
        observation, action = facts.space("observation"), facts.space("action")
        assert observation is not None
        assert action is not None
        self._see, self._do = self._observed.adder(observation), self._done.adder(action)
        self._only = self._observed.only_column(observation)
        form = columns.forms.get(DONE)
        self._number = form.dtype if form is not None and not form.shape else ""

    def replay(self, block: BlockOfCalls) -> Replayed:
        """See Replayer."""
        last, see = self._simulation.last, self._see
        self._observed.clear()
        self._done.clear()
        actions = block.actions(self._number)
        is_step = _steps_among(block, actions)
        done = self._done_numbers(block, is_step)
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
        begin, resets = 0, _plain_resets(block)
        for stop in _stops(block, is_step):
            if begin < stop:
                self._steps(actions[begin:stop], rewards, *ends)
            begin = stop + 1
            if stop in resets:
                observation, _ = self._simulation.env.reset(**resets[stop])
                see(observation)
                self._simulation.count_steps(1)
            else:
                has_seen[stop + 1] = self._stop(block, stop, actions[stop], rewards, *ends)
        if begin < len(actions):
            self._steps(actions[begin:], rewards, *ends)
        places = has_seen.cumsum() - 1
        at = is_step.nonzero()[0]
        values = values_of_rows(self._observed.columns(), places[at], places[at + 1], done, rewards)
        return Replayed(at, None, values, dict(zip(ENDS, map(flags, ends), strict=True)))

    def _stop(
        self,
        block: BlockOfCalls,
        index: int,
        action: Any,
        rewards: list[Any],
        terminated: list[Any],
        truncated: list[Any],
    ) -> bool:
        """Make a call whose state is compared, or that is neither a step nor a reset. Return True if it gave an observation."""
        simulation, expected, tick = self._simulation, block.expected[index], block.calls.first_tick + index
        if simulation.capture_skipped is (expected is not None):
            simulation.capture_skipped = expected is None
        has_seen = True
        if action is not None:
            observation, reward, is_terminated, is_truncated, _ = simulation.act(action)
            self._see(observation)
            rewards.append(reward)
            terminated.append(is_terminated)
            truncated.append(is_truncated)
        else:
            simulation.step(block.calls.inputs_at(index))
            has_seen = tick not in block.attempts
            if has_seen:
                self._see(simulation.last.observation)
        ensure_compared(simulation, expected)
        return has_seen

    def _done_numbers(self, block: BlockOfCalls, is_step: Array) -> dict[str, Array] | None:
        """The column of actions, if all of a block's are numbers of its dtype, as they were decoded; else None."""
        columns = block.calls.columns
        if not isinstance(columns, NumberInputs) or columns.key != self._number or not self._number:
            return None
        if np.count_nonzero(is_step) != len(is_step) - len(columns.others):
            return None
        return {DONE: columns.numbers[is_step].astype(self._number)}

    def _steps(self, actions: list[Any], rewards: list[Any], terminated: list[Any], truncated: list[Any]) -> None:
        """Make steps that nothing is captured of."""
        step = self._simulation.env.step
        see, only = self._see, self._only
        if only is not None and not only.shape and type(self._simulation.last.observation) is np.ndarray:
            only = None  # An array of one number may be written to later.
        reward_with, terminate_with, truncate_with = rewards.append, terminated.append, truncated.append
        if only is None:
            for action in actions:
                observation, reward, is_terminated, is_truncated, _ = step(action)
                see(observation)
                reward_with(reward)
                terminate_with(is_terminated)
                truncate_with(is_truncated)
        elif only.shape:  # The most frequent cases, without a call of ours for each step.
            see_with, dtype, shape, array = only.values.append, only.dtype, only.shape, np.ndarray
            for action in actions:
                observation, reward, is_terminated, is_truncated, _ = step(action)
                if type(observation) is not array or observation.shape != shape or observation.dtype != dtype:
                    raise UnusualError
                see_with(observation.tobytes())
                reward_with(reward)
                terminate_with(is_terminated)
                truncate_with(is_truncated)
        else:
            see_with = only.values.append
            for action in actions:
                observation, reward, is_terminated, is_truncated, _ = step(action)
                see_with(observation)  # An array among the numbers makes no column.
                reward_with(reward)
                terminate_with(is_terminated)
                truncate_with(is_truncated)
        self._simulation.count_steps(len(actions))


def _steps_among(block: BlockOfCalls, actions: Sequence[Any]) -> Array:
    """A mask of the calls that are steps."""
    columns = block.calls.columns
    is_step = np.ones(len(actions), np.bool_)
    others = columns.others if isinstance(columns, NumberInputs) else range(len(actions))
    is_step[[index for index in others if actions[index] is None]] = False
    return is_step


def _plain_resets(block: BlockOfCalls) -> dict[int, dict[str, Any]]:
    """The arguments of the resets that returned and whose states are not compared, by index. Raises ValueError."""
    calls = block.calls
    others = calls.columns.others if isinstance(calls.columns, NumberInputs) else dict(enumerate(calls.columns))
    resets = {}
    for index, inputs in others.items():
        if type(inputs) is dict and "reset" in inputs and calls.first_tick + index not in block.attempts:
            plain = "options" not in inputs
            resets[index] = {"seed": inputs["reset"]} if plain else passed_on(decode_call(inputs)[1])
    for index in block.compared:
        resets.pop(index, None)
    return resets


def _stops(block: BlockOfCalls, is_step: Array) -> list[int]:
    """The indices of the calls that are made one by one."""
    if len(block.compared) == len(is_step):
        return [*range(len(is_step))]
    stops = ~is_step
    stops[block.compared] = True
    return stops.nonzero()[0].tolist()
