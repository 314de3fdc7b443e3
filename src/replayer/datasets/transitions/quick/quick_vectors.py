"""Replay a block of the calls of a vector of environments, and collect the transitions of each as columns.

See vector_stream for when the episode of an environment begins and ends.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
import numpy as np
import numpy.typing as npt

from replayer.datasets.rows.columns import AGENT, Array, Column, Nested, Texts
from replayer.datasets.rows.states import TICK
from replayer.datasets.transitions.flat_values import json_text
from replayer.datasets.transitions.quick.quick_calls import BlockOfCalls, Replayed, ensure_compared
from replayer.datasets.transitions.quick.space_columns import EXACT_MAX, SpaceColumns, UnusualError
from replayer.datasets.transitions.transition import EnvironmentFacts
from replayer.datasets.transitions.transition_rows import (
    DONE,
    ENDS,
    ENV,
    EPISODE,
    OBSERVED,
    OPTIONS,
    SEED,
    STEP,
    THEN,
    WORTH,
    TransitionColumns,
)
from replayer.datasets.transitions.vector_stream import NEXT_STEP, SAME_STEP, final_observation
from sim.adapters.gymnasium.inputs import decode_call

_Numbers = npt.NDArray[np.int64]
_BY_ITSELF = 0  # The beginning of an episode that the environment began itself: no seed, no options.


@attrs.define(eq=False)
class _Episodes:
    """The present episodes of the environments.

    Attributes:
        episode, step: of each. beginning: the number of the reset that began it, see VectorCalls. seen: the place of its
            observation. is_over: True if the next step begins another one.
    """

    episode: _Numbers
    step: _Numbers
    beginning: _Numbers
    seen: _Numbers
    is_over: npt.NDArray[np.bool_]

    def copy(self) -> _Episodes:
        """As they are now."""
        return _Episodes(*(getattr(self, field.name).copy() for field in attrs.fields(_Episodes)))


@attrs.define(eq=False)
class _Steps:
    """What each step of a block was, one item a step."""

    index: list[int] = attrs.field(factory=list)
    before: list[_Episodes] = attrs.field(factory=list)
    is_row: list[Any] = attrs.field(factory=list)
    then: list[int] = attrs.field(factory=list)
    rewards: list[Any] = attrs.field(factory=list)
    flags: tuple[list[Any], list[Any]] = attrs.field(factory=lambda: ([], []))
    finals: list[tuple[int, int]] = attrs.field(factory=list)  # Step and environment, in the order of the rows.


class VectorCalls:
    """The calls of a vector of environments. See Replayer for the methods."""

    def __init__(self, simulation: Any, facts: EnvironmentFacts, columns: TransitionColumns, first_tick: int) -> None:
        """first_tick: of the tape."""
        self._simulation, self._columns, self._first_tick = simulation, columns, first_tick
        self._mode, self._count = facts.spaces["autoreset"], int(facts.spaces["envs"])
        self._observed, self._done, self._finals = (
            SpaceColumns(prefix, columns.forms) for prefix in (OBSERVED, DONE, OBSERVED)
        )
        self._space = facts.space("observation")
        action = facts.space("action")
        assert self._space is not None
        assert action is not None
        self._see, self._do = self._observed.batch_adder(self._space), self._done.batch_adder(action)
        self._see_final = self._finals.adder(self._space)
        self._beginnings: list[tuple[int | None, str | None]] = []  # Seed and options of resets.
        self._now: _Episodes | None = None
        self._places = 0  # Of the observations of this block so far, or of the last one.
        self._last: Mapping[str, Array] = {}  # The observations of the last block.

    def start_of(self, first: int) -> int:  # noqa: ARG002 - see Replayer
        """See Replayer. Environments that reset themselves leave no mark in the inputs."""
        return self._first_tick

    def begin(self, tick: int) -> None:
        """See Replayer. Only before the first tick there were no episodes."""
        numbers = np.zeros(self._count, np.int64)
        self._now, self._places, self._beginnings = None, 0, [(None, None)]
        if not tick:
            self._now = _Episodes(numbers - 1, numbers.copy(), numbers.copy(), numbers.copy(), numbers > 0)

    def replay(self, block: BlockOfCalls) -> Replayed:
        """See Replayer."""
        simulation, steps, now = self._simulation, _Steps(), self._now
        if now is None:
            raise UnusualError
        self._take_up(now)
        inputs = block.calls.inputs()
        for index, (action, expected) in enumerate(zip(block.actions(), block.expected, strict=True)):
            tick = block.calls.first_tick + index
            if simulation.capture_skipped is (expected is not None):
                simulation.capture_skipped = expected is None
            if action is not None:
                self._do(action)
                self._step(index, simulation.act(action), now, steps)
            else:
                simulation.step(inputs[index])
                if tick not in block.attempts:
                    self._reset(inputs[index], now)
            ensure_compared(simulation, expected)
        return self._replayed(steps, block.calls.first_tick)

    def _take_up(self, now: _Episodes) -> None:
        """Begin a block with the observations of the last one."""
        kept = self._kept(now) if self._places else None
        for columns in (self._observed, self._done, self._finals):
            columns.clear()
        self._places = 0
        now.seen[:] = 0
        if kept is not None:
            self._observed.add_parts(kept)
            self._places = 1

    def _kept(self, now: _Episodes) -> dict[str, Array]:
        envs = np.arange(self._count)
        return {name: column[now.seen, envs] for name, column in self._last.items()}

    def _look(self, observation: Any) -> int:
        self._see(observation)
        self._places += 1
        return self._places - 1

    def _step(self, index: int, result: Any, now: _Episodes, steps: _Steps) -> None:
        observation, reward, terminated, truncated, _ = result
        is_row = (now.episode >= 0) & ~now.is_over
        steps.index.append(index)
        steps.before.append(now.copy())
        steps.is_row.append(is_row)
        then = self._look(observation)
        steps.then.append(then)
        steps.rewards.append(_one_for_each(reward, self._count).copy())
        for flags, found in zip(steps.flags, (terminated, truncated), strict=True):
            if _one_for_each(found, self._count).dtype != np.bool_:
                raise UnusualError
            flags.append(found.copy())
        ends = is_row & (terminated | truncated)
        begins = now.is_over.copy()
        now.step += is_row
        now.seen[now.episode >= 0] = then
        if self._mode == SAME_STEP:
            begins |= ends
            for env in np.flatnonzero(ends).tolist():
                self._see_final(final_observation(self._simulation.info, self._space, env, index))
                steps.finals.append((len(steps.index) - 1, env))
        now.is_over = ends if self._mode == NEXT_STEP else np.zeros_like(ends)
        now.episode += begins
        now.step[begins], now.beginning[begins] = 0, _BY_ITSELF

    def _reset(self, inputs: Any, now: _Episodes) -> None:
        kind, arguments = decode_call(inputs)
        if kind != "reset":
            raise UnusualError
        seed, options = arguments["seed"], arguments["options"]
        mask = options.get("reset_mask") if isinstance(options, dict) else None
        text = None if options is None else json_text(options)
        place = self._look(self._simulation.last.observation)
        for env in range(self._count):
            if mask is None or bool(np.asarray(mask)[env]):
                own = seed[env] if isinstance(seed, list) else None if seed is None else seed + env
                now.episode[env] += 1
                now.step[env], now.beginning[env], now.seen[env] = 0, len(self._beginnings), place
                now.is_over[env] = False
                self._beginnings.append((own, text))

    def _replayed(self, steps: _Steps, first_tick: int) -> Replayed:
        observed, done = self._observed.columns(), self._done.columns()
        self._last = observed
        count = self._count
        is_row = np.array(steps.is_row, np.bool_).reshape(-1, count)
        at, env = np.nonzero(is_row)  # By step, then by environment, as the rows come.

        def of_rows(name: str) -> Array:
            return np.array([getattr(one, name) for one in steps.before], np.int64).reshape(-1, count)[at, env]

        then = np.array(steps.then, np.int64)[at]
        seen, indices = of_rows("seen"), np.array(steps.index, np.int64)
        if any(len(column) != len(indices) for column in done.values()):
            raise UnusualError
        values: dict[str, Array] = {name: column[seen, env] for name, column in observed.items()}
        values |= {name: column[at, env] for name, column in done.items()}
        values[WORTH] = _decimals(steps.rewards, count)[at, env]
        values |= {THEN + name.removeprefix(OBSERVED): column[then, env] for name, column in observed.items()}
        self._put_finals(values, steps, is_row)
        flags = [np.array(one, np.bool_).reshape(-1, count)[at, env] for one in steps.flags]
        facts = self._facts(first_tick + indices[at] - 1, env, of_rows)
        return Replayed(indices[at], None, values, dict(zip(ENDS, flags, strict=True)), facts=facts)

    def _put_finals(self, values: Mapping[str, Array], steps: _Steps, is_row: Array) -> None:
        """Put the last observations of episodes in place of those that the next ones begin with."""
        rows = np.cumsum(is_row).reshape(is_row.shape) - 1
        places = [int(rows[one]) for one in steps.finals]
        for name, column in self._finals.columns().items():
            values[THEN + name.removeprefix(OBSERVED)][places] = column

    def _facts(self, ticks: Array, env: Array, of_rows: Any) -> dict[str, Column]:
        begun = [self._beginnings[number] for number in of_rows("beginning").tolist()]
        seeds = np.array([seed or 0 for seed, _ in begun], self._columns.seed_dtype)
        present = np.array([seed is not None for seed, _ in begun], np.bool_)
        facts: dict[str, Column] = {
            EPISODE: of_rows("episode"),
            STEP: of_rows("step"),
            TICK: ticks,
            AGENT: Texts([""] * len(ticks)),
            ENV: Nested(env.astype(np.int64)),
            SEED: Nested(seeds, None if present.all() else present),
        }
        if self._columns.has_options:
            facts[OPTIONS] = Texts([options for _, options in begun])
        return facts


def _one_for_each(value: Any, count: int) -> Array:
    if type(value) is not np.ndarray or value.shape != (count,):
        raise UnusualError
    return value


def _decimals(rewards: list[Array], count: int) -> Array:
    """Rewards as float64. Raises UnusualError if they are not exact as such."""
    kinds = {one.dtype for one in rewards}
    if any(kind.kind not in "biuf" or kind.itemsize > 8 for kind in kinds):
        raise UnusualError
    array = np.array(rewards, np.float64).reshape(-1, count)
    if any(kind.kind in "iu" for kind in kinds) and len(array) and np.abs(array).max() > EXACT_MAX:
        raise UnusualError
    return array
