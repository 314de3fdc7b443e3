"""Replay an environment whose observations, actions and rewards are numbers, arrays, or dicts and tuples of these.

The rows of a block of ticks are made as columns: nothing is made for a row alone, and the inputs of a block are decoded at once.
Each state is proved as everywhere else. Where anything is unusual, the rows end, and those that follow have to be made
step by step (transitions_of_part), which says what it is.

Invariant: the rows equal those that transitions_of_part gives, in value and dtype.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import attrs
import numpy as np

from recorder.errors import CorruptError, MissingTickError, SimulationFailedError, TornError
from recorder.format.recording.decoded_blocks import DecodedBlock, TicksInOrder
from replayer.datasets.plan import DatasetPart
from replayer.datasets.request import SAMPLED_TICKS, Request
from replayer.datasets.rows.columns import AGENT, Array, Column, Nested, Texts, cut_block, rows_of
from replayer.datasets.rows.states import TICK
from replayer.datasets.transitions.column_forms import ColumnForm
from replayer.datasets.transitions.quick.quick_calls import BlockOfCalls, ParallelCalls, Replayed, Replayer
from replayer.datasets.transitions.quick.quick_singles import SingleCalls
from replayer.datasets.transitions.quick.quick_turns import TurnsCalls
from replayer.datasets.transitions.quick.quick_vectors import VectorCalls
from replayer.datasets.transitions.quick.space_columns import have_columns
from replayer.datasets.transitions.streams import EpisodesOnTape
from replayer.datasets.transitions.transition import EnvironmentFacts
from replayer.datasets.transitions.transition_rows import (
    DONE,
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

PIECE_TICKS = 4096  # Of a single environment: arrays of many rows take the time of a few.
PIECE_BYTES = 1 << 20  # Of rows: more would only take memory.


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

    def __init__(
        self,
        facts: EnvironmentFacts,
        columns: TransitionColumns,
        request: Request,
        cursor: Cursor,
    ) -> None:
        """cursor: one whose tape fits, with a simulation that it takes. It may be anywhere."""
        self.done = 0
        self._facts, self._columns, self._cursor = facts, columns, cursor
        # The dicts by agent of the others are captured as a graph, which depends on each capture before.
        self._is_sampled = request.proof == "sampled" and facts.kind in ("single", "vector")
        self._replayer = _replayer(cursor.simulation, facts, columns, request)
        self._episodes = EpisodesOnTape(facts)
        self._ticks = TicksInOrder(cursor.tape.recording, cursor.tape.last_tick)
        rows_max = PIECE_BYTES // columns.row_bytes
        # Others than single environments have several rows a tick, and call far more of our code for each.
        self._piece_ticks = max(SAMPLED_TICKS, min(PIECE_TICKS, rows_max)) if facts.kind == "single" else SAMPLED_TICKS
        episodes = facts.episodes
        self._starts = np.array([episode.first_tick for episode in episodes], np.int64)
        self._indices = np.array([episode.index for episode in episodes], np.int64)
        self._seeds = np.array([episode.seed or 0 for episode in episodes], columns.seed_dtype)
        self._seeded = np.array([episode.seed is not None for episode in episodes], np.bool_)
        self._raised, self._attempts = np.array(facts.raised, np.int64), frozenset(facts.raised)
        self._others = frozenset([*self._starts.tolist(), *facts.raised])  # The ticks of calls that are no steps.

    @staticmethod
    def fits(facts: EnvironmentFacts, columns: TransitionColumns, request: Request, tape: Tape) -> bool:
        """Return True if nothing that is known without the environment needs the way step by step."""
        forms, left_out = columns.forms, columns.left_out
        agents = [agent for agent in facts.agents if request.agents is None or agent in request.agents]
        observations = [facts.space("observation", agent) for agent in agents]
        actions = [facts.space("action", agent) for agent in agents]
        return (
            facts.kind in ("single", "vector", "parallel", "turns")
            and not (facts.kind == "vector" and tape.first_tick)
            and not (facts.kind == "turns" and request.ranges)
            and not request.info
            and not facts.lost
            and bool(facts.episodes)
            and bool(agents)
            and have_columns(observations, OBSERVED, forms, left_out)
            and have_columns(observations, THEN, forms, left_out)
            and have_columns(actions, DONE, forms, left_out)
            and [form for name, form in forms.items() if name.partition(".")[0] == WORTH]
            == [ColumnForm("array", "<f8")]
            and not tape.logs_changes
            and not tape.recording.recorded_hashes.has_hash_chain
        )

    @staticmethod
    def takes(facts: EnvironmentFacts, simulation: Any) -> bool:
        """Return True if the environment of a tape that fits can be replayed block by block."""
        name, expected = ("is_parallel", facts.kind == "parallel") if facts.agents != ("",) else ("act", None)
        found = getattr(simulation, name, None)
        is_ready = found is expected if facts.agents != ("",) else found is not None
        return is_ready and inner_of(simulation) is simulation and level_of(simulation) is Level.EXACT

    def leave(self) -> None:
        """Begin the next part at a keyframe: something else has moved the environment since."""
        self._cursor.leave()

    def rows(self, part: DatasetPart, on_progress: Callable[[int], None]) -> Iterator[QuickRows]:
        """Yield the rows of a part up to its end, or up to something unusual.

        on_progress: called with the ticks done.
        """
        self.done = part.ticks.start - 1
        if self._facts.episodes[0].first_tick > part.ticks.start + 1:
            return  # Steps before the first reset are no transitions, and are reported.
        yield from self._rows_from(part, part.ticks.start, on_progress)
        if self._is_sampled and self.done < part.last:
            self._is_sampled = False  # A state may depend on each capture before it, and differ without them.
            yield from self._rows_from(part, max(self.done, part.ticks.start), on_progress)

    def _rows_from(self, part: DatasetPart, first: int, on_progress: Callable[[int], None]) -> Iterator[QuickRows]:
        cursor, tick = self._cursor, first
        try:
            if cursor.tick != first:
                tick = cursor.place_before(self._replayer.start_of(first))
                if cursor.difference() is not None:
                    return
                self._replayer.begin(tick)
        except (CorruptError, MissingTickError, TornError, SimulationFailedError):
            return
        if tick == first:
            self.done = first
        for block in _pieces(self._ticks.blocks(tick + 1, part.last), self._piece_ticks):
            cursor.tick = None
            try:
                made = self._replayed(block, first)
            except Exception:  # noqa: BLE001 - whatever it is, the way step by step meets it again and reports it
                return
            cursor.tick = block.first_tick + len(block) - 1
            if cursor.tick < first:
                continue
            self.done = cursor.tick
            if len(made):
                yield made
            on_progress(self.done - part.ticks.start)

    def _replayed(self, block: DecodedBlock, after: int) -> QuickRows:
        """Replay a block and return its rows after a tick. Raises whatever is unusual; the state is then unknown."""
        made = self._replayer.replay(BlockOfCalls(block, self._compared(block), self._others, self._attempts))
        ends = made.indices + block.first_tick
        first = int(np.searchsorted(ends, after, side="right"))
        facts = {**cut_block(made.facts or self._facts_of_rows(made, ends), first, len(ends))}
        facts |= {name: Nested(column[first:]) for name, column in made.flags.items()}
        return QuickRows(facts, {name: Nested(made.values[name][first:]) for name in self._columns.forms})

    def _compared(self, block: DecodedBlock) -> Sequence[int]:
        """The indices of the ticks whose states are compared: at least one of SAMPLED_TICKS, and the last one."""
        count = len(block)
        if not self._is_sampled:
            return range(count)
        # The first episode and the second reset may add attributes, each of which has to be captured as it comes.
        known_tick = min([self._facts.episodes[0].first_tick + SAMPLED_TICKS, *self._starts[1:2].tolist()]) + 1
        begun = min(count, max(0, known_tick - block.first_tick))
        return sorted({*range(begun), *range(SAMPLED_TICKS - 1, count, SAMPLED_TICKS), count - 1})

    def _facts_of_rows(self, made: Replayed, ends: Array) -> dict[str, Column]:
        """The columns without a form, of the transitions that end at these ticks."""
        begins = ends - 1 if made.begins is None else made.begins
        numbers = np.searchsorted(self._starts, begins, side="right") - 1  # Of the episodes in facts.episodes.
        steps = made.steps
        if steps is None:
            first_ticks = self._starts[numbers]
            raised = np.searchsorted(self._raised, ends) - np.searchsorted(self._raised, first_ticks, side="right")
            steps = begins - first_ticks - raised
        facts: dict[str, Column] = {
            EPISODE: self._indices[numbers],
            STEP: steps,
            TICK: begins,
            AGENT: Texts([""] * len(ends) if made.agents is None else made.agents),
            SEED: Nested(self._seeds[numbers], _unless_all(self._seeded[numbers])),
        }
        if self._columns.has_env:
            facts[ENV] = Nested(np.zeros(len(ends), np.int64), np.zeros(len(ends), np.bool_))
        if self._columns.has_options:
            options = {number: self._episodes.options(self._facts.episodes[number]) for number in np.unique(numbers)}
            facts[OPTIONS] = Texts([options[number] for number in numbers.tolist()])
        return facts


def _replayer(simulation: Any, facts: EnvironmentFacts, columns: TransitionColumns, request: Request) -> Replayer:
    if facts.kind == "single":
        return SingleCalls(simulation, facts, columns)
    if facts.kind == "vector":
        return VectorCalls(simulation, facts, columns, 0)
    if facts.kind == "turns":
        return TurnsCalls(simulation, facts, columns, request)
    return ParallelCalls(simulation, facts, columns, request)


def _unless_all(present: Array) -> Array | None:
    return None if present.all() else present


def _pieces(blocks: Iterator[DecodedBlock], ticks: int) -> Iterator[DecodedBlock]:
    """The blocks, in pieces of as many ticks at most. The state at the end of each is compared in any case."""
    for block in blocks:
        for start in range(0, len(block), ticks):
            yield block.cut(start, min(len(block), start + ticks))
