"""The table of states: fields at each sampled tick, with one row per tick, or one row per entity or cell."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import numpy as np

from replayer.datasets.request import ExtractionError
from replayer.datasets.rows.columns import Block, Column, Labels, Rows
from replayer.tape.fields import GRAPH_MARK, shown_slots
from sim.kernel.schema import Layout, Slot
from sim.kernel.state import State
from sim.near_names import did_you_mean

Vocabulary = dict[str, tuple[str, ...]]

RUN, TICK, ROW = "run", "tick", "row"


def chosen_slots(layout: Layout, names: Sequence[str], tick: int | None = None) -> list[Slot]:
    """Return the fields of these names. Without names: all but blobs, the scenario's own fields and empty ones.

    Raises ExtractionError for an unknown name, and for a field without values, which no file format can hold.
    """
    if names:
        known = {name: slot for name, slot in layout.slots.items() if not name.startswith("#")}
        unknown = next((name for name in names if name not in known), None)
        if unknown is not None:
            shown = ", ".join(slot.name for slot in shown_slots(layout))
            if GRAPH_MARK in layout.slots:
                shown = f"{shown or 'none'} (what is inside lists, dicts and objects is read by your own functions, --agent-observation)"
            shown = shown or ", ".join(known)
            if tick is None:
                raise ExtractionError(f"there is no field {unknown}; fields: {shown}{did_you_mean(unknown, known)}")
            raise ExtractionError(
                f"there is no field {unknown} at tick {tick:,}; fields there: {shown}. If it is there at other ticks, say "
                f"which with --ticks A..B{did_you_mean(unknown, known)}"
            )
        empty = next((name for name in names if 0 in _value_shape(known[name])), None)
        if empty is not None:
            raise ExtractionError(
                f"the field {empty} has no values, its shape is {_value_shape(known[empty])}: leave it out"
            )
        return [known[name] for name in names]
    return shown_slots(layout)


def _value_shape(slot: Slot) -> tuple[int, ...]:
    """Return the shape of a field, or of one row of a column."""
    return slot.shape if slot.owner is None else slot.shape[1:]


class StateRows:
    """One row per tick: fields of fixed size keep their shape, columns of tables are lists of their live rows."""

    def __init__(self, run: str, fields: Sequence[str], labels: Vocabulary) -> None:
        self._run, self._fields = run, fields
        self._rows = Rows("states", labels)

    def add(self, tick: int, state: State) -> None:
        """Add a sample. Raises ExtractionError."""
        slots = chosen_slots(state.layout, self._fields, tick)
        lists = frozenset(slot.name for slot in slots if slot.owner is not None)
        row = {RUN: self._run, TICK: tick} | {slot.name: state[slot.name].copy() for slot in slots}
        self._rows.add(tick, row, lists)

    @property
    def bytes(self) -> int:
        """The size of the collected rows."""
        return self._rows.bytes

    def take(self) -> Iterator[tuple[str, Block]]:
        """Yield the collected rows with their table, and forget them."""
        if len(self._rows):
            yield "states", self._rows.take()


class _Collected:
    """Rows of a column in one array. A list of arrays would have to be copied once more."""

    def __init__(self) -> None:
        self._memory: np.ndarray | None = None
        self._count = 0

    def add(self, rows: np.ndarray) -> None:
        """Append a copy of rows."""
        memory, begin = self._memory, self._count
        end = begin + len(rows)
        if memory is None:
            memory = self._memory = np.empty((end, *rows.shape[1:]), rows.dtype)
        elif rows.shape[1:] != memory.shape[1:]:
            raise ValueError(f"expected rows of shape {memory.shape[1:]}, got {rows.shape[1:]}")
        elif end > len(memory) or rows.dtype != memory.dtype:  # Another state may have another schema.
            self._memory = np.empty((max(end, 2 * begin), *memory.shape[1:]), np.result_type(memory.dtype, rows.dtype))
            self._memory[:begin] = memory[:begin]
            memory = self._memory
        memory[begin:end] = rows
        self._count = end

    def take(self) -> np.ndarray:
        """Return all rows; later rows go to new memory of the same size."""
        assert self._memory is not None
        rows, self._count = self._memory[: self._count], 0
        self._memory = np.empty_like(self._memory)
        return rows


class StateCells:
    """One row per entity or cell: a table for each table of the state, and one for all fields of the same shape."""

    def __init__(self, run: str, fields: Sequence[str], labels: Vocabulary) -> None:
        self._run, self._fields, self._labels = run, fields, labels
        self._groups: dict[str, dict[str, _Collected]] = {}
        self._ticks: dict[str, list[tuple[int, int]]] = {}  # Tick and number of rows.
        self._shapes: dict[str, tuple[int, ...]] = {}
        self._layout: Layout | None = None
        self._slots: list[tuple[str, list[Slot]]] = []  # By table; valid while the layout stays the same.
        self.bytes = 0

    def add(self, tick: int, state: State) -> None:
        """Add a sample. Raises ExtractionError."""
        if state.layout is not self._layout:
            self._lay_out(state.layout)
        for table, slots in self._slots:
            columns, first = self._groups[table], slots[0]
            count = first.row_count if first.owner is None else state.count(first.owner)
            for slot in slots:
                values = state[slot.name].reshape(count, *slot.shape[len(slot.rows_shape) :])
                columns[slot.name].add(values)
                self.bytes += values.nbytes
            self._ticks[table].append((tick, count))

    def _lay_out(self, layout: Layout) -> None:
        self._layout = layout
        slots = sorted(chosen_slots(layout, self._fields), key=_table_of)
        self._slots = [(table, list(group)) for table, group in itertools.groupby(slots, key=_table_of)]
        for table, group in self._slots:
            columns = self._groups.setdefault(table, {})
            for slot in group:
                columns.setdefault(slot.name, _Collected())
            self._ticks.setdefault(table, [])
            self._shapes[table] = () if group[0].owner is not None else group[0].rows_shape

    def take(self) -> Iterator[tuple[str, Block]]:
        """Yield the collected rows with their table, and forget them."""
        for table, columns in self._groups.items():
            sampled = self._ticks[table]
            if not sampled:
                continue
            ticks = np.repeat([tick for tick, _ in sampled], [count for _, count in sampled])
            texts = self._labels[RUN]
            code = texts.index(self._run)
            block: dict[str, Column] = {RUN: Labels(texts, np.full(len(ticks), code, np.int32)), TICK: ticks}
            block |= self._row_numbers(table, [count for _, count in sampled])
            block |= {name: values.take() for name, values in columns.items()}
            yield table, block
            self._ticks[table] = []
        self.bytes = 0

    def _row_numbers(self, table: str, counts: Sequence[int]) -> dict[str, Column]:
        """Make the columns with the number of each entity, or of each cell by axis; none for single numbers."""
        shape = self._shapes[table]
        if not shape and table == "states":
            return {}
        if not shape:
            return {ROW: np.concatenate([np.arange(count, dtype=np.int32) for count in counts])}
        axes = [axis.reshape(-1).astype(np.int32) for axis in np.indices(shape)]
        return {
            f"{ROW}_{number}" if len(shape) > 1 else ROW: np.tile(axis, len(counts)) for number, axis in enumerate(axes)
        }


def long_tables(layout: Layout, names: Sequence[str]) -> list[str]:
    """List the names of the tables that StateCells makes. Raises ExtractionError."""
    return sorted({_table_of(slot) for slot in chosen_slots(layout, names)})


def _table_of(slot: Slot) -> str:
    """Return the name of the long table of a field."""
    if slot.owner is not None:
        return f"states_{slot.owner}"
    return "_".join(["states", *(["x".join(map(str, slot.rows_shape))] if slot.rows_shape else [])])
