"""Write blocks of rows as Parquet or Arrow files."""

from __future__ import annotations

import io
import itertools
import math
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from replayer.datasets.rows.columns import Array, Block, Column, Labels, Lists, Nested, Texts
from replayer.datasets.rows.records import as_form
from replayer.datasets.stores.arrow_arrays import (
    fixed_lists_array,
    lists_array,
    numbers_array,
    text_lists_array,
    texts_array,
)

ZSTD_LEVEL = 1  # Level 3 makes files of numbers a few per cent smaller and takes 1.5 times as long.


def to_arrow(block: Block) -> pa.RecordBatch:
    """Convert a block: arrays of a fixed shape to fixed-shape tensors, lists to lists, labels to dictionaries of texts.

    Arrow has no complex numbers: they get a last axis of two, the real and the imaginary part.
    """
    columns = {name: _to_array(column) for name, column in block.items()}
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def _to_array(column: Column) -> pa.Array:
    if isinstance(column, Labels):
        return pa.DictionaryArray.from_arrays(numbers_array(column.codes), texts_array(column.texts))
    if isinstance(column, Texts):
        return text_lists_array(column.values) if column.is_list else texts_array(column.values)
    if isinstance(column, Lists):
        return lists_array(_nested(_as_reals(column.values)), column.lengths, column.present)  # type: ignore[arg-type]
    if isinstance(column, Nested):
        return _nested(_as_reals(column.values), column.present)
    column = _as_reals(column)
    if column.ndim == 1:
        return numbers_array(column)
    values = column.view(np.uint8) if column.dtype == np.bool_ else column  # Arrow has no tensors of booleans.
    flat = numbers_array(np.ascontiguousarray(values).reshape(-1))
    shape = values.shape[1:]
    storage = fixed_lists_array(flat, math.prod(shape))
    return pa.ExtensionArray.from_storage(pa.fixed_shape_tensor(flat.type, shape), storage)


def _as_reals(values: Array) -> Array:
    if values.dtype.kind != "c":
        return values
    return np.ascontiguousarray(values)[..., None].view(values.real.dtype)


def _nested(values: Any, present: Any = None) -> pa.Array:
    """Convert arrays of one shape: numbers, or lists of a fixed length for each further axis, null where not present."""
    if values.ndim == 1:
        return numbers_array(values, present)
    array = numbers_array(np.ascontiguousarray(values).reshape(-1))
    for size in reversed(values.shape[2:]):
        array = fixed_lists_array(array, size)
    return fixed_lists_array(array, values.shape[1], present)


class ParquetFile:
    """A Parquet file with dictionaries for labels only, and with byte stream split for numbers, which suits noise.

    tools/bench/extract.py compares this with the default encodings.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._writer: pq.ParquetWriter | None = None

    def write(self, block: Block) -> None:
        """Add rows, as one row group."""
        batch = to_arrow(block)
        if self._writer is None:
            labels, split = _encodings(batch)
            self._writer = pq.ParquetWriter(
                self._path,
                batch.schema,
                compression="zstd",
                compression_level=ZSTD_LEVEL,
                use_dictionary=labels or False,
                use_byte_stream_split=split or False,
                write_statistics=[RUN_COLUMN, TICK_COLUMN],  # For tensors they are useless, and cost time.
            )
        self._writer.write_batch(batch)

    def close(self) -> None:
        """Finish the file."""
        if self._writer is not None:
            self._writer.close()


RUN_COLUMN, TICK_COLUMN = "run", "tick"


def _encodings(batch: pa.RecordBatch) -> tuple[list[str], list[str]]:
    """Return the leaves of the Parquet schema that get a dictionary, and those that get byte stream split."""
    sample = io.BytesIO()
    pq.ParquetWriter(sample, batch.schema).close()
    leaves = pq.ParquetFile(sample).schema
    paths = [(leaves.column(index).path, leaves.column(index).physical_type) for index in range(len(leaves))]
    labels = [path for path, kind in paths if kind == "BYTE_ARRAY"]
    return labels, [path for path, kind in paths if kind in ("INT32", "INT64", "FLOAT", "DOUBLE")]


class ArrowFile:
    """A file in Arrow's own format, uncompressed: it can be mapped into memory."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._writer: pa.ipc.RecordBatchFileWriter | None = None

    def write(self, block: Block) -> None:
        """Add rows, as one record batch."""
        batch = to_arrow(block)
        if self._writer is None:
            self._writer = pa.ipc.new_file(self._path, batch.schema)
        self._writer.write_batch(batch)

    def close(self) -> None:
        """Finish the file."""
        if self._writer is not None:
            self._writer.close()


FILES: dict[str, type[ParquetFile | ArrowFile]] = {"parquet": ParquetFile, "arrow": ArrowFile}

_RECORD_TYPES = {
    "boolean": pa.bool_(),
    "whole": pa.int64(),
    "decimal": pa.float64(),
    "text": pa.string(),
    "json": pa.string(),
}
_RECORD_LABELS = ("run", "agent", "kind")  # Columns with few different texts.


def records_schema(forms: Mapping[str, str]) -> pa.Schema:
    """Return the schema of records with columns of these forms, see records.py."""
    return pa.schema([(name, _RECORD_TYPES[form]) for name, form in forms.items()])


def records_to_arrow(
    forms: Mapping[str, str], rows: Iterable[dict[str, Any]], batch_rows: int
) -> Iterator[pa.RecordBatch]:
    """Yield batches of records with columns of these forms; a missing value is null."""
    schema, waiting = records_schema(forms), iter(rows)
    while batch := list(itertools.islice(waiting, batch_rows)):
        columns = [
            pa.array([as_form(form, row.get(name)) for row in batch], _RECORD_TYPES[form])
            for name, form in forms.items()
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)


def write_records(
    path: Path, file_format: str, forms: dict[str, str], rows: Iterable[dict[str, Any]], batch_rows: int
) -> int:
    """Write rows with columns of these forms, and return their number."""
    count = 0
    with _record_writer(path, file_format, records_schema(forms)) as writer:
        for batch in records_to_arrow(forms, rows, batch_rows):
            writer.write_batch(batch)
            count += batch.num_rows
    return count


def _record_writer(path: Path, file_format: str, schema: pa.Schema) -> Any:
    if file_format == "arrow":
        return pa.ipc.new_file(path, schema)
    labels = [name for name in schema.names if name in _RECORD_LABELS]
    return pq.ParquetWriter(
        path, schema, compression="zstd", compression_level=ZSTD_LEVEL, use_dictionary=labels or False
    )
