"""The rows of the table of transitions, collected as columns whose forms are settled before the first row.

run, environment?, episode, step, tick, agent, env?, seed, options?, obs.*, action.*, reward, next.*, terminated, truncated, info.*?
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import attrs
import numpy as np

from replayer.datasets.rows.columns import AGENT, Block, Column, Labels, Lists, Nested, Texts, joined_blocks, rows_of
from replayer.datasets.rows.states import RUN, TICK
from replayer.datasets.transitions.column_forms import ColumnForm, MisfitError, fit, form_of
from replayer.datasets.transitions.flat_values import Flat, FlatValue, joined
from replayer.datasets.transitions.transition import Transition

TRANSITIONS, ACTIONS = "transitions", "actions"
OBSERVED, DONE, WORTH, THEN, ABOUT = "obs", "action", "reward", "next", "info"
EPISODE, STEP, ENV, SEED, OPTIONS = "episode", "step", "env", "seed", "options"
ENVIRONMENT = "environment"
ENDS = ("terminated", "truncated")
_ROW_BYTES = 100  # Of the columns that are not counted one by one.


@attrs.frozen(eq=False, slots=False)
class TransitionColumns:
    """The columns of the table.

    Attributes:
        forms: of the columns with values from the environment, in order: obs.*, action.*, reward, next.*, info.*.
        left_out: names of columns that the table does not have: not requested, or without numbers.
        has_environment, has_env, has_options: True if the table has these columns. seed_dtype: of the column of seeds.
    """

    forms: Mapping[str, ColumnForm]
    left_out: frozenset[str] = frozenset()
    has_environment: bool = False
    has_env: bool = False
    has_options: bool = False
    seed_dtype: str = "<i8"

    def always_there(self) -> tuple[str, ...]:
        """The columns that not every table has, without those that miss values in some rows."""
        has = {ENVIRONMENT: self.has_environment, ENV: self.has_env}
        return tuple(name for name, is_there in has.items() if is_there)

    @functools.cached_property
    def row_bytes(self) -> int:
        """The size of a transition whose values are all arrays."""
        return _ROW_BYTES + sum(np.dtype(form.dtype).itemsize * math.prod(form.shape) for form in self.forms.values())


def values_of_transition(row: Transition) -> Iterator[tuple[str, FlatValue]]:
    """The values of the columns with forms, by the names of the columns."""
    for prefix, flat in _groups(row):
        for path, value in flat.items():
            yield joined(prefix, path) if path else prefix, value


class _Fitter:
    """Finds the columns of values, and their data for these."""

    def __init__(self, forms: Mapping[str, ColumnForm], left_out: frozenset[str]) -> None:
        self._forms, self._left_out = forms, left_out
        self._known: dict[tuple[str, str], tuple[str, ColumnForm | None, np.dtype[Any] | None]] = {}

    def fitted(self, prefix: str, flat: Flat, tick: int) -> Iterator[tuple[str, Any, int]]:
        """Yield the name of a column, the data for it and its bytes, of those values that have one.

        Raises MisfitError.
        """
        for path, value in flat.items():
            found = self._known.get((prefix, path))
            if found is None:
                name = joined(prefix, path) if path else prefix
                form = self._forms.get(name)
                dtype = np.dtype(form.dtype) if form is not None and form.kind == "array" else None
                found = self._known[prefix, path] = name, form, dtype
            name, form, dtype = found
            data = value.data
            if dtype is not None and value.kind == "array" and data.dtype is dtype and data.shape == form.shape:  # type: ignore[union-attr]
                yield name, data, data.nbytes  # As nearly all values are.
            elif form is not None:
                data = fit(name, tick, value, form)
                yield name, data, getattr(data, "nbytes", 8)
            elif name not in self._left_out:
                raise MisfitError(f"tick {tick:,}: {name} is {form_of(value)}, and there is no such column")


def _groups(row: Transition) -> tuple[tuple[str, Flat], ...]:
    return (
        (OBSERVED, row.observation),
        (DONE, row.action),
        (WORTH, row.reward),
        (THEN, row.next),
        (ABOUT, row.info),
    )


class _RowFacts(NamedTuple):
    """What a row has besides the values from the environment, which are in the columns already."""

    episode: int
    step: int
    tick: int
    agent: str
    env: int | None
    seed: int | None
    options: str | None
    terminated: bool | None
    truncated: bool | None


_facts = operator.attrgetter(*_RowFacts._fields)


class TransitionRows:
    """Collects transitions."""

    def __init__(self, run: str, runs: tuple[str, ...], columns: TransitionColumns, environment: str = "") -> None:
        """run: of the transitions. runs: all of the data set. environment: the label of that of the run."""
        self._run, self._runs, self._columns, self._environment = run, runs, columns, environment
        self.bytes = 0
        self._values: dict[str, list[Any]] = {name: [] for name in columns.forms}
        self._rows: list[_RowFacts] = []
        self._blocks: list[Block] = []
        self._fitter = _Fitter(columns.forms, columns.left_out)

    def add(self, row: Transition) -> None:
        """Add a transition. Raises MisfitError."""
        values, fitted, tick = self._values, self._fitter.fitted, row.tick
        for prefix, flat in _groups(row):
            for name, data, size in fitted(prefix, flat, tick):
                values[name].append(data)
                self.bytes += size
        self.bytes += _ROW_BYTES
        self._rows.append(_RowFacts(*_facts(row)))
        count = len(self._rows)
        for own in values.values():
            if len(own) < count:
                own.append(None)

    def add_columns(self, facts: Mapping[str, Column], values: Mapping[str, Column]) -> None:
        """Add transitions that are columns already, of the settled forms. facts: all columns without a form."""
        self._finish_rows()
        block = self._block(facts, values)
        self._blocks.append(block)
        self.bytes += rows_of(block) * self.row_bytes

    @property
    def row_bytes(self) -> int:
        """See TransitionColumns."""
        return self._columns.row_bytes

    def __len__(self) -> int:
        return len(self._rows) + sum(map(rows_of, self._blocks))

    def take(self) -> Iterator[tuple[str, Block]]:
        """Yield the collected rows with their table, and forget them."""
        self._finish_rows()
        if self._blocks:
            yield TRANSITIONS, joined_blocks(self._blocks)
            self._blocks, self.bytes = [], 0

    def _finish_rows(self) -> None:
        """Turn the rows that were added one by one into columns."""
        rows, columns = self._rows, self._columns
        if not rows:
            return
        flag = ColumnForm("array", "|b1")
        facts: dict[str, Column] = {
            EPISODE: np.array([row.episode for row in rows], np.int64),
            STEP: np.array([row.step for row in rows], np.int64),
            TICK: np.array([row.tick for row in rows], np.int64),
            AGENT: Texts([row.agent for row in rows]),
            ENV: nested([row.env for row in rows], ColumnForm("array", "<i8")),
            SEED: nested([row.seed for row in rows], ColumnForm("array", columns.seed_dtype)),
            OPTIONS: Texts([row.options for row in rows]),
            **{name: nested([getattr(row, name) for row in rows], flag) for name in ENDS},
        }
        values = {name: column_of(self._values[name], form) for name, form in columns.forms.items()}
        self._blocks.append(self._block(facts, values))
        self._rows, self._values = [], {name: [] for name in self._values}

    def _block(self, facts: Mapping[str, Column], values: Mapping[str, Column]) -> Block:
        """Put columns into the order of the table."""
        columns = self._columns
        code = self._runs.index(self._run)
        block: dict[str, Column] = {RUN: Labels(self._runs, np.full(len(facts[TICK]), code, np.int32))}  # type: ignore[arg-type]
        block |= {ENVIRONMENT: Texts([self._environment] * len(facts[TICK]))} if columns.has_environment else {}  # type: ignore[arg-type]
        block |= {name: facts[name] for name in (EPISODE, STEP, TICK, AGENT)}
        block |= {ENV: facts[ENV]} if columns.has_env else {}
        block[SEED] = facts[SEED]
        block |= {OPTIONS: facts[OPTIONS]} if columns.has_options else {}
        infos = {name: column for name, column in values.items() if name.partition(".")[0] == ABOUT}
        block |= {name: column for name, column in values.items() if name not in infos}
        return block | {name: facts[name] for name in ENDS} | infos


class ActionRows:
    """Collects the actions of transitions as a table of their own: a row for each tick and agent that acted.

    run, tick (after the step), agent, action.*
    """

    def __init__(self, run: str, runs: tuple[str, ...], columns: TransitionColumns) -> None:
        """See TransitionRows."""
        self._run, self._runs = run, runs
        self._forms = {name: form for name, form in columns.forms.items() if name.partition(".")[0] == DONE}
        self._fitter = _Fitter(self._forms, columns.left_out)
        self.bytes = 0
        self._rows: list[tuple[int, str, dict[str, Any]]] = []

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, row: Transition) -> None:
        """Add the action of a transition, if it has one. Raises MisfitError."""
        if not row.action:
            return
        values = {}
        for name, data, size in self._fitter.fitted(DONE, row.action, row.tick):
            values[name] = data
            self.bytes += size
        self.bytes += _ROW_BYTES
        self._rows.append((row.end_tick, row.agent, values))

    def take(self) -> Iterator[tuple[str, Block]]:
        """Yield the collected rows with their table, and forget them."""
        if self._rows:
            code = self._runs.index(self._run)
            block: dict[str, Column] = {RUN: Labels(self._runs, np.full(len(self._rows), code, np.int32))}
            block[TICK] = np.array([tick for tick, _, _ in self._rows], np.int64)
            block[AGENT] = Texts([agent for _, agent, _ in self._rows])
            for name, form in self._forms.items():
                block[name] = column_of([values.get(name) for _, _, values in self._rows], form)
            yield ACTIONS, block
            self._rows, self.bytes = [], 0


def column_of(values: list[Any], form: ColumnForm) -> Column:
    """Make a column of values of one form, None where a value is missing."""
    if form.kind == "array":
        return nested(values, form)
    if form.kind != "list":
        return Texts(values, is_list=form.kind == "texts")
    empty = np.zeros((0, *form.shape), form.dtype)
    items = [empty if value is None else value for value in values]
    lengths = np.array([len(item) for item in items], np.int64)
    return Lists(np.concatenate([*items, empty]), lengths, _present(values))


def nested(values: list[Any], form: ColumnForm) -> Nested:
    """Make a column of arrays of one shape, None where a value is missing."""
    present = _present(values)
    if present is None and values:
        return Nested(np.array(values, form.dtype).reshape(len(values), *form.shape), None)
    array = np.zeros((len(values), *form.shape), form.dtype)
    for index, value in enumerate(values):
        if value is not None:
            array[index] = value
    return Nested(array, present)


def _present(values: list[Any]) -> np.ndarray[Any, Any] | None:
    """A mask of the values that are there; None if all are."""
    present = np.array([value is not None for value in values], np.bool_)
    return None if present.all() else present
