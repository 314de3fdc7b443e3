"""Build a Zarr store from the parts of a data set: a group for each table, an array for each column.

    DIR/data.zarr/pairs/obs.grid           (row, obs.grid_0, obs.grid_1)
    DIR/data.zarr/pairs/obs.ants           (obs.ants_item): the items of lists, one row after the other,
    DIR/data.zarr/pairs/obs.ants.lengths   (row): the number of items of each row (CF's contiguous ragged arrays)
    DIR/data.zarr/transitions/seed.present (row): false where a value is missing, if any is; zeros stand in its place
    DIR/data.zarr/pairs/train/obs.grid     with splits

Invariant: a shard is written once, complete.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Iterable, Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pyarrow.compute as pc
import zarr
from zarr.codecs import ZstdCodec

from replayer.datasets.dataset import file_table
from replayer.datasets.manifest import PARTS_FORMAT, Tables, described_file
from replayer.datasets.request import ExtractionError
from replayer.datasets.rows.columns import Array, Lists, Shape
from replayer.datasets.table import DatasetTable, values_of
from replayer.datasets.task import Task

STORE = "data.zarr"
CHUNK_BYTES = 1 << 20  # Read at once; more would be wasted on a reader of few rows.
SHARD_BYTES = 16 << 20  # The size of a file; to write one takes about four times its memory.
TEXT_BYTES = 32  # The size of a text, roughly.
LENGTHS, PRESENT = ".lengths", ".present"
_ZSTD = ZstdCodec(level=1)


def ensure_fits(task: Task) -> None:
    """Raise ExtractionError if Zarr cannot hold what the request asks for."""
    record_table = next(iter(task.record_tables), None)
    if record_table is not None:
        raise ExtractionError(
            f"Zarr holds arrays, and the rows of the table {record_table} have no common columns: use parquet or arrow"
        )


def ensure_columns(table: str, columns: Mapping[str, Mapping[str, Any]]) -> None:
    """Raise ExtractionError if Zarr cannot hold these columns."""
    for name in columns:
        if "/" in name or name in (".", "..", "zarr.json"):
            raise ExtractionError(
                f"Zarr cannot hold a column called {name} (table {table}): leave it out (--field with the names of others), "
                "or use parquet"
            )
        if columns[name]["is_list"] and f"{name}{LENGTHS}" in columns:
            raise ExtractionError(
                f"the column {name}{LENGTHS} clashes with the lengths of {name}, which get this name in Zarr"
            )
        if columns[name]["is_list"] and columns[name]["dtype"] == "text":
            raise ExtractionError(f"Zarr cannot hold {name}, lists of texts (table {table}): use parquet or arrow")
        if f"{name}{PRESENT}" in columns:
            raise ExtractionError(
                f"the column {name}{PRESENT} clashes with the mask of {name}, which gets this name in Zarr"
            )


def versions() -> dict[str, str]:
    """Return the versions of the packages that decide the contents of the store."""
    return {"zarr": metadata.version("zarr")}


def assemble(folder: Path, name: str, tables: Tables, task: Task) -> Tables:
    """Build the store from the Arrow files below folder, and return its entries for the manifest: tables that have rows. Raises OSError."""
    path = folder / STORE
    if path.exists():
        shutil.rmtree(path)
    zarr.create_group(path, attributes={"name": name})
    splits = [split for split, _ in task.request.splits] or [""]
    built: Tables = {}
    for table, entry in tables.items():
        groups = []
        for split in splits:
            rows = file_table(folder, PARTS_FORMAT, table, entry, split or None)
            if rows.rows:
                groups.append(f"{table}/{split}" if split else table)
                _write_table(path, groups[-1], rows)
        if not groups:
            continue  # No rows, such as those of a table of the state that was empty at all ticks.
        files = sorted(file for file in (path / table).rglob("*") if file.is_file())
        root = [path / "zarr.json"] if not built else []
        listed = [described_file(folder, file) for file in [*root, *files]]
        built[table] = {"rows": entry["rows"], "columns": entry["columns"], "groups": groups, "files": listed}
    return built


def _write_table(path: Path, name: str, table: DatasetTable) -> None:
    group = zarr.create_group(path, path=name)
    rows = table.rows
    assert rows is not None
    for column, shape in table.shapes.items():
        assert shape is not None
        about = {}
        present = _present(table, column)
        if not present.all():
            about = {"ancillary_variables": f"{column}{PRESENT}"}
            write_array(group, f"{column}{PRESENT}", Shape("|b1"), rows, "row", {}, [present])
        if shape.is_list:
            count = 0
            lengths = np.zeros(rows, np.int64)
            start = 0
            for batch in table.select(column):
                lengths[start : start + batch.num_rows] = pc.fill_null(pc.list_value_length(batch.column(column)), 0)
                start += batch.num_rows
            count = int(lengths.sum())
            item = f"{column}_item"
            about |= {"sample_dimension": item}
            write_array(group, f"{column}{LENGTHS}", Shape("<i8"), rows, "row", about, [lengths])
            write_array(group, column, shape, count, item, {}, _values(table, column, shape))
        else:
            write_array(group, column, shape, rows, "row", about, _values(table, column, shape))


def _values(table: DatasetTable, column: str, shape: Shape) -> Iterator[Array]:
    for batch in table.select(column):
        values = values_of(batch, column, shape)
        if isinstance(values, Lists):
            yield values.values
        elif values.dtype == object:
            yield np.array(["" if text is None else text for text in values], dtype=str)
        else:
            yield np.ma.getdata(values)


def _present(table: DatasetTable, column: str) -> Array:
    """A mask of the rows whose value is not missing."""
    masks = [batch.column(column).is_valid().to_numpy(zero_copy_only=False) for batch in table.select(column)]
    return np.concatenate([*masks, np.zeros(0, np.bool_)])


@attrs.frozen
class _Grid:
    """The sizes of chunks and shards, in rows."""

    chunk: int
    shard: int

    @classmethod
    def of(cls, row_bytes: int, rows: int) -> _Grid:
        """Choose sizes of about CHUNK_BYTES and SHARD_BYTES, limited by the number of rows."""
        chunk = max(1, min(CHUNK_BYTES // max(row_bytes, 1), rows))
        chunks = max(1, min(SHARD_BYTES // (chunk * max(row_bytes, 1)), -(-rows // chunk)))
        return cls(chunk, chunk * chunks)


def write_array(
    group: zarr.Group,
    name: str,
    shape: Shape,
    rows: int,
    dimension: str,
    attributes: dict[str, Any],
    pieces: Iterable[Array],
) -> None:
    """Write an array of this many rows, given in pieces of any length. Raises OSError."""
    array, shard = create_array(group, name, shape, rows, dimension, attributes)
    fill_array(array, shard, 0, pieces)


def create_array(
    group: zarr.Group, name: str, shape: Shape, rows: int, dimension: str, attributes: dict[str, Any]
) -> tuple[zarr.Array[Any], int]:
    """Create an array without values; return it and the number of rows of a shard."""
    is_text = shape.dtype == "text"
    grid = _Grid.of(TEXT_BYTES if is_text else np.dtype(shape.dtype).itemsize * math.prod(shape.shape), rows)
    inner = tuple(max(size, 1) for size in shape.shape)
    array = group.create_array(
        name,
        shape=(rows, *shape.shape),
        dtype=str if is_text else np.dtype(shape.dtype),
        chunks=(grid.chunk, *inner),
        shards=(grid.shard, *inner),
        compressors=_ZSTD,
        dimension_names=[dimension, *(f"{name}_{axis}" for axis in range(len(shape.shape)))],
        attributes=attributes,
    )
    return array, grid.shard


def fill_array(array: zarr.Array[Any], shard: int, start: int, pieces: Iterable[Array]) -> None:
    """Write the rows from start on, a multiple of shard, to the end."""
    for rows in _regrouped(pieces, shard):
        array[start : start + len(rows)] = rows
        start += len(rows)
    assert start == array.shape[0]


def _regrouped(pieces: Iterable[Array], size: int) -> Iterator[Array]:
    """Yield the same rows in arrays of size rows, the last one with the rest."""
    waiting: list[Array] = []
    count = 0
    for piece in pieces:
        rest = piece
        while count + len(rest) >= size:
            taken = size - count
            yield np.concatenate([*waiting, rest[:taken]])
            rest, waiting, count = rest[taken:], [], 0
        if len(rest):
            waiting.append(rest)
            count += len(rest)
    if waiting:
        yield np.concatenate(waiting)
