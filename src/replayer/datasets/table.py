"""A table of a data set, read through Arrow's C stream, as record batches, or as NumPy arrays.

Invariant: batches are made one after the other on request, so no more than a few are in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, overload

import attrs
import numpy as np
import pyarrow as pa

from replayer.datasets.request import ExtractionError
from replayer.datasets.rows.columns import Array, Lists, Shape

Batches = Callable[[Sequence[str] | None], Iterator[pa.RecordBatch]]  # Of these columns; None is all.


@attrs.frozen(eq=False)
class Columns:
    """The columns of a table.

    Attributes:
        schema: Arrow's.
        shapes: of the values, by name; None for a column of records (actions, events), whose values may be missing.
    """

    schema: pa.Schema
    shapes: Mapping[str, Shape | None]


class DatasetTable:
    """A table that can be read any number of times, by all that read Arrow's C stream: polars, duckdb, pandas, pyarrow.

    Arrow has no tensors of booleans and no complex numbers: the former are uint8, the latter have a last axis of two,
    the real and the imaginary part. numpy() returns both as they were.
    """

    def __init__(self, name: str, describe: Callable[[], Columns], batches: Batches, rows: int | None = None) -> None:
        """describe: called once, when it is first needed. rows: None if the number is not known yet."""
        self.name, self.rows = name, rows
        self._describe, self._batches = describe, batches
        self._known: Columns | None = None

    def __repr__(self) -> str:
        rows = "" if self.rows is None else f", {self.rows:,} rows"
        return f"<table {self.name}{rows}>"

    @property
    def _columns(self) -> Columns:
        if self._known is None:
            self._known = self._describe()
        return self._known

    @property
    def schema(self) -> pa.Schema:
        """The columns as an Arrow schema."""
        return self._columns.schema

    @property
    def shapes(self) -> dict[str, Shape | None]:
        """The dtype and shape of the values by column; None for a column of records."""
        return dict(self._columns.shapes)

    def __arrow_c_schema__(self) -> Any:
        return self.schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self.reader().__arrow_c_stream__(requested_schema)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self._batches(None)

    def select(self, *names: str) -> DatasetTable:
        """Return the table with these columns only; the others are not read from files. Raises ExtractionError."""
        self._ensure_known(names)

        def describe() -> Columns:
            shapes = {name: self._columns.shapes[name] for name in names}
            return Columns(pa.schema([self.schema.field(name) for name in names]), shapes)

        def batches(columns: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
            return self._batches(names if columns is None else columns)

        return DatasetTable(self.name, describe, batches, self.rows)

    def reader(self) -> pa.RecordBatchReader:
        """Return a pyarrow.RecordBatchReader that reads all batches once."""
        return pa.RecordBatchReader.from_batches(self.schema, self._batches(None))

    def to_arrow(self) -> pa.Table:
        """Read the complete table into memory."""
        return self.reader().read_all()

    @overload
    def numpy(self) -> dict[str, Array | Lists]: ...
    @overload
    def numpy(self, name: str) -> Array | Lists: ...

    def numpy(self, name: str | None = None) -> Any:
        """Read a column as an array of (rows, *shape), or all columns by name, into memory.

        Lists are returned as Lists(values, lengths). Text is an array with None for missing values. Numbers with missing
        values are a masked array. Raises ExtractionError for an unknown name.
        """
        if name is not None:
            return self._read([name])[name]
        return self._read(list(self._columns.shapes))

    def _read(self, names: list[str]) -> dict[str, Array | Lists]:
        shapes = self._columns.shapes
        self._ensure_known(names)
        pieces: dict[str, list[Any]] = {name: [] for name in names}
        for batch in self._batches(names):
            for name in names:
                pieces[name].append(values_of(batch, name, shapes[name]))
        empty = self.schema.empty_table().to_batches() or [pa.RecordBatch.from_pylist([], schema=self.schema)]
        return {
            name: _joined(pieces.pop(name) or [values_of(empty[0], name, shapes[name])]) for name in names
        }  # Popped, so that one column at a time is in memory twice.

    def _ensure_known(self, names: Sequence[str]) -> None:
        shapes = self._columns.shapes
        strange = next((name for name in names if name not in shapes), None)
        if strange is not None:
            raise ExtractionError(f"table {self.name} has no column {strange}; columns: {', '.join(shapes)}")


def values_of(batch: pa.RecordBatch, name: str, shape: Shape | None) -> Array | Lists:
    """Convert a column of a batch for NumPy, see DatasetTable.numpy()."""
    column = batch.column(name)
    if pa.types.is_dictionary(column.type):
        texts = np.array(column.dictionary.to_pylist(), dtype=str)
        return texts[column.indices.to_numpy(zero_copy_only=False)] if len(texts) else np.zeros(len(column), str)
    if pa.types.is_string(column.type) or (shape is not None and shape.dtype == "text"):
        return np.array([*column.to_pylist(), None], dtype=object)[:-1]
    if shape is None:
        values = column.fill_null(False if pa.types.is_boolean(column.type) else 0)
        filled = values.to_numpy(zero_copy_only=False)
        if not column.null_count:
            return filled  # type: ignore[no-any-return]
        return np.ma.masked_array(filled, column.is_null().to_numpy(zero_copy_only=False))
    if shape.is_list:
        lengths = column.value_lengths().fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
        present = column.is_valid().to_numpy(zero_copy_only=False) if column.null_count else None
        return Lists(_flat(column.flatten(), shape), lengths, present)
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    if not column.null_count:
        return _flat(column, shape)
    present = column.is_valid().to_numpy(zero_copy_only=False)
    values = np.zeros((len(column), *shape.shape), shape.dtype)
    values[present] = _flat(column.drop_null(), shape)
    return np.ma.masked_array(values, np.broadcast_to(~present.reshape(-1, *(1,) * len(shape.shape)), values.shape))


def _flat(column: pa.Array, shape: Shape) -> Array:
    """Unpack numbers from nested lists of fixed lengths, and give them their shape."""
    rows = len(column)
    while pa.types.is_fixed_size_list(column.type):
        column = column.flatten()
    values = column.to_numpy(zero_copy_only=False)
    if shape.dtype == "|b1" and values.dtype != np.bool_:
        values = values.view(np.bool_)
    if shape.dtype[1] == "c":
        values = np.ascontiguousarray(values).view(shape.dtype)
    return values.reshape(rows, *shape.shape)  # type: ignore[no-any-return]


def _joined(pieces: list[Any]) -> Array | Lists:
    if isinstance(pieces[0], Lists):
        values = np.concatenate([piece.values for piece in pieces])
        masks = [np.ones(len(piece.lengths), np.bool_) if piece.present is None else piece.present for piece in pieces]
        present = np.concatenate(masks)
        return Lists(values, np.concatenate([piece.lengths for piece in pieces]), None if present.all() else present)
    if any(isinstance(piece, np.ma.MaskedArray) for piece in pieces):
        return np.ma.concatenate(pieces)  # type: ignore[no-any-return, no-untyped-call]
    return np.concatenate(pieces)
