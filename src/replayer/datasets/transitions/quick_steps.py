"""Replay an environment whose observations, actions and rewards are single numbers or arrays, block by block.

The rows of a block are made as columns: nothing is made for a row alone, and the inputs of a block are decoded at once.
Each state is proved as everywhere else. Where anything is unusual, the rows end, and those that follow have to be made
step by step (transitions_of_part), which says what it is.

Invariant: the rows equal those that transitions_of_part gives, in value and dtype.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import attrs
import numpy as np

from recorder.errors import CorruptError, MissingTickError, SimulationFailedError, TornError
from recorder.format.recording.decoded_blocks import DecodedBlock, decoded_blocks
from replayer.datasets.plan import DatasetPart
from replayer.datasets.request import SAMPLED_TICKS, Request
from replayer.datasets.rows.columns import AGENT, Array, Column, Nested, Texts, rows_of
from replayer.datasets.rows.states import TICK
from replayer.datasets.transitions.column_forms import ColumnForm
from replayer.datasets.transitions.flat_values import NUMBER_SPACES
from replayer.datasets.transitions.streams import EpisodesOnTape
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
from replayer.playback.cursor import Cursor
from replayer.tape.tape import Tape
from sim.kernel.exactness import Level, level_of
from sim.kernel.simulation import inner_of

# Numbers whose array has this dtype. Any other type is left to the way step by step.
_DTYPES = {kind: np.dtype(kind) for kind in (float, int, bool, np.float64, np.float32, np.int64, np.int32, np.bool_)}
_WHOLE = {int, np.int64}
_EXACT_MAX = 1 << 53  # All whole numbers up to it are exact as float64.
_FLAGS = {bool, np.bool_}


class _UnusualError(Exception):
    """Something that the way step by step has to take care of."""


@attrs.frozen(eq=False)
class QuickRows:
    """Rows of consecutive transitions.

    Attributes:
        facts: the columns that every transition has. values: obs, action, reward and next.
    """

    facts: Mapping[str, Column]
    values: Mapping[str, Column]

    def __len__(self) -> int:
        return rows_of(self.facts)


class QuickSteps:
    """The transitions of a tape, part by part.

    Attributes:
        done: the tick up to which all states of the last part are proved and all of its transitions were yielded; the
            tick before its first one if none is.
    """

    def __init__(self, facts: EnvironmentFacts, columns: TransitionColumns, request: Request, cursor: Cursor) -> None:
        """cursor: one whose tape fits, with a simulation that it takes. It may be anywhere."""
        self.done = 0
        self._facts, self._columns, self._cursor = facts, columns, cursor
        self._is_sampled = request.proof == "sampled"
        self._simulation: Any = cursor.simulation
        self._seen_form, self._done_form = columns.forms[OBSERVED], columns.forms[DONE]
        self._episodes = EpisodesOnTape(facts)
        episodes = facts.episodes
        self._starts = np.array([episode.first_tick for episode in episodes], np.int64)
        self._indices = np.array([episode.index for episode in episodes], np.int64)
        self._seeds = np.array([episode.seed or 0 for episode in episodes], columns.seed_dtype)
        self._seeded = np.array([episode.seed is not None for episode in episodes], np.bool_)
        self._raised, self._attempts = np.array(facts.raised, np.int64), frozenset(facts.raised)
        self._others = {*self._starts.tolist(), *facts.raised}  # The ticks of calls that are no steps.

    @staticmethod
    def fits(facts: EnvironmentFacts, columns: TransitionColumns, request: Request, tape: Tape) -> bool:
        """Return True if nothing that is known without the environment needs the way step by step."""
        forms = columns.forms
        spaces = [facts.space("observation"), facts.space("action")]
        return (
            facts.kind == "single"
            and not request.info
            and not facts.lost
            and bool(facts.episodes)
            and all(space is not None and space["type"] in NUMBER_SPACES for space in spaces)
            and forms.keys() == {OBSERVED, DONE, WORTH, THEN}
            and all(form.kind == "array" for form in forms.values())
            and forms[WORTH] == ColumnForm("array", "<f8")
            and not tape.logs_changes
            and not tape.recording.recorded_hashes.has_hash_chain
        )

    @staticmethod
    def takes(simulation: Any) -> bool:
        """Return True if the environment of a tape that fits can be stepped without its adapter."""
        return (
            inner_of(simulation) is simulation
            and getattr(simulation, "act", None) is not None
            and level_of(simulation) is Level.EXACT
        )

    def rows(self, part: DatasetPart, on_progress: Callable[[int], None]) -> Iterator[QuickRows]:
        """Yield the rows of a part up to its end, or up to something unusual.

        on_progress: called with the ticks done.
        """
        cursor, first = self._cursor, part.ticks.start
        self.done, tick = first - 1, first
        if self._facts.episodes[0].first_tick > first + 1:
            return  # Steps before the first reset are no transitions, and are reported.
        try:
            if cursor.tick != first:
                tick = cursor.place_before(first)
                if cursor.difference() is not None:
                    return
        except (CorruptError, MissingTickError, TornError, SimulationFailedError):
            return
        if tick == first:
            self.done = first
        for block in _pieces(decoded_blocks(cursor.tape.recording, tick + 1, part.last)):
            cursor.tick = None
            try:
                made = self._replayed(block, first)
            except Exception:  # noqa: BLE001 - whatever it is, the way step by step meets it again and reports it
                return
            cursor.tick = block.first_tick + len(block.inputs) - 1
            if cursor.tick < first:
                continue
            self.done = cursor.tick
            if len(made):
                yield made
            on_progress(self.done - first)

    def _replayed(self, block: DecodedBlock, after: int) -> QuickRows:
        """Replay a block and return its rows after a tick. Raises whatever is unusual; the state is then unknown."""
        simulation, last = self._simulation, self._simulation.last
        act, step = simulation.act, simulation.env.step
        actions, stored = self._actions(block)
        observations = _Observations(self._seen_form, len(actions) + 1)
        keep = observations.keep
        rewards: list[Any] = []
        terminated: list[Any] = []
        truncated: list[Any] = []
        observation, skipped, skips = last.observation, 0, simulation.capture_skipped
        if observation is not None or actions[0] is not None:  # None before the first reset.
            keep(0, observation)
        for index, (action, expected) in enumerate(zip(actions, self._compared(block), strict=True), 1):
            is_compared = expected is not None
            if not is_compared and action is not None:
                observation, reward, is_terminated, is_truncated, _ = step(action)
                skipped += 1
            else:
                if skipped:
                    simulation.count_steps(skipped)
                    skipped = 0
                if is_compared is skips:
                    skips = simulation.capture_skipped = not is_compared
                if action is not None:
                    observation, reward, is_terminated, is_truncated, _ = act(action)
                else:
                    simulation.step(block.inputs[index - 1])
                    reward, is_terminated, is_truncated = 0.0, False, False
                    if block.first_tick + index - 1 not in self._attempts:
                        observation = last.observation
            if is_compared and simulation.state.hash() != expected:
                raise _UnusualError
            keep(index, observation)
            rewards.append(reward)
            terminated.append(is_terminated)
            truncated.append(is_truncated)
        is_step = np.array([action is not None for action in actions])
        at = np.flatnonzero(is_step)
        at = at[at + block.first_tick > after]
        values = {OBSERVED: observations.array[at], DONE: stored[at], WORTH: _decimals(rewards)[at]}
        values[THEN] = observations.array[at + 1]
        facts = self._facts_of_rows(at + block.first_tick)
        facts |= {name: Nested(_flags(flags)[at]) for name, flags in zip(ENDS, (terminated, truncated), strict=True)}
        return QuickRows(facts, {name: Nested(array) for name, array in values.items()})

    def _compared(self, block: DecodedBlock) -> list[int | None]:
        """The recorded hashes; None for ticks whose states are not compared."""
        if not self._is_sampled:
            return [*block.hashes]
        # The first episode and the second reset may add attributes, each of which has to be captured as it comes.
        known_tick = min([self._facts.episodes[0].first_tick + SAMPLED_TICKS, *self._starts[1:2].tolist()]) + 1
        begun = known_tick - block.first_tick
        last = len(block.hashes) - 1
        return [one if index < begun or index == last else None for index, one in enumerate(block.hashes)]

    def _actions(self, block: DecodedBlock) -> tuple[list[Any], Array]:
        """The action of each tick, None where the call is no step, and all of them as a column. Raises _UnusualError."""
        form = self._done_form
        dtype, name = np.dtype(form.dtype), form.dtype
        actions: list[Any] = []
        numbers: list[Any] = []
        stored = np.zeros((len(block.inputs), *form.shape), dtype)
        for index, inputs in enumerate(block.inputs):
            kind = type(inputs)
            action: Any = inputs
            if kind is dict:
                number = inputs.get(name) if len(inputs) == 1 and not form.shape else None
                if number is None and block.first_tick + index not in self._others:
                    raise _UnusualError  # Neither a number nor an array of numbers.
                action = None if number is None else dtype.type(number)
                numbers.append(number or 0)
            elif form.shape:
                if kind is not np.ndarray or inputs.dtype is not dtype or inputs.shape != form.shape:
                    raise _UnusualError
                stored[index] = inputs  # Before the step, which may change it.
            elif _DTYPES.get(kind) != dtype:
                raise _UnusualError
            else:
                numbers.append(inputs)
            actions.append(action)
        return actions, stored if form.shape else np.array(numbers, dtype)

    def _facts_of_rows(self, ends: Array) -> dict[str, Column]:
        """The columns without a form, of the steps that led to these ticks."""
        numbers = np.searchsorted(self._starts, ends, side="right") - 1  # Of the episodes in facts.episodes.
        first_ticks = self._starts[numbers]
        raised = np.searchsorted(self._raised, ends) - np.searchsorted(self._raised, first_ticks, side="right")
        facts: dict[str, Column] = {
            EPISODE: self._indices[numbers],
            STEP: ends - 1 - first_ticks - raised,
            TICK: ends - 1,
            AGENT: Texts([""] * len(ends)),
            SEED: Nested(self._seeds[numbers], _unless_all(self._seeded[numbers])),
        }
        if self._columns.has_env:
            facts[ENV] = Nested(np.zeros(len(ends), np.int64), np.zeros(len(ends), np.bool_))
        if self._columns.has_options:
            options = {number: self._episodes.options(self._facts.episodes[number]) for number in np.unique(numbers)}
            facts[OPTIONS] = Texts([options[number] for number in numbers.tolist()])
        return facts


class _Observations:
    """The observations of a block.

    Attributes:
        keep: a function that copies an observation to its index. Raises _UnusualError for one of another form.
    """

    def __init__(self, form: ColumnForm, count: int) -> None:
        self.array = np.zeros((count, *form.shape), form.dtype)
        self.keep = self._keeper(form)

    def _keeper(self, form: ColumnForm) -> Callable[[int, Any], None]:
        array, dtype, shape = self.array, np.dtype(form.dtype), form.shape
        kinds = {kind for kind, own in _DTYPES.items() if own == dtype and not shape}

        def keep(index: int, value: Any) -> None:
            kind = type(value)
            if kind not in kinds and (kind is not np.ndarray or value.dtype is not dtype or value.shape != shape):
                raise _UnusualError
            array[index] = value

        return keep


def _decimals(rewards: list[Any]) -> Array:
    """Rewards as float64. Raises _UnusualError if they are not single numbers, or not exact as such."""
    kinds = {*map(type, rewards)}
    if not kinds <= _DTYPES.keys():
        raise _UnusualError
    array = np.array(rewards, np.float64)
    if kinds & _WHOLE and np.abs(array).max() > _EXACT_MAX:
        raise _UnusualError
    return array


def _flags(flags: list[Any]) -> Array:
    if not {*map(type, flags)} <= _FLAGS:
        raise _UnusualError
    return np.array(flags, np.bool_)


def _unless_all(present: Array) -> Array | None:
    return None if present.all() else present


def _pieces(blocks: Iterator[DecodedBlock]) -> Iterator[DecodedBlock]:
    """The blocks, in pieces at the end of which a state is compared in any case."""
    for block in blocks:
        for start in range(0, len(block.inputs), SAMPLED_TICKS):
            piece = slice(start, start + SAMPLED_TICKS)
            yield DecodedBlock(block.first_tick + start, block.hashes[piece], block.inputs[piece])
