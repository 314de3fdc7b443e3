"""The tables of an extraction without files: rows are made, part by part, while they are read.

The reader's process does all the work, and nothing is kept. Memory holds a few batches, and a table that is read twice
is made twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs
import pyarrow as pa

from replayer.datasets.dataset import ensure_known
from replayer.datasets.parts.kept_tape import KeptTapes
from replayer.datasets.parts.worker import Losses, rows_of_part
from replayer.datasets.plan import LOST_KEYFRAME, DatasetPart, open_source
from replayer.datasets.request import ExtractionError, ExtractionWarning
from replayer.datasets.rows.columns import Block, shape_of
from replayer.datasets.rows.records import BATCH_ROWS, Row, column_forms
from replayer.datasets.rows.states import long_tables
from replayer.datasets.stores.arrow_files import records_schema, records_to_arrow, to_arrow
from replayer.datasets.table import Columns, DatasetTable
from replayer.datasets.task import Task
from replayer.playback.make_simulation import make_simulation
from replayer.value_text import tick_range
from sim.user_warning import warn_user


class StreamedDataset:
    """The result of an extraction without files: tables that are made when they are read.

    Attributes:
        manifest: the part that is known before any row is made: request, tapes, versions, notes on tapes left out.
    """

    def __init__(self, task: Task, parts: Sequence[DatasetPart], manifest: Mapping[str, Any]) -> None:
        self.manifest = manifest
        self._task, self._parts = task, parts

    def __repr__(self) -> str:
        return f"<data set of {len(self._task.sources)} tapes, made when it is read ({', '.join(self.tables)})>"

    @property
    def tables(self) -> tuple[str, ...]:
        """The names of the requested tables."""
        names: list[str] = []
        for table in self._task.tables:
            names += self._long_tables() if table == "states" and self._task.request.long else [table]
        return tuple(names)

    def _long_tables(self) -> list[str]:
        with open_source(self._task.sources[0]) as tape:
            return long_tables(make_simulation(tape, self._task.factory).state.layout, self._task.request.fields)

    @property
    def splits(self) -> tuple[str, ...]:
        """The names of the splits; empty if the runs are not split."""
        return tuple(name for name, _ in self._task.request.splits)

    def table(self, name: str, *, split: str | None = None) -> DatasetTable:
        """A table of all runs, or of the runs of one split; nothing is made yet.

        Reading it raises ExtractionError if its rows do not fit together or there are none. At the end it warns with
        ExtractionWarning of missing rows. Raises ExtractionError for an unknown name.
        """
        ensure_known(name, self.tables, split, self.splits)
        kind = name if name in self._task.tables else "states"
        made = _Made(attrs.evolve(self._task, tables=(kind,)), name)
        chosen = [part for part in self._parts if split is None or self._task.sources[part.source].split == split]
        if name in self._task.record_tables:
            return DatasetTable(
                name, lambda: made.record_columns(self._parts), lambda names: made.records(chosen, names)
            )
        return DatasetTable(name, lambda: made.columns(self._parts), lambda names: made.batches(chosen, names))


class _Made:
    """Makes one table."""

    def __init__(self, task: Task, name: str) -> None:
        self._task, self._name = task, name
        self._forms: dict[str, str] | None = None

    def columns(self, parts: Sequence[DatasetPart]) -> Columns:
        """The columns, from the first rows; only those are made."""
        for _, block in self._blocks(parts, buffer_bytes=0):
            return Columns(to_arrow(block).schema, {name: shape_of(column) for name, column in block.items()})
        raise ExtractionError(f"table {self._name} has no rows, so its columns are unknown")

    def batches(self, parts: Sequence[DatasetPart], names: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
        """Make a batch for each block. Raises ExtractionError if a block has different columns than those before it."""
        settled, first = None, ""
        for tape, block in self._blocks(parts):
            shapes = {name: shape_of(column) for name, column in block.items()}
            if settled is None:
                settled, first = shapes, tape
            if shapes != settled:
                differing = sorted(name for name, _ in shapes.items() ^ settled.items())
                raise ExtractionError(
                    f"{first} and {tape} have different columns in table {self._name} "
                    f"({', '.join(dict.fromkeys(differing))}): extract them one by one"
                )
            yield to_arrow(block if names is None else {name: block[name] for name in names})

    def _blocks(self, parts: Sequence[DatasetPart], buffer_bytes: int | None = None) -> Iterator[tuple[str, Block]]:
        for tape, rows in self._rows(parts, buffer_bytes):
            assert not isinstance(rows, list)
            yield tape, rows

    def record_columns(self, parts: Sequence[DatasetPart]) -> Columns:
        """The columns of a table of records. All rows are made once for this."""
        if self._forms is None:
            self._forms = column_forms(lambda: self._records(parts))
        if not self._forms:
            raise ExtractionError(f"table {self._name} has no rows, so its columns are unknown")
        return Columns(records_schema(self._forms), dict.fromkeys(self._forms))

    def records(self, parts: Sequence[DatasetPart], names: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
        """Make batches of records."""
        if self._forms is None:
            self.record_columns(parts)
        assert self._forms is not None
        forms = self._forms if names is None else {name: self._forms[name] for name in names}
        yield from records_to_arrow(forms, self._records(parts), BATCH_ROWS)

    def _records(self, parts: Sequence[DatasetPart]) -> Iterator[Row]:
        for _, rows in self._rows(parts):
            assert isinstance(rows, list)
            yield from rows

    def _rows(
        self, parts: Sequence[DatasetPart], buffer_bytes: int | None = None
    ) -> Iterator[tuple[str, Block | list[Row]]]:
        losses_text: list[str] = []
        with KeptTapes(self._task.sources, self._task.factory) as tapes:
            for part in parts:
                source, losses = self._task.sources[part.source], Losses()
                if source.lost_ticks is not None:
                    losses_text.append(f"{source.name}, {tick_range(*source.lost_ticks)}: {LOST_KEYFRAME}")
                kept = tapes.of(part.source)
                made = rows_of_part(self._task, part, kept, lambda _: None, losses, buffer_bytes=buffer_bytes)
                for name, rows in made:
                    if name == self._name:
                        yield source.name, rows
                losses_text += [
                    f"{source.name}, {tick_range(missing.first_tick, missing.last_tick)}: {missing.why}"
                    for missing in losses.missing
                ]
                losses_text += [f"{source.name}, {problem}" for problem in losses.problems]
        for text in dict.fromkeys(losses_text):
            warn_user(f"missing in table {self._name}: {text}", ExtractionWarning)
